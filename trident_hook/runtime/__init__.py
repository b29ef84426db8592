"""What native code calls back while modules are served: watched objects, CUBINs, errors of launches, the device."""
