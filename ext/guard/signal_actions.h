// Signal actions of the process, read and put back. For trident_hook._rt's Python functions only.
#pragma once
#include <Python.h>

namespace trident_hook {
PyObject *py_signal_action(PyObject *, PyObject *number);
PyObject *py_signal_action_set(PyObject *, PyObject *args);
}  // namespace trident_hook
