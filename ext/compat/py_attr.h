/* Attribute look-up without raising AttributeError, under one name on every supported CPython. Apart from py.h, which
 * is about frames and needs CPython's internal headers. */
#ifndef TDH_COMPAT_PY_ATTR_H
#define TDH_COMPAT_PY_ATTR_H

#include <Python.h>

/* 1 and a new reference in *out; 0 and NULL when absent; -1 and NULL with an exception. May run Python code. */
static inline int tdh_py_attr_find(PyObject *obj, PyObject *name, PyObject **out) {
#if PY_VERSION_HEX >= 0x030d0000
  return PyObject_GetOptionalAttr(obj, name, out); /* public since 3.13, gh-106521 */
#else
  return _PyObject_LookupAttr(obj, name, out); /* the same function under its private name; goes with 3.12 */
#endif
}

#endif
