"""FlagGems' own tests of the 21 operators, without us and with us: outcomes must be the same, test by test.

python -m benchmarks.flag_gems_tests CHECKOUT --out OUT --configs 2 --jobs 12       (flag-gems==5.0.2, pytest-xdist)

CHECKOUT is a checkout of the library's repository, or a folder with the `tests` of one. Those tests call PyTorch's operators
with FlagGems registered for them and compare with PyTorch's own answers. Both runs draw the same random numbers and call each
test three times: with us a function may be found in the first call, captured in the second and served in the third. What
follows `--` is for pytest (`-k`, `--mode quick`). Writes OUT/flag_gems_tests.json after each run; exit status 1 where an
outcome differs, 2 where nothing was run."""

from __future__ import annotations

import argparse
import sys

from benchmarks.library_tests import RUNS, add_arguments, campaign, compare, parse, pytest_line, read

#: The library's marks of these operators' tests: `sum` covers sum_dim, `where` where_self, `pow` pow_tensor_scalar.
MARKS = (
    "add", "mul", "neg", "silu", "gelu", "pow", "lt", "where", "masked_fill", "rms_norm", "layer_norm", "softmax", "embedding",
    "cumsum", "sort", "mm", "addmm", "bmm", "cat", "conv2d", "sum",
)  # fmt: skip
FILES = (
    "test_binary_pointwise_ops.py", "test_unary_pointwise_ops.py", "test_norm_ops.py", "test_reduction_ops.py",
    "test_general_reduction_ops.py", "test_special_ops.py", "test_blas_ops.py", "test_convolution_ops.py",
)  # fmt: skip

__all__ = ["RUNS", "compare", "main", "read"]


def command(run: str, options) -> list[str]:
    """pytest's line."""
    line = [*pytest_line(run, options), "-p", "benchmarks.flag_gems_pytest", "-m", " or ".join(options.ops)]
    files = [options.checkout / "tests" / name for name in FILES]
    return [*line, *options.pytest, *(str(path) for path in files if path.exists())]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--ops", nargs="*", default=list(MARKS), help="marks of the tests to run")
    parser.add_argument("--configs", type=int, help="configs that each of FlagGems' tuners keeps")
    parser.add_argument("--devices", type=int, default=1, help="GPUs that the processes are spread over")
    options = parse(parser, arguments)
    variables = {"FLAG_GEMS_TESTS_CONFIGS": str(options.configs or 0), "FLAG_GEMS_TESTS_DEVICES": str(options.devices)}
    names = ("ops", "configs", "most", "jobs", "devices", "repeat", "pytest")
    chosen = {name: getattr(options, name) for name in names}
    return campaign("flag_gems_tests", lambda run: command(run, options), variables, options, chosen)


if __name__ == "__main__":
    sys.exit(main())
