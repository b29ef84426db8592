"""`TensorDescriptor` in a trace. Dynamo knows `from_tensor` alone, and forgets the padding."""

from __future__ import annotations

import itertools

from torch._dynamo import variables
from torch._dynamo.variables.functions import TMADescriptorStableVariable
from triton._utils import validate_block_shape
from triton.tools.tensor_descriptor import TensorDescriptor

from .launchers import refuse


def calls() -> tuple:
    return (TensorDescriptor, make), (TensorDescriptor.from_tensor, make_from_tensor)


class DescriptorVariable(TMADescriptorStableVariable):
    """`tensor` has the sizes and strides that are described. Nothing is known of it but as an argument of a launch: it is
    a mutable object, so who reads, changes or keeps it breaks the graph."""

    def __init__(self, tensor, block_shape, padding: str, **kwargs) -> None:
        super().__init__(tensor, block_shape, **kwargs)
        self.padding = padding

    def to_metadata(self):
        return ("stable", (self.block_shape.as_proxy(), self.padding))

    def reconstruct(self, codegen) -> None:
        refuse("a tensor descriptor outlives the call")


def make(tx, args, kwargs) -> DescriptorVariable:
    return _make(tx, ("base", "shape", "strides", "block_shape", "padding"), args, kwargs)


def make_from_tensor(tx, args, kwargs) -> DescriptorVariable:
    return _make(tx, ("tensor", "block_shape", "padding"), args, kwargs)


def _make(tx, names: tuple, args, kwargs) -> DescriptorVariable:
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if len(given) != len(args) + len(kwargs) or not set(given) <= set(names):
        refuse("a tensor descriptor is given unknown arguments")
    padding = given["padding"].as_python_constant() if "padding" in given else "zero"
    tensor, block = given[names[0]].realize(), _constants(tx, given["block_shape"])
    if not tensor.is_tensor():
        refuse("a tensor descriptor of something that is no tensor")
    if "shape" in given:
        tensor = _described(tx, tensor, _numbers(tx, given["shape"]), _numbers(tx, given["strides"]))
    _check(tensor.as_proxy().node.meta["example_value"], _numbers(tx, block), padding)
    return DescriptorVariable(tensor, block, padding)


def _constants(tx, sequence):
    """The block is part of the binary: numbers that vary are guarded by value."""
    items = [item.realize() for item in sequence.realize().unpack_var_sequence(tx)]
    return variables.ListVariable(
        [i if i.is_python_constant() else variables.ConstantVariable.create(i.evaluate_expr()) for i in items]
    )


def _numbers(tx, sequence) -> tuple:
    items = sequence.realize().unpack_var_sequence(tx)
    return tuple(v.as_python_constant() if v.is_python_constant() else v.sym_num for v in (i.realize() for i in items))


def _described(tx, tensor, sizes: tuple, strides: tuple):
    """The tensor itself, or with its dimensions in another order: where that is so whatever the numbers are."""
    value = tensor.as_proxy().node.meta["example_value"]
    have_sizes, have_strides = _plain(value.size()), _plain(value.stride())
    wanted = (_plain(sizes), _plain(strides))
    for order in itertools.permutations(range(value.dim())):
        if wanted == (tuple(have_sizes[i] for i in order), tuple(have_strides[i] for i in order)):
            if order == tuple(range(value.dim())):
                return tensor
            dims = [variables.ConstantVariable.create(dim) for dim in order]
            return tensor.call_method(tx, "permute", dims, {})
    refuse("a tensor descriptor with sizes and strides of its own")


def _plain(numbers) -> tuple:
    return tuple(n.node.expr if hasattr(n, "node") else n for n in numbers)


def _check(value, block: tuple, padding: str) -> None:
    """What `TensorDescriptor` asserts, as guards; where it would raise, plain Python does."""
    try:
        validate_block_shape(list(block))
    except (TypeError, ValueError) as error:
        refuse(f"a tensor descriptor: {error}")
    strides, itemsize = value.stride(), value.dtype.itemsize
    holds = (
        len(block) == value.dim() and 0 < value.dim() <= 5 and padding in ("zero", "nan")
        and (padding == "zero" or value.dtype.is_floating_point)
        and all(stride * itemsize % 16 == 0 for stride in strides[:-1])
        and all(size > 0 for size in value.size()) and strides[-1] == 1
    )  # fmt: skip
    if not holds:
        refuse("a tensor descriptor that Triton refuses")
