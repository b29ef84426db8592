"""Specialization cache modules: generated text made into a shared library, kept on disk, loaded."""
