"""What is recorded of a tensor and of its memory."""

from __future__ import annotations

from typing import Any

import torch


class Storage:
    """The memory that tensors share, known by its address; its bytes where they are to be put back."""

    __slots__ = ("content", "key", "size", "storage")

    def __init__(self, tensor: torch.Tensor, contents: bool) -> None:
        self.storage = tensor.untyped_storage()
        self.key, self.size = self.storage._cdata, self.storage.nbytes()
        self.content = self.storage.clone() if contents and self.size and tensor.device.type != "meta" else None

    def is_as_it_was(self) -> bool:
        """Whether the memory has the bytes of the record."""
        assert self.content is not None
        with torch.no_grad():
            now, then = (
                torch.empty(0, dtype=torch.uint8, device=s.device).set_(s) for s in (self.storage, self.content)
            )
            return torch.equal(now, then)


def storage_key(tensor: torch.Tensor) -> int | None:
    """None for tensors without memory of their own (sparse ones, ...)."""
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return None


def facts(tensor: torch.Tensor) -> tuple[tuple[str, Any], ...]:
    """(name, value) of all that tells a tensor from another, its bits last."""
    found: dict[str, Any] = {
        "dtype": tensor.dtype, "shape": tuple(tensor.shape), "layout": tensor.layout, "device": tensor.device,
        "requires_grad": tensor.requires_grad, "is_leaf": tensor.is_leaf, "grad_fn": grad_fn_of(tensor),
        "is_inference": tensor.is_inference(), "is_conj": tensor.is_conj(), "is_neg": tensor.is_neg(),
        "retains_grad": tensor.retains_grad, "hooks": len(tensor._backward_hooks or ()),
    }  # fmt: skip
    if tensor.layout is torch.strided:
        found["stride"], found["storage_offset"] = tensor.stride(), tensor.storage_offset()
    if not tensor.is_inference():
        found["_version"], found["_is_view()"] = tensor._version, tensor._is_view()
    found["values"] = bits(tensor)
    return tuple(found.items())


def grad_fn_of(tensor: torch.Tensor) -> str:
    """The kind of its grad_fn, and of what stands in front of it."""
    node = tensor.grad_fn
    if node is None:
        return "None"
    return f"{type(node).__name__}({', '.join(type(other).__name__ for other, _ in node.next_functions)})"


def bits(tensor: torch.Tensor) -> bytes | None:
    """The elements in their order. None where there are none to read."""
    if tensor.device.type == "meta" or tensor.numel() == 0:
        return None
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        plain = tensor.detach().as_subclass(torch.Tensor)
        if plain.layout is not torch.strided:
            plain = plain.to_dense()
        plain = plain.resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        try:
            return plain.view(torch.uint8).numpy().tobytes()
        except RuntimeError as error:  # a fake tensor, a functional one: nothing to read
            return f"{type(tensor).__name__} without values ({error})".encode()


def words(tensor: torch.Tensor) -> str:
    """A short text for people."""
    if tensor.device.type == "meta" or tensor.layout is not torch.strided:
        return f"{tensor.dtype} {tuple(tensor.shape)}"
    with torch.no_grad():
        return f"{tensor.dtype} {tuple(tensor.shape)} {tensor.detach().flatten()[:6].tolist()}"
