"""Functions that are known: which are served, what was learned of each, what must hold for any call."""
