"""Launches a compiled kernel through cuda-python and nothing else, with parameters packed by the test."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

from cuda.bindings import driver


def check(result: tuple[Any, ...]) -> Any:
    """The values of a cuda-python call that must succeed."""
    status, *values = result
    assert status == driver.CUresult.CUDA_SUCCESS, driver.cuGetErrorName(status)
    return values[0] if len(values) == 1 else tuple(values)


class Kernel:
    """A CUBIN loaded by hand."""

    def __init__(self, compiled: Any, image: bytes | None = None) -> None:
        self.metadata = compiled.metadata
        if not int(check(driver.cuCtxGetCurrent())):
            check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
        self.module = check(driver.cuModuleLoadData(image or compiled.asm["cubin"]))
        self.function = check(driver.cuModuleGetFunction(self.module, self.metadata.name.encode()))
        attribute = driver.CUfunction_attribute
        if self.metadata.shared > 49152:
            optin = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
            most = check(driver.cuDeviceGetAttribute(optin, 0))
            static = check(driver.cuFuncGetAttribute(attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, self.function))
            limit = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(driver.cuFuncSetAttribute(self.function, limit, most - static))

    def try_launch(
        self, grid: Sequence[int], params: Sequence[bytes], stream: int = 0, block: int | None = None, shared: int = -1
    ) -> Any:
        """The CUresult of cuLaunchKernel."""
        grid = (*grid, 1, 1)[:3]
        buffers = [ctypes.create_string_buffer(raw, len(raw)) for raw in params]
        array = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
        block = self.metadata.num_warps * 32 if block is None else block
        shared = self.metadata.shared if shared < 0 else shared
        return driver.cuLaunchKernel(
            self.function, grid[0], grid[1], grid[2], block, 1, 1, shared, stream, ctypes.addressof(array), 0
        )[0]

    def launch(self, grid: Sequence[int], params: Sequence[bytes], stream: int = 0) -> None:
        assert self.try_launch(grid, params, stream) == driver.CUresult.CUDA_SUCCESS

    def launch_ex(self, grid: Sequence[int], params: Sequence[bytes]) -> None:
        """cuLaunchKernelEx, with the attributes that Triton sets."""
        config = driver.CUlaunchConfig()
        grid = (*grid, 1, 1)[:3]
        config.gridDimX, config.gridDimY, config.gridDimZ = grid[0] * self.metadata.num_ctas, grid[1], grid[2]
        config.blockDimX, config.blockDimY, config.blockDimZ = self.metadata.num_warps * 32, 1, 1
        config.sharedMemBytes = self.metadata.shared
        ids, attributes = driver.CUlaunchAttributeID, []
        if self.metadata.launch_pdl:
            attributes.append(driver.CUlaunchAttribute())
            attributes[-1].id = ids.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attributes[-1].value.programmaticStreamSerializationAllowed = 1
        if self.metadata.num_ctas != 1:
            cluster = driver.CUlaunchAttribute()
            cluster.id = ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            dim = cluster.value.clusterDim
            dim.x, dim.y, dim.z = self.metadata.num_ctas, 1, 1
            spread = driver.CUlaunchAttribute()
            spread.id = ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
            policy = driver.CUclusterSchedulingPolicy.CU_CLUSTER_SCHEDULING_POLICY_SPREAD
            spread.value.clusterSchedulingPolicyPreference = policy
            attributes += [cluster, spread]
        config.attrs, config.numAttrs = attributes, len(attributes)
        buffers = [ctypes.create_string_buffer(raw, len(raw)) for raw in params]
        array = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
        check(driver.cuLaunchKernelEx(config, self.function, ctypes.addressof(array), 0))


_FORMATS = {"i8": "b", "i32": "i", "i64": "q", "u64": "Q", "u1": "?", "fp16": "e", "fp32": "f", "fp64": "d"}


def pack(compiled: Any, args: Sequence[Any]) -> list[bytes]:
    """The parameters of a launch, packed from Python values by the signature: the test's own idea of the layout."""
    out: list[bytes] = []

    def add(ty: Any, value: Any) -> None:
        if isinstance(ty, tuple):
            for inner, item in zip(ty, value, strict=True):
                add(inner, item)
        elif ty == "constexpr":
            pass
        elif ty.startswith("tensordesc"):
            out.append(tensor_map(ty, value, compiled.metadata.tensordesc_meta[0]))
            out.extend(struct.pack("i", size) for size in value.shape)
            out.extend(struct.pack("q", stride) for stride in value.strides)
        elif ty.startswith("*"):
            out.append(struct.pack("Q", 0 if value is None else value.data_ptr()))
        elif ty == "bf16":
            out.append(struct.pack("f", value)[2:])
        else:
            out.append(struct.pack(_FORMATS[ty], value))

    for ty, value in zip(compiled.src.signature.values(), [*args, *[None] * 9]):
        add(ty, value)
    return [*out, bytes(8), bytes(8)]


def tensor_map(ty: str, descriptor: Any, meta: dict[str, Any]) -> bytes:
    """A tensor map encoded through cuda-python, as Triton's launcher asks for it."""
    types, fill = driver.CUtensorMapDataType, driver.CUtensorMapFloatOOBfill
    data_type = {6: types.CU_TENSOR_MAP_DATA_TYPE_FLOAT16}[meta["elem_type"]]
    pad = fill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
    made = check(
        driver.cuTensorMapEncodeTiled(
            data_type,
            len(descriptor.shape),
            descriptor.base.data_ptr(),
            [driver.cuuint64_t(size) for size in reversed(descriptor.shape)],
            [driver.cuuint64_t(stride * meta["elem_size"]) for stride in reversed(descriptor.strides[:-1])],
            [driver.cuuint32_t(size) for size in reversed(meta["block_size"])],
            [driver.cuuint32_t(1)] * len(descriptor.shape),
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            driver.CUtensorMapSwizzle(meta["swizzle"]),
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            pad if descriptor.padding == "nan" else fill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )
    return ctypes.string_at(made.getPtr(), 128)
