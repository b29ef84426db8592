// Plans of watched environment guards: see watch.cpp.
#ifndef TDH_GUARD_WATCH_H
#define TDH_GUARD_WATCH_H

#include <Python.h>

namespace trident_hook {

// Kinds of pins. trident_hook/runtime/watching.py has them from `_rt`: see modules/numbers.h.
enum { pin_type = 0, pin_code, pin_closure, pin_defaults, pin_kwdefaults, pin_dict, pin_empty_list };

PyObject *py_env_plan(PyObject *, PyObject *);
PyObject *py_env_arm(PyObject *, PyObject *args);
PyObject *py_env_unwatchable(PyObject *, PyObject *capsule);
PyObject *py_env_watchers(PyObject *, PyObject *);
PyObject *py_env_release(PyObject *, PyObject *);

}  // namespace trident_hook

#endif
