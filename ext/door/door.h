/* The call door: calls that enter through a function's own vectorcall, or through a JitFunction. No frame is built. */
#ifndef TDH_DOOR_DOOR_H
#define TDH_DOOR_DOOR_H

#include "table/promoted.h"

/* Arguments bound to parameters, in localsplus order. */
#define TDH_BOUND_INLINE 24
typedef struct tdh_bound {
  PyObject *const *locals;
  PyObject **owned; /* strong references, NULL when `locals` are the caller's own arguments */
  Py_ssize_t n;
  PyObject *space[TDH_BOUND_INLINE];
} tdh_bound;

enum { TDH_BOUND = 0, TDH_UNBOUND = 1 };
int tdh_bound_fill_general(tdh_bound *b, PyFunctionObject *f, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames);
void tdh_bound_drop(tdh_bound *b);

/* TDH_BOUND: tdh_bound_clear is due. TDH_UNBOUND: the arguments do not fit. -1: out of memory, exception set.
 * Budget for plain positional calls: four loads, nothing copied. */
static inline int tdh_bound_fill(tdh_bound *b, PyFunctionObject *f, PyObject *const *args, Py_ssize_t nargs,
                                 PyObject *kwnames) {
  PyCodeObject *code = (PyCodeObject *)f->func_code;
  if (TDH_LIKELY(kwnames == NULL && nargs == code->co_argcount && code->co_kwonlyargcount == 0 &&
                 !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)))) {
    b->locals = args;
    b->owned = NULL;
    return TDH_BOUND;
  }
  return tdh_bound_fill_general(b, f, args, nargs, kwnames);
}

/* May run destructors. */
static inline void tdh_bound_clear(tdh_bound *b) {
  if (b->owned) tdh_bound_drop(b);
}

/* True while frames reach the frame door, which must then be told not to ask again for a call that we passed on. */
extern bool tdh_frame_door_open;

int tdh_door_init(void);
PyObject *tdh_door_vectorcall(PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames);
int tdh_door_ask(PyObject *func, PyObject *const *args, Py_ssize_t nargs, PyObject **result);
int tdh_door_check(PyObject *func, PyObject *const *args, Py_ssize_t nargs, Py_ssize_t times);
void tdh_error_trace(PyCodeObject *code);

extern PyTypeObject tdh_jit_type;
int tdh_jit_init(void);
Py_ssize_t tdh_jit_count(void);

#endif
