"""From generated source to a loaded module: Cython, the C compiler, the disk cache, the worker thread."""
