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

int tdh_bound_fill(tdh_bound *b, PyFunctionObject *f, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
void tdh_bound_clear(tdh_bound *b);

/* True while frames reach the frame door, which must then be told not to ask again for a call that we passed on. */
extern bool tdh_frame_door_open;

int tdh_door_init(void);
PyObject *tdh_door_vectorcall(PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames);
void tdh_error_trace(PyCodeObject *code);

extern PyTypeObject tdh_jit_type;
int tdh_jit_init(void);
Py_ssize_t tdh_jit_count(void);

#endif
