from __future__ import annotations


class Strided:
    """A tensor read with another shape and other strides, from an offset on."""

    def __init__(self, base, shape=None, strides=None, dtype=None, offset=0) -> None:
        self._base, self.offset = base, offset
        self.dtype = dtype or base.dtype
        self.shape = tuple(shape if shape is not None else base.shape)
        self._strides = tuple(strides if strides is not None else base.stride())
        self.device = base.device
        self._data_ptr = base.data_ptr() if offset == 0 else base.data_ptr() + offset * self.dtype.itemsize

    def stride(self):
        return self._strides

    def numel(self):
        n = 1
        for size in self.shape:
            n *= size
        return n

    def data_ptr(self):
        return self._data_ptr

    def unwrap(self):
        return self._base
