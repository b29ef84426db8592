// What PyTorch keeps of the running thread, noted and put back. For trident_hook._rt's Python functions only.
#pragma once
#include <Python.h>

namespace trident_hook {
PyObject *py_thread_state(PyObject *, PyObject *);
PyObject *py_thread_state_restore(PyObject *, PyObject *capsule);
PyObject *py_call_warned(PyObject *, PyObject *callable);
}  // namespace trident_hook
