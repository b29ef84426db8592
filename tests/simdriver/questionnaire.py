"""Asks a CUDA driver, by ctypes alone, how it answers right and wrong calls; prints one line for each answer.

`answers_h200.txt` holds what a real driver said (H200, driver 13.0); the simulated one has to say the same. To ask one
again, on a machine with a GPU: `python questionnaire.py libcuda.so.1 FOLDER > answers_h200.txt`, where FOLDER has the
CUBINs that `test_questionnaire.py` compiles: add_80, add_90, and add_90_2 for a cluster of two.
"""

from __future__ import annotations

import ctypes as C
import sys
from pathlib import Path

BLOCK = (128, 1, 1)


class Attribute(C.Structure):
    _fields_ = [("id", C.c_int), ("pad", C.c_int), ("value", C.c_uint32 * 16)]


class Config(C.Structure):
    _fields_ = [
        ("grid", C.c_uint * 3),
        ("block", C.c_uint * 3),
        ("shared", C.c_uint),
        ("stream", C.c_void_p),
        ("attributes", C.POINTER(Attribute)),
        ("count", C.c_uint),
    ]


class Questionnaire:
    def __init__(self, lib: C.CDLL, images: dict[str, bytes]) -> None:
        self.lib, self.images = lib, images
        self.answers: list[str] = []
        self._words = [C.c_uint64(0) for _ in range(6)]  # null pointers and n = 0: every access is masked off
        self.params = (C.c_void_p * 6)(*map(C.addressof, self._words))

    def say(self, question: str, result: int, *values: object) -> None:
        name = C.c_char_p()
        self.lib.cuGetErrorName(result, C.byref(name))
        self.answers.append(" ".join([f"{question}:", (name.value or b"?").decode(), *map(str, values)]))

    def ask(self) -> list[str]:
        lib, integer, context, module = self.lib, C.c_int(), C.c_void_p(), C.c_void_p()
        self.say("count before init", lib.cuDeviceGetCount(C.byref(integer)))
        self.say("current before init", lib.cuCtxGetCurrent(C.byref(context)))
        self.say("load before init", lib.cuModuleLoadData(C.byref(module), self.images["add_90"]))
        self.say("init(1)", lib.cuInit(1))
        self.say("init(0)", lib.cuInit(0))
        self.say("load without context", lib.cuModuleLoadData(C.byref(module), self.images["add_90"]))
        self.say("device 99", lib.cuDeviceGet(C.byref(integer), 99))
        self.say("retain 99", lib.cuDevicePrimaryCtxRetain(C.byref(context), 99))
        self.say("release unretained", lib.cuDevicePrimaryCtxRelease_v2(0))
        self.say("synchronize without context", lib.cuCtxSynchronize())
        self.say("retain", lib.cuDevicePrimaryCtxRetain(C.byref(context), 0))
        self.say("set current", lib.cuCtxSetCurrent(context))
        self.device_attributes()
        self.bad_images()
        module, one = self.load("add_90")
        _, two = self.load("add_90_2")
        self.functions(module, one, two)
        self.launches(one, two)
        self.pointers()
        self.tensor_maps()
        lib.cuCtxSetCurrent(None)
        self.launch("without context", one)
        self.say("attribute without context", lib.cuFuncGetAttribute(C.byref(integer), 0, one))
        self.say("function without context", lib.cuModuleGetFunction(C.byref(C.c_void_p()), module, b"add"))
        lib.cuCtxSetCurrent(context)
        self.say("unload", lib.cuModuleUnload(module))
        self.say("unload null", lib.cuModuleUnload(None))
        self.launch("after unload", one)
        return self.answers

    def device_attributes(self) -> None:
        value = C.c_int()
        for attribute in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 31, 39, 41, 75, 76, 81, 82, 83, 95, 97, 120, 127):
            result = self.lib.cuDeviceGetAttribute(C.byref(value), attribute, 0)
            self.say(f"device attribute {attribute}", result, value.value)

    def bad_images(self) -> None:
        module = C.c_void_p()
        good = self.images["add_90"]
        bad = {
            "text": b"hello world" + bytes(300),
            "zeros": bytes(512),
            "only a header": good[:64] + bytes(len(good)),
            "sm_80": self.images["add_80"],
            "null": None,
        }
        for name, image in bad.items():
            self.say(f"load {name}", self.lib.cuModuleLoadData(C.byref(module), image))

    def load(self, name: str) -> tuple[C.c_void_p, C.c_void_p]:
        module, function = C.c_void_p(), C.c_void_p()
        self.say(f"load {name}", self.lib.cuModuleLoadData(C.byref(module), self.images[name]))
        self.say(f"function of {name}", self.lib.cuModuleGetFunction(C.byref(function), module, b"add"))
        return module, function

    def functions(self, module: C.c_void_p, one: C.c_void_p, two: C.c_void_p) -> None:
        lib, other, value = self.lib, C.c_void_p(), C.c_int()
        self.say("unknown function", lib.cuModuleGetFunction(C.byref(other), module, b"nope"))
        self.say("function of null", lib.cuModuleGetFunction(C.byref(other), None, b"add"))
        result = lib.cuModuleGetFunction(C.byref(other), module, b"add")
        self.say("same handle again", result, other.value == one.value)
        for name, function in (("one", one), ("two", two)):
            for attribute in (0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17):
                result = lib.cuFuncGetAttribute(C.byref(value), attribute, function)
                self.say(f"attribute {attribute} of {name}", result, value.value if result == 0 else "")
        for size in (0, 49152, 50000, 232448, 232449, -1, 100000):
            self.say(f"dynamic shared {size}", lib.cuFuncSetAttribute(one, 8, size))
        for attribute in (4, 17, 99):
            self.say(f"set attribute {attribute}", lib.cuFuncSetAttribute(one, attribute, 3))
        offset, size = C.c_size_t(), C.c_size_t()
        for i in range(7):
            result = lib.cuFuncGetParamInfo(one, C.c_size_t(i), C.byref(offset), C.byref(size))
            self.say(f"parameter {i}", result, *([offset.value, size.value] if result == 0 else []))

    def launch(self, what: str, function, grid=(1, 1, 1), block=BLOCK, shared: int = 0, params: bool = True) -> None:
        given = self.params if params else None
        self.say(f"launch {what}", self.lib.cuLaunchKernel(function, *grid, *block, shared, None, given, None))
        self.lib.cuCtxSynchronize()

    def launch_ex(self, what: str, function, grid: int, *attributes: tuple[int, tuple[int, ...]]) -> None:
        array = (Attribute * (len(attributes) + 1))()
        for it, (id_, words) in zip(array, attributes):
            it.id = id_
            for i, word in enumerate(words):
                it.value[i] = word
        config = Config((C.c_uint * 3)(grid, 1, 1), (C.c_uint * 3)(*BLOCK), 0, None, array, len(attributes))
        self.say(f"launch ex {what}", self.lib.cuLaunchKernelEx(C.byref(config), function, self.params, None))
        self.lib.cuCtxSynchronize()

    def launches(self, one: C.c_void_p, two: C.c_void_p) -> None:
        self.launch("plain", one)
        for grid in ((0, 1, 1), (1, 65536, 1), (1, 1, 65536), (1 << 31, 1, 1)):
            self.launch(f"grid {grid}", one, grid)
        for block in ((0, 1, 1), (128, 0, 1), (64, 1, 1), (256, 1, 1), (2048, 1, 1), (64, 2, 1)):
            self.launch(f"block {block}", one, block=block)
        for shared in (100000, 100001):
            self.launch(f"shared {shared}", one, shared=shared)
        self.launch("shared 49153 of 49152", two, (2, 1, 1), shared=49153)
        self.launch("without parameters", one, params=False)
        self.launch("null", None)
        self.launch("two, grid 2", two, (2, 1, 1))
        self.launch("two, grid 3", two, (3, 1, 1))
        self.launch_ex("plain", one, 1)
        for grid, size in ((2, 2), (3, 2), (16, 16), (16, 0)):
            self.launch_ex(f"grid {grid} cluster {size}", one, grid, (4, (size, 1, 1)))
        self.lib.cuFuncSetAttribute(one, 14, 1)
        for size in (16, 32):
            self.launch_ex(f"nonportable cluster {size}", one, size, (4, (size, 1, 1)))
        for size in (1, 2, 4):
            self.launch_ex(f"two, cluster {size}", two, 4, (4, (size, 1, 1)), (5, (1,)))
        self.launch_ex("programmatic", one, 1, (6, (1,)))
        self.launch_ex("cooperative", one, 1, (2, (1,)))
        self.launch_ex("cooperative, huge", one, 1 << 24, (2, (1,)))
        self.launch_ex("attribute 99", one, 1, (99, (1,)))

    def pointers(self) -> None:
        lib, out, memory, kind = self.lib, C.c_uint64(), C.c_uint64(), C.c_uint()
        host = C.create_string_buffer(64)
        query = lib.cuPointerGetAttribute
        self.say("host pointer", query(C.byref(out), 3, C.c_uint64(C.addressof(host))))
        self.say("allocate", lib.cuMemAlloc_v2(C.byref(memory), C.c_size_t(4096)))
        result = query(C.byref(out), 3, C.c_uint64(memory.value + 8))
        self.say("inside", result, out.value - memory.value)
        self.say("memory type", query(C.byref(kind), 2, memory), kind.value)
        self.say("host address", query(C.byref(out), 4, memory))
        self.say("free", lib.cuMemFree_v2(memory))
        self.say("free again", lib.cuMemFree_v2(memory))
        self.say("allocate nothing", lib.cuMemAlloc_v2(C.byref(memory), C.c_size_t(0)))
        found, status = C.c_void_p(1), C.c_int(-1)
        result = lib.cuGetProcAddress_v2(b"cuNoSuchCall", C.byref(found), 12000, C.c_uint64(0), C.byref(status))
        self.say("unknown procedure", result, found.value, status.value)

    def tensor_maps(self) -> None:
        storage = C.create_string_buffer(256)
        out = (C.addressof(storage) + 127) // 128 * 128
        memory = C.c_uint64()
        self.lib.cuMemAlloc_v2(C.byref(memory), C.c_size_t(1 << 16))

        def encode(what: str, at: int = 0, stride: int = 128, rank: int = 2, box: int = 16) -> None:
            dims, ones = (C.c_uint64 * 5)(64, 64), (C.c_uint32 * 5)(1, 1)
            strides, boxes = (C.c_uint64 * 5)(stride), (C.c_uint32 * 5)(box, 16)
            address = C.c_void_p(memory.value + at)
            call = self.lib.cuTensorMapEncodeTiled
            self.say(what, call(C.c_void_p(out), 6, rank, address, dims, strides, boxes, ones, 0, 0, 0, 0))

        encode("tensor map")
        encode("tensor map, address + 8", at=8)
        encode("tensor map, stride 136", stride=136)
        encode("tensor map, rank 0", rank=0)
        encode("tensor map, box 257", box=257)


if __name__ == "__main__":
    library, folder = sys.argv[1:]
    files = {path.stem: path.read_bytes() for path in Path(folder).glob("*.cubin")}
    print("\n".join(Questionnaire(C.CDLL(library), files).ask()))
