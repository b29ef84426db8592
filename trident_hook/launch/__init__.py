"""What launching needs of Python: loading CUBINs, the error that a failed launch raises, and which tensors a kernel
accepts. The launch itself is native (`ext/launch`)."""
