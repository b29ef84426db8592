"""The simulated libcuda seen from Python: the loaded library, its structures, and launches as records.

Mirrors `ext/simcuda/simcuda.h`; a change there is a change here.
"""

from __future__ import annotations

import ctypes as C
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

MAX_DEVICES = 16
_MAX_ATTRS = 8
_ATTR_WORDS = 4


class CLaunch(C.Structure):
    """`sim_launch`."""

    _fields_ = [
        ("name", C.c_char_p),
        ("stream", C.c_uint64),
        ("function", C.c_uint64),
        ("image", C.c_int32),
        ("device", C.c_int32),
        ("grid", C.c_uint32 * 3),
        ("block", C.c_uint32 * 3),
        ("shared", C.c_uint32),
        ("max_dynamic_shared", C.c_int32),
        ("nonportable_cluster", C.c_int32),
        ("via_ex", C.c_int32),
        ("n_attrs", C.c_int32),
        ("attr_id", C.c_int32 * _MAX_ATTRS),
        ("attr_value", (C.c_uint32 * _ATTR_WORDS) * _MAX_ATTRS),
        ("n_params", C.c_int32),
        ("blob_size", C.c_uint32),
        ("param_offset", C.POINTER(C.c_uint32)),
        ("param_size", C.POINTER(C.c_uint32)),
        ("blob", C.POINTER(C.c_ubyte)),
    ]


class CTensorMap(C.Structure):
    """`sim_tensor_map`."""

    _fields_ = [
        ("address", C.c_uint64),
        ("dims", C.c_uint64 * 5),
        ("strides", C.c_uint64 * 5),
        ("box", C.c_uint32 * 5),
        ("rank", C.c_int32),
        ("data_type", C.c_int32),
        ("swizzle", C.c_int32),
        ("oob_fill", C.c_int32),
    ]


Callback = C.CFUNCTYPE(C.c_int, C.POINTER(CLaunch))

_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "sim_configure": (None, [C.c_int, C.c_int]),
    "sim_device_count": (C.c_int, []),
    "sim_current_device": (C.c_int, []),
    "sim_current_stream": (C.c_uint64, [C.c_int]),
    "sim_set_device": (None, [C.c_int]),
    "sim_set_stream": (None, [C.c_int, C.c_uint64]),
    "sim_has_context": (C.c_int, []),
    "sim_clear_context": (None, []),
    "sim_record": (None, [C.c_int]),
    "sim_set_callback": (None, [C.c_void_p]),
    "sim_take_launch": (C.POINTER(CLaunch), []),
    "sim_free_launch": (None, [C.POINTER(CLaunch)]),
    "sim_dropped_launches": (C.c_uint64, []),
    "sim_clear_launches": (None, []),
    "sim_image": (C.c_void_p, [C.c_int, C.POINTER(C.c_size_t)]),
    "sim_live_modules": (C.c_int, []),
    "sim_call_name": (C.c_char_p, [C.c_int]),
    "sim_call_count": (C.c_uint64, [C.c_int]),
    "sim_reset_counts": (None, []),
    "sim_inject": (C.c_int, [C.c_char_p, C.c_int, C.c_int, C.c_int, C.c_int]),
    "sim_injected": (C.c_int, [C.c_int]),
    "sim_withdraw": (None, [C.c_int]),
    "sim_error_code": (C.c_int, [C.c_char_p]),
    "sim_strict_pointers": (None, [C.c_int]),
    "sim_register_range": (C.c_int, [C.c_uint64, C.c_uint64, C.c_int]),
    "sim_unregister_range": (C.c_int, [C.c_uint64]),
    "sim_clear_ranges": (None, []),
    "sim_decode_tensor_map": (C.c_int, [C.c_char_p, C.POINTER(CTensorMap)]),
    "cuInit": (C.c_int, [C.c_uint]),
}

lib: C.CDLL | None = None  # once loaded, loaded for the life of the process


def load(path: str) -> C.CDLL:
    """Loads the library so that every later `dlopen("libcuda.so.1")` of the process finds it. Idempotent."""
    global lib
    if lib is None:
        lib = C.CDLL(path, mode=C.RTLD_GLOBAL)
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
    return lib


def loaded() -> C.CDLL:
    if lib is None:
        raise RuntimeError("The simulated CUDA driver is not loaded. Call simdriver.install() first.")
    return lib


def image_digest(image: bytes) -> str:
    """How a CUBIN is identified. Padding at the end is not counted: the driver learns the size from the ELF tables."""
    return hashlib.sha256(image.rstrip(b"\0")).hexdigest()


