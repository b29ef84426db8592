"""The parts that programs are made of, one function each. Importing this package registers them."""

from . import answers, autograd, classes, containers, effects, errors, kernels, modes, objects, operators, tensors

__all__ = ["answers", "autograd", "classes", "containers", "effects", "errors", "kernels", "modes", "objects", "operators",
           "tensors"]  # fmt: skip
