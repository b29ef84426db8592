"""A tuner as Dynamo and the launch recorder see it: an Autotuner whose choice is the real tuner's own."""

from __future__ import annotations

from triton.runtime.autotuner import Autotuner


class TunedKernel(Autotuner):
    """Stands for `tuner` over `kernel`. `configs` are the tuner's, in its order, with what heuristics below it add.

    `run()` is the tuner's; the config that it chose is then found again among ours. Pruning, hooks and timing belong to
    the tuner's own tuning, so Dynamo is shown none of them. `hooks`: of its configs, where they were traced."""

    def __init__(self, tuner, kernel, configs: list, rounded_keys: dict, hooks=None) -> None:  # without Autotuner's own
        self.tuner, self.fn, self.configs = tuner, kernel, configs
        self.originals, self.pre_hooks = list(tuner.configs), [config.pre_hook for config in tuner.configs]
        self.rounded_keys, self.hooks = rounded_keys, hooks
        self.base_fn = getattr(kernel, "fn", kernel)
        self.arg_names, self.keys = kernel.arg_names, list(tuner.keys)
        self.perf_model = self.early_config_prune = self.best_config = None
        self.configs_top_k = 1.0
        self.user_defined_pre_hook = self.user_defined_post_hook = self.use_cuda_graph = False
        self.reset_to_zero: list = []
        self.restore_value: list = []
        self.cache: dict = {}

    def run(self, *args, **kwargs):
        compiled = self.tuner.run(*args, **kwargs)
        self.best_config = self._ours(self.tuner.best_config)
        return compiled

    def run_chosen(self, index: int, grid, *args, **kwargs):
        """A launch with that config behind its hook, which has been called."""
        return self.tuner.fn[grid](*args, **kwargs, **self.originals[index].all_kwargs())

    def index_of(self, ours) -> int | None:
        """Of one of our configs, as `best_config` is."""
        return next((index for index, config in enumerate(self.configs) if config is ours), None)

    def _ours(self, chosen):
        """None, which is refused later, for a config that the tuner did not have at capture."""
        for original, ours in zip(self.originals, self.configs, strict=True):
            if original is chosen:
                return ours
        wanted = chosen.all_kwargs()
        for original, ours, hook in zip(self.originals, self.configs, self.pre_hooks, strict=True):
            if original.all_kwargs() == wanted and (self.hooks is None or chosen.pre_hook is hook):
                return ours
        return None
