/* Attribute look-up without raising AttributeError, under one name on every supported CPython. Apart from py.h, which
 * is about frames and needs CPython's internal headers. */
#ifndef TDH_COMPAT_PY_ATTR_H
#define TDH_COMPAT_PY_ATTR_H

#include <Python.h>
#include <structmember.h>

static inline int tdh_py_dict_lacks(PyObject *dict, PyObject *name) {
  if (dict == NULL || PyDict_GET_SIZE(dict) == 0) return 1;
  int found = PyDict_Contains(dict, name);
  if (found < 0) PyErr_Clear();
  return found == 0;
}

/* 1 and a new reference in *out; 0 and NULL when absent; -1 and NULL with an exception. May run Python code. */
static inline int tdh_py_attr_find(PyObject *obj, PyObject *name, PyObject **out) {
  /* The usual answer for a tensor: it has no __dict__ yet, or an empty one, and its class does not know the name. */
  PyTypeObject *type = Py_TYPE(obj);
  if (type->tp_getattro == PyObject_GenericGetAttr && PyUnicode_CheckExact(name)) {
    PyObject **place = _PyObject_GetDictPtr(obj);
    if ((place == NULL || tdh_py_dict_lacks(*place, name)) && _PyType_Lookup(type, name) == NULL) {
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

/* Where an instance's attribute is an object that is stored, in its dict, in a slot or in its class: that, borrowed. NULL (no
 * exception) when it is absent, or something would be calculated or called for it. Runs no Python code and changes nothing
 * (but for a class that has __getattr__, whose instances get a dict). */
static inline PyObject *tdh_py_attr_stored(PyObject *obj, PyObject *name, PyObject *(*dict_of)(PyObject *)) {
  PyTypeObject *type = Py_TYPE(obj);
  PyObject *in_class = _PyType_Lookup(type, name), *found = NULL;
  int is_plain = type->tp_getattro == PyObject_GenericGetAttr;
  if (in_class && Py_TYPE(in_class)->tp_descr_set) {
    if (!is_plain || !Py_IS_TYPE(in_class, &PyMemberDescr_Type)) return NULL;
    if (((PyMemberDescrObject *)in_class)->d_member->type != T_OBJECT_EX) return NULL;
  } else if (!is_plain || (in_class && Py_TYPE(in_class)->tp_descr_get)) {
    PyObject *dict = dict_of(obj);
    found = dict && PyDict_Check(dict) ? PyDict_GetItemWithError(dict, name) : NULL;
    if (found == NULL) PyErr_Clear();
    return found || (in_class && Py_TYPE(in_class)->tp_descr_get) ? found : in_class;
  }
  if (tdh_py_attr_find(obj, name, &found) != 1) {
    PyErr_Clear();
    return NULL;
  }
  Py_DECREF(found); /* who has it keeps it */
  return found;
}

/* CPython 3.13 (gh-115776) keeps an instance's attributes inside the instance, with a __dict__ that looks at them there, and
 * writes to them without telling who watches the dict. Once the dict has a table of its own, every write goes through it.
 * popitem() gives it one, a key that is no string does where there is nothing to pop; the same dict with the same items in
 * the same order is left. Nothing to do elsewhere. Runs no code of the program: the last key must be a string. 0, or -1 with
 * an exception. */
static inline int tdh_py_dict_settle(PyObject *dict) {
#if PY_VERSION_HEX >= 0x030d0000
  if (((PyDictObject *)dict)->ma_values == NULL) return 0;
  if (PyDict_GET_SIZE(dict) == 0) {
    if (PyDict_SetItem(dict, Py_None, Py_None) < 0) return -1;
    PyDict_Clear(dict);
    return 0;
  }
  PyObject *last = PyObject_CallMethod(dict, "popitem", NULL);
  if (last == NULL) return -1;
  int rc = PyDict_SetItem(dict, PyTuple_GET_ITEM(last, 0), PyTuple_GET_ITEM(last, 1));
  Py_DECREF(last);
  return rc;
#else
  (void)dict;
  return 0;
#endif
}

/* Where an object keeps the reference to its __dict__, for as long as it has its class; NULL when it has no place for
 * one. Runs no Python code; a dict may be made. */
static inline PyObject **tdh_py_dict_place(PyObject *obj) {
  return _PyObject_GetDictPtr(obj);
}

/* An instance's __dict__ if somebody has asked for it yet, borrowed; else NULL: where the attributes are kept in the instance
 * nobody else can hold their dict. The place is three words in front of the object; on 3.12 the lowest bit says that it
 * is no dict. Runs no Python code, makes nothing. */
static inline PyObject *tdh_py_space_of(PyObject *obj) {
  PyTypeObject *type = Py_TYPE(obj);
  if (PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT)) {
    uintptr_t word = ((uintptr_t *)obj)[-3];
    return (word & 1) != 0 ? NULL : (PyObject *)word;
  }
  if (type->tp_dictoffset == 0) return NULL;
  PyObject **place = _PyObject_GetDictPtr(obj);
  return place == NULL ? NULL : *place;
}

#endif
