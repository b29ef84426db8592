"""Guards by kind: what passes, and the smallest change that must miss."""
