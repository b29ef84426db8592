"""`TensorDescriptor` in a trace. Dynamo knows `from_tensor` alone, and forgets the padding."""

from __future__ import annotations

import itertools

from triton._utils import validate_block_shape
from triton.tools.tensor_descriptor import TensorDescriptor

from ..names import AttributeMutation, TMADescriptorStableVariable, current_scope_id, variables
from ..refusal import last_refusal, refuse


def descriptor_class(source):
    """The class in a trace: a class like others (`isinstance`, `type(...) is`) whose instances are ours."""
    variable = variables.UserDefinedClassVariable(TensorDescriptor, source=source)
    variable.call_function = make
    return variable


class _OfTheTrace(AttributeMutation):
    """Of an object that only the trace has: it may be changed wherever it is known."""

    scope = property(lambda self: current_scope_id())

    def __init__(self) -> None:
        pass


_numbers = itertools.count()


class DescriptorVariable(TMADescriptorStableVariable):
    """`tensor` has the sizes and strides that are described. It is an argument of launches, and its block may be set; who
    does anything else with it, reads or keeps it, breaks the graph."""

    def __init__(self, tensor, block_shape, padding: str, **kwargs) -> None:
        super().__init__(tensor, block_shape, **kwargs)
        self.padding, self.mutation_type = padding, _OfTheTrace()
        self.number = next(_numbers)  # which object it is
        self.known = True  # unless a tuner's choice has decided the block

    def python_type(self) -> type:
        return TensorDescriptor

    def to_metadata(self):
        return ("stable", (self.block_shape.as_proxy(), self.padding, self.number))

    def stored(self, tx) -> dict:
        """The attributes that were set so far."""
        return dict(tx.output.side_effects.store_attr_mutations.get(self, {}))

    def store(self, tx, attributes: dict) -> None:
        mutations = tx.output.side_effects.store_attr_mutations
        mutations.pop(self, None)
        if attributes:
            mutations[self] = attributes

    def block(self, tx) -> tuple:
        stored = self.stored(tx)
        if set(stored) - {"block_shape"}:
            refuse("a tensor descriptor is changed in other ways than its block")
        if "block_shape" in stored:
            return _numbers_of(tx, _constants(tx, stored["block_shape"]))
        if not self.known:
            refuse("a tensor descriptor whose block a tuner's choice has set is used where it is not set again")
        return _numbers_of(tx, self.block_shape)

    def leave(self, tx, block: tuple | None) -> None:
        """From now on it has this block; None: one that is not known while tracing."""
        self.known = block is not None
        constants = [variables.ConstantVariable.create(number) for number in block or ()]
        self.store(tx, {"block_shape": variables.ListVariable(constants)} if self.known else {})

    def settle(self, tx, may_be_set: bool) -> None:
        """Before a launch; `may_be_set`: its tuner's hooks may set the block, and if it is not known they do."""
        if may_be_set and not self.known and not self.stored(tx):
            return
        self.block_shape = variables.ListVariable([variables.ConstantVariable.create(n) for n in self.block(tx)])

    def reconstruct(self, codegen) -> None:
        refuse(last_refusal() or "a tensor descriptor outlives the call")  # behind a graph break, which has its reason


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
        tensor = _described(tx, tensor, given["shape"], _numbers_of(tx, given["strides"]))
    _check(tensor.as_proxy().node.meta["example_value"], _numbers_of(tx, block), padding)
    return DescriptorVariable(tensor, block, padding)


def _constants(tx, sequence):
    """The block is part of the binary: numbers that vary are guarded by value."""
    items = [item.realize() for item in sequence.realize().unpack_var_sequence(tx)]
    return variables.ListVariable(
        [i if i.is_python_constant() else variables.ConstantVariable.create(i.evaluate_expr()) for i in items]
    )


def _numbers_of(tx, sequence) -> tuple:
    items = sequence.realize().unpack_var_sequence(tx)
    return tuple(v.as_python_constant() if v.is_python_constant() else v.sym_num for v in (i.realize() for i in items))


def _described(tx, tensor, shape, strides: tuple):
    """The tensor itself, or with its dimensions in another order, where that is so whatever the numbers are; or a view of
    other sizes."""
    value, sizes = tensor.as_proxy().node.meta["example_value"], _numbers_of(tx, shape)
    have_sizes, have_strides = _plain(value.size()), _plain(value.stride())
    wanted = (_plain(sizes), _plain(strides))
    for order in itertools.permutations(range(value.dim())):
        if wanted == (tuple(have_sizes[i] for i in order), tuple(have_strides[i] for i in order)):
            if order == tuple(range(value.dim())):
                return tensor
            dims = [variables.ConstantVariable.create(dim) for dim in order]
            return tensor.call_method(tx, "permute", dims, {})
    if _is_view(value, sizes, strides):
        return tensor.call_method(tx, "view", [size.realize() for size in shape.realize().unpack_var_sequence(tx)], {})
    refuse("a tensor descriptor with sizes and strides of its own")


def _is_view(value, sizes: tuple, strides: tuple) -> bool:
    """Whether all of a tensor is described, in rows of another length: `tensor.view(sizes)`. That it is becomes a guard."""
    if len(sizes) != len(strides):
        return False
    try:
        viewed = value.view(sizes)
    except RuntimeError:
        return False
    return all(wanted == has for wanted, has in zip(strides, viewed.stride(), strict=True))


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
