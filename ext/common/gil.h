// Lets other Python threads run for the length of a scope.
#ifndef TDH_ATEN_GIL_H
#define TDH_ATEN_GIL_H

#include <Python.h>

namespace trident_hook {

// What pybind11::gil_scoped_release does, without its look-up of the interpreter's internals. The constructor needs the
// GIL; nothing in the scope may touch a Python object without taking it back (pybind11::gil_scoped_acquire works).
class released_gil {
 public:
  released_gil() : state_(PyEval_SaveThread()) {}
  ~released_gil() { PyEval_RestoreThread(state_); }
  released_gil(const released_gil &) = delete;
  released_gil &operator=(const released_gil &) = delete;

 private:
  PyThreadState *state_;
};

}  // namespace trident_hook

#endif
