// Python functions that bind generated modules; see bind.cpp.
#ifndef TDH_RT_BIND_H
#define TDH_RT_BIND_H

#include <Python.h>

namespace trident_hook {

PyObject *py_scm_bind(PyObject *, PyObject *args);
PyObject *py_scm_unbind(PyObject *, PyObject *module);

}  // namespace trident_hook

#endif
