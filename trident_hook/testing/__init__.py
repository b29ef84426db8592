"""Test support that ships with the package: a simulated CUDA driver and the workloads of the demo and the benchmarks.

Importing this package, or any module in it, changes nothing in the process; `simdriver.install()` does.
"""
