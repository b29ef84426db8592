"""Tensor descriptors that the host makes for a launch, as arguments of a captured launch: `TensorDescriptor(tensor, sizes,
strides, block)`, where sizes and strides are those of the tensor or of the tensor with its dimensions in another order."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import Unsupported
from ...ir.program import Param, TensorMap

#: Views that only put dimensions in another order: the memory begins at the same place.
_ORDERS = ("aten::permute", "aten::t", "aten::transpose", "aten::numpy_T")


@dataclass(frozen=True)
class Descriptor:
    """`tensor`: the graph node whose memory is described; `order`: the described dimensions of it."""

    tensor: object
    order: tuple[int, ...]
    sizes: tuple  # of ints and SymInts, in the described order
    strides: tuple
    block: tuple[int, ...]  # as the call gave it; a tuner's hook may set another one on the object
    padding: str
    number: int  # the same for two parameters that are given one object

    def made(self, tensor, block: tuple[int, ...] | None = None):
        """A descriptor like the one that the call made, for the tensor of this call. `block`: what a hook has set since."""
        from triton.tools.tensor_descriptor import TensorDescriptor

        made = TensorDescriptor.from_tensor(tensor.permute(self.order), list(self.block), self.padding)
        if block is not None:
            made.block_shape = list(block)
        return made


def descriptors_of(node) -> dict[str, Descriptor]:
    """Of a launch node, by parameter. Views that were made for a descriptor alone are taken out of the graph."""
    found = {}
    arguments = dict(node.kwargs["kwargs"])
    for name, (kind, facts) in node.kwargs["tma_descriptor_metadata"].items():
        if kind != "stable" or len(facts) != 3:  # Dynamo's own account of it loses the padding
            raise Unsupported("launch", "tensor descriptors built on the host by an unknown call")
        view = arguments[name]
        shown = view.meta["val"]
        base, order = _without_reordering(view, tuple(range(shown.dim())))
        block, padding, number = facts
        found[name] = Descriptor(base, order, tuple(shown.size()), tuple(shown.stride()), tuple(block), padding, number)
        arguments[name] = base
    node.kwargs = {**node.kwargs, "kwargs": arguments}
    for dead in reversed(list(node.graph.nodes)):
        if not dead.users and _schema_name(dead) in _ORDERS:
            node.graph.erase_node(dead)
    return found


def _without_reordering(node, order: tuple) -> tuple:
    while _schema_name(node) in _ORDERS:
        rank = node.meta["val"].dim()
        name, rest = _schema_name(node), node.args[1:]
        step = list(range(rank))
        if name == "aten::permute":
            step = [dim % rank for dim in rest[0]]
        elif name == "aten::transpose":
            a, b = (dim % rank for dim in rest)
            step[a], step[b] = b, a
        else:
            step.reverse()
        node, order = node.args[0], tuple(step[dim] for dim in order)
    return node, order


def _schema_name(node) -> str:
    return getattr(getattr(node.target, "_schema", None), "name", "") if node.op == "call_function" else ""


def parameters(name: str, descriptor: Descriptor, meta: dict | None, expr_of) -> list[Param]:
    """What Triton's launcher passes for it: the tensor map, the sizes, the strides. `meta` is the compiled kernel's."""
    if meta is None:
        raise Unsupported("launch", f"tensor descriptor argument {name!r} on a GPU without tensor maps")
    if meta["fp4_padded"]:
        raise Unsupported("launch", f"tensor descriptor argument {name!r} of padded fp4")
    from triton.backends.nvidia.driver import TMA_DTYPE_DEVICE_TO_HOST

    sizes, strides = tuple(map(expr_of, descriptor.sizes)), tuple(map(expr_of, descriptor.strides))
    if len(meta["block_size"]) != len(sizes):
        raise Unsupported("launch", f"tensor descriptor argument {name!r} of another rank than its block")
    shape = TensorMap(
        sizes, strides, tuple(meta["block_size"]), TMA_DTYPE_DEVICE_TO_HOST[meta["elem_type"]], meta["swizzle"],
        meta["elem_size"], descriptor.padding == "nan",
    )  # fmt: skip
    # The driver wants the address to be a multiple of 16, as `TensorDescriptor` does.
    params = [Param(name, "tensormap", expr_of(descriptor.tensor), divisible=True, tensor=True, map=shape)]
    params += [Param(f"{name}_size{i}", "i32", size, declared=True) for i, size in enumerate(sizes)]
    params += [Param(f"{name}_stride{i}", "i64", stride, declared=True) for i, stride in enumerate(strides)]
    return params
