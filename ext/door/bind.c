/* Binds a vectorcall's arguments to a function's parameters, in the order in which a frame would hold them.
 * Must never raise a TypeError: whatever does not bind goes to the function itself, which words it right. */
#include "door/door.h"

enum { BOUND = TDH_BOUND, UNBOUND = TDH_UNBOUND };

/* Index of the parameter called `name` among [from, to), or -1. Keyword names at call sites are interned: identity finds
 * them; equality is for names that were built at run time. */
static Py_ssize_t parameter_find(PyCodeObject *code, PyObject *name, Py_ssize_t from, Py_ssize_t to) {
  PyObject *const *names = &PyTuple_GET_ITEM(code->co_localsplusnames, 0);
  for (Py_ssize_t i = from; i < to; i++)
    if (names[i] == name) return i;
  for (Py_ssize_t i = from; i < to; i++)
    if (PyUnicode_Compare(names[i], name) == 0) return i;
  return -1;
}

/* Positional arguments and the *args tuple. */
static int positional_fill(tdh_bound *b, PyCodeObject *code, PyObject *const *args, Py_ssize_t nargs) {
  Py_ssize_t n_pos = code->co_argcount, given = nargs < n_pos ? nargs : n_pos;
  for (Py_ssize_t i = 0; i < given; i++)
    b->owned[i] = Py_NewRef(args[i]);
  if (!(code->co_flags & CO_VARARGS)) return nargs > n_pos ? UNBOUND : BOUND;
  PyObject *rest = PyTuple_New(nargs - given);
  if (rest == NULL) return -1;
  for (Py_ssize_t i = given; i < nargs; i++)
    PyTuple_SET_ITEM(rest, i - given, Py_NewRef(args[i]));
  b->owned[n_pos + code->co_kwonlyargcount] = rest;
  return BOUND;
}

/* Keyword arguments and the **kwargs dict. `values` follow the positional arguments. */
static int keywords_fill(tdh_bound *b, PyCodeObject *code, PyObject *const *values, PyObject *kwnames) {
  Py_ssize_t n_named = code->co_argcount + code->co_kwonlyargcount;
  PyObject *rest = NULL;
  if (code->co_flags & CO_VARKEYWORDS) {
    rest = PyDict_New();
    if (rest == NULL) return -1;
    b->owned[b->n - 1] = rest;
  }
  Py_ssize_t n = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t k = 0; k < n; k++) {
    PyObject *name = PyTuple_GET_ITEM(kwnames, k);
    if (!PyUnicode_CheckExact(name)) return UNBOUND;
    Py_ssize_t i = parameter_find(code, name, code->co_posonlyargcount, n_named);
    if (i >= 0) {
      if (b->owned[i]) return UNBOUND;
      b->owned[i] = Py_NewRef(values[k]);
    } else {
      if (rest == NULL) return UNBOUND;
      if (PyDict_SetItem(rest, name, values[k]) < 0) return -1;
    }
  }
  return BOUND;
}

static int defaults_fill(tdh_bound *b, PyFunctionObject *f, PyCodeObject *code) {
  Py_ssize_t n_pos = code->co_argcount, n_named = n_pos + code->co_kwonlyargcount;
  Py_ssize_t first = n_pos - (f->func_defaults ? PyTuple_GET_SIZE(f->func_defaults) : 0);
  for (Py_ssize_t i = 0; i < n_pos; i++) {
    if (b->owned[i]) continue;
    if (i < first) return UNBOUND;
    b->owned[i] = Py_NewRef(PyTuple_GET_ITEM(f->func_defaults, i - first));
  }
  for (Py_ssize_t i = n_pos; i < n_named; i++) {
    if (b->owned[i]) continue;
    if (f->func_kwdefaults == NULL) return UNBOUND;
    PyObject *value = PyDict_GetItemWithError(f->func_kwdefaults, PyTuple_GET_ITEM(code->co_localsplusnames, i));
    if (value == NULL) return PyErr_Occurred() ? -1 : UNBOUND;
    b->owned[i] = Py_NewRef(value);
  }
  return BOUND;
}

/* Out of line: everything but "exactly the positional parameters". References are taken, because the call may rebind
 * the defaults that it was called with. */
int tdh_bound_fill_general(tdh_bound *b, PyFunctionObject *f, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames) {
  PyCodeObject *code = (PyCodeObject *)f->func_code;
  b->n = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
         !!(code->co_flags & CO_VARKEYWORDS);
  b->owned = b->space;
  if (b->n > TDH_BOUND_INLINE) {
    b->owned = PyMem_Calloc((size_t)b->n, sizeof *b->owned);
    if (b->owned == NULL) return PyErr_NoMemory(), -1;
  } else {
    memset(b->space, 0, (size_t)b->n * sizeof *b->space);
  }
  b->locals = b->owned;
  int rc = positional_fill(b, code, args, nargs);
  if (rc == BOUND) rc = keywords_fill(b, code, args + nargs, kwnames);
  if (rc == BOUND) rc = defaults_fill(b, f, code);
  if (rc != BOUND) tdh_bound_drop(b);
  return rc;
}

/* May run destructors. */
void tdh_bound_drop(tdh_bound *b) {
  for (Py_ssize_t i = 0; i < b->n; i++)
    Py_XDECREF(b->owned[i]);
  if (b->owned != b->space) PyMem_Free(b->owned);
  b->owned = NULL;
}
