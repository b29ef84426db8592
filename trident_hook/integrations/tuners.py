"""A tuner as Dynamo and the launch recorder see it: an Autotuner whose choice is the real tuner's own."""

from __future__ import annotations

from triton.runtime.autotuner import Autotuner


class TunedKernel(Autotuner):
    """Stands for `tuner` over `kernel`. `configs` are the tuner's, in its order, with what heuristics below it add.

    `run()` is the tuner's; the config that it chose is then found again among ours. Pruning, hooks and timing belong to
    the tuner's own tuning, so Dynamo is shown none of them."""

    def __init__(
        self, tuner, kernel, configs: list, rounded_keys: dict
    ) -> None:  # deliberately without Autotuner's own
        self.tuner, self.fn, self.configs = tuner, kernel, configs
        self.rounded_keys = rounded_keys
        self.base_fn = getattr(kernel, "fn", kernel)
        self.arg_names, self.keys = kernel.arg_names, list(tuner.keys)
        self.perf_model = self.early_config_prune = self.best_config = None
        self.configs_top_k = 1.0
        self.user_defined_pre_hook = self.user_defined_post_hook = self.use_cuda_graph = False
        self.reset_to_zero, self.restore_value, self.cache = [], [], {}

    def run(self, *args, **kwargs):
        compiled = self.tuner.run(*args, **kwargs)
        self.best_config = self._ours(self.tuner.best_config)
        return compiled

    def _ours(self, chosen):
        """None, which is refused later, for a config that the tuner did not have at capture."""
        pairs = list(zip(self.tuner.configs, self.configs, strict=False))
        for original, ours in pairs:
            if original is chosen:
                return ours
        wanted = chosen.all_kwargs()
        return next((ours for original, ours in pairs if original.all_kwargs() == wanted), None)
