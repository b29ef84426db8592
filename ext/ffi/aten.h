// See aten.cpp.
#ifndef TDH_FFI_ATEN_H
#define TDH_FFI_ATEN_H

#include <Python.h>

namespace trident_hook {

// register(name, overload, global name) -> whether the schema can be expressed; the function is then in the table.
PyObject *py_register(PyObject *module, PyObject *args);
// trident.handle.release(handle), trident.handle.live()
void register_handles();

}  // namespace trident_hook

#endif
