// The extension module trident_hook._ffi: what needs libtvm_ffi. Built only where its headers are, imported only when it is
// asked for, after PyTorch and tvm_ffi, whose libraries are then found in the process.
#include <Python.h>

#include <exception>

#include "ffi/aten.h"
#include "ffi/convert.h"
#include "ffi/scm.h"

namespace {

PyMethodDef methods[] = {
    {"register", trident_hook::py_register, METH_VARARGS,
     "register(name, overload, global) -> whether it is expressible"},
    {"scm_function", trident_hook::py_scm_function, METH_VARARGS,
     "scm_function(ask, global): ask(args) -> (hit, result)"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "trident_hook._ffi",
                          "Operators and modules in TVM FFI's function table.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__ffi() {
  try {
    trident_hook::register_handles();
    trident_hook::register_miss();
  } catch (const std::exception &error) {
    return PyErr_Format(PyExc_ImportError, "trident_hook._ffi: %s", error.what());
  }
  return PyModule_Create(&definition);
}
