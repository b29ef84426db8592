// The extension module trident_hook._ffi: what needs libtvm_ffi. Built only where its headers are, imported only when it is
// asked for, after PyTorch and tvm_ffi, whose libraries are then found in the process.
#include <Python.h>

#include <torch/csrc/autograd/python_variable.h>

#include <exception>

#include "ffi/aten.h"
#include "ffi/convert.h"
#include "ffi/scm.h"

namespace {

PyObject *handle_of(PyObject *, PyObject *tensor) {
  if (!THPVariable_Check(tensor)) return PyErr_Format(PyExc_TypeError, "handle_of: a tensor is expected");
  return PyLong_FromVoidPtr(THPVariable_Unpack(tensor).unsafeGetTensorImpl());
}

PyObject *take_handle(PyObject *, PyObject *address) {
  void *handle = PyLong_AsVoidPtr(address);
  return handle == nullptr && PyErr_Occurred() ? nullptr : THPVariable_Wrap(trident_hook::take_handle(handle));
}

PyMethodDef methods[] = {
    {"register", trident_hook::py_register, METH_VARARGS,
     "register(name, overload, global) -> whether it is expressible"},
    {"handle_of", handle_of, METH_O, "handle_of(tensor) -> address: a borrowed handle"},
    {"take_handle", take_handle, METH_O, "take_handle(address) -> Tensor: takes an owned handle back"},
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
