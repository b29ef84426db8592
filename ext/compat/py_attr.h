/* Attribute look-up without raising AttributeError, under one name on every supported CPython. Apart from py.h, which
 * is about frames and needs CPython's internal headers. */
#ifndef TDH_COMPAT_PY_ATTR_H
#define TDH_COMPAT_PY_ATTR_H

#include <Python.h>

/* 1 and a new reference in *out; 0 and NULL when absent; -1 and NULL with an exception. May run Python code. */
static inline int tdh_py_attr_find(PyObject *obj, PyObject *name, PyObject **out) {
  /* The usual answer for a tensor: it has no __dict__ yet, and its class does not know the name. */
  PyTypeObject *type = Py_TYPE(obj);
  if (type->tp_getattro == PyObject_GenericGetAttr && PyUnicode_CheckExact(name)) {
    PyObject **place = _PyObject_GetDictPtr(obj);
    if ((place == NULL || *place == NULL) && _PyType_Lookup(type, name) == NULL) {
      *out = NULL;
      return 0;
    }
  }
#if PY_VERSION_HEX >= 0x030d0000
  return PyObject_GetOptionalAttr(obj, name, out); /* public since 3.13, gh-106521 */
#else
  return _PyObject_LookupAttr(obj, name, out); /* the same function under its private name; goes with 3.12 */
#endif
}

/* The __dict__ that an object has now; borrowed, NULL when it has none. Makes no dict and runs no Python code. Only for
 * objects whose attributes are not kept inline (3.13 keeps them so; nothing is pinned there). */
static inline PyObject *tdh_py_dict_now(PyObject *obj) {
  PyObject **place = _PyObject_GetDictPtr(obj);
  return place == NULL ? NULL : *place;
}

#endif
