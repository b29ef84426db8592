"""PyTorch's own operator samples through `trident_hook.jit`: see `check` for what is compared, `run` for a report."""
