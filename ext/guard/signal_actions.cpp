// What the operating system calls when a signal comes. Python's signal.signal changes that as well as the function that
// Python calls later; only the latter is to be another while interrupts wait (see runtime/interrupts.py): what somebody
// registered behind Python's back (faulthandler, a C library) and the flags of the handler stay.
#include "guard/signal_actions.h"

#include <csignal>
#include <cstring>

namespace trident_hook {

// signal_action(number) -> bytes
PyObject *py_signal_action(PyObject *, PyObject *number) {
  struct sigaction action;
  const long signum = PyLong_AsLong(number);
  if (signum == -1 && PyErr_Occurred() != nullptr) return nullptr;
  if (sigaction(static_cast<int>(signum), nullptr, &action) < 0) return PyErr_SetFromErrno(PyExc_OSError);
  return PyBytes_FromStringAndSize(reinterpret_cast<const char *>(&action), sizeof action);
}

// signal_action_set(number, bytes)
PyObject *py_signal_action_set(PyObject *, PyObject *args) {
  struct sigaction action;
  int signum = 0;
  PyObject *bytes = nullptr;
  if (!PyArg_ParseTuple(args, "iS:signal_action_set", &signum, &bytes)) return nullptr;
  if (PyBytes_GET_SIZE(bytes) != static_cast<Py_ssize_t>(sizeof action)) {
    return PyErr_Format(PyExc_ValueError, "signal_action_set: seen %zd bytes, expected the %zu of signal_action",
                        PyBytes_GET_SIZE(bytes), sizeof action);
  }
  std::memcpy(&action, PyBytes_AS_STRING(bytes), sizeof action);
  if (sigaction(signum, &action, nullptr) < 0) return PyErr_SetFromErrno(PyExc_OSError);
  Py_RETURN_NONE;
}

}  // namespace trident_hook
