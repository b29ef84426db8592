// See scm.cpp.
#ifndef TDH_FFI_SCM_H
#define TDH_FFI_SCM_H

#include <Python.h>

namespace trident_hook {

// scm_function(ask, global name): puts a function into TVM FFI's table that calls ask(args) -> (hit, result).
PyObject *py_scm_function(PyObject *module, PyObject *args);
// miss(): the miss object is trident.Miss(), of which there is one.
void register_miss();

}  // namespace trident_hook

#endif