def image_bytes(image: int) -> bytes:
    size = C.c_size_t()
    address = loaded().sim_image(image, C.byref(size))
    if not address:
        raise KeyError(image)
    return C.string_at(address, size.value)


@cache
def digest_of_image(image: int) -> str:
    return image_digest(image_bytes(image))


@cache
def call_names() -> list[str]:
    names: list[str] = []
    while (name := loaded().sim_call_name(len(names))) is not None:
        names.append(name.decode())
    return names


@dataclass(frozen=True)
class TensorMap:
    """A tensor map as it was requested; dimensions from the innermost out, strides in bytes from the second on."""

    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    data_type: int
    swizzle: int
    oob_fill: int

    @classmethod
    def decode(cls, raw: bytes) -> TensorMap:
        out = CTensorMap()
        if len(raw) != 128 or loaded().sim_decode_tensor_map(raw, C.byref(out)) != 0:
            raise ValueError("These bytes are not a tensor map of the simulated driver.")
        rank = out.rank
        return cls(
            out.address,
            tuple(out.dims[:rank]),
            tuple(out.strides[: rank - 1]),
            tuple(out.box[:rank]),
            out.data_type,
            out.swizzle,
            out.oob_fill,
        )


_CLUSTER = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_ATTR_WORDS_USED = {2: 1, 4: 3, 5: 1, 6: 1, 8: 1}


@dataclass(frozen=True)
class Launch:
    """One launch that the driver accepted, with the raw bytes of every parameter."""

    name: str
    image: str  # digest of the CUBIN, see image_digest
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared: int
    stream: int
    device: int
    attrs: tuple[tuple[int, tuple[int, ...]], ...]  # (CUlaunchAttributeID, its words), in order
    params: tuple[bytes, ...]
    max_dynamic_shared: int
    nonportable_cluster: bool
    via_ex: bool = field(metadata={"compare": False})
    offsets: tuple[int, ...] = field(metadata={"compare": False}, repr=False)
    function: int = field(metadata={"compare": False}, repr=False)
    image_id: int = field(metadata={"compare": False}, repr=False)

    def same(self, other: Launch, ignore: Sequence[str] = ()) -> list[str]:
        """Names of the fields that differ. The entry point (`via_ex`) and the function handle do not count."""
        return [
            f.name
            for f in fields(self)
            if f.metadata.get("compare", True)
            and f.name not in ignore
            and getattr(self, f.name) != getattr(other, f.name)
        ]

    @property
    def image_bytes(self) -> bytes:
        return image_bytes(self.image_id)

    @classmethod
    def from_c(cls, it: CLaunch) -> Launch:
        attrs = tuple(
            (it.attr_id[i], tuple(it.attr_value[i][: _ATTR_WORDS_USED.get(it.attr_id[i], _ATTR_WORDS)]))
            for i in range(it.n_attrs)
        )
        blob = C.string_at(it.blob, it.blob_size) if it.blob_size else b""
        offsets = tuple(it.param_offset[: it.n_params])
        sizes = it.param_size[: it.n_params]
        return cls(
            name=it.name.decode(),
            image=digest_of_image(it.image),
            grid=tuple(it.grid),
            block=tuple(it.block),
            cluster=next((words for id_, words in attrs if id_ == _CLUSTER), (1, 1, 1)),
            shared=it.shared,
            stream=it.stream,
            device=it.device,
            attrs=attrs,
            params=tuple(blob[at : at + size] for at, size in zip(offsets, sizes, strict=True)),
            max_dynamic_shared=it.max_dynamic_shared,
            nonportable_cluster=bool(it.nonportable_cluster),
            via_ex=bool(it.via_ex),
            offsets=offsets,
            function=it.function,
            image_id=it.image,
        )


class LaunchLog(Sequence[Launch]):
    """Every recorded launch, oldest first. Recording happens in C; the records are fetched when the log is read."""

    def __init__(self) -> None:
        self._items: list[Launch] = []

    def _fetch(self) -> list[Launch]:
        if lib is not None:
            while taken := lib.sim_take_launch():
                try:
                    self._items.append(Launch.from_c(taken.contents))
                finally:
                    lib.sim_free_launch(taken)
        return self._items

    def __len__(self) -> int:
        return len(self._fetch())

    def __getitem__(self, index):
        return self._fetch()[index]

    def __repr__(self) -> str:
        return f"<{len(self)} launches: {[it.name for it in self._items[-8:]]}>"

    @property
    def dropped(self) -> int:
        """Launches lost because nobody looked at the log for 65536 launches."""
        return int(lib.sim_dropped_launches()) if lib is not None else 0

    def clear(self) -> None:
        self._items.clear()
        if lib is not None:
            lib.sim_clear_launches()
