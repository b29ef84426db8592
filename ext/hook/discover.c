/* Code objects that are seen for the first time are shown to the discoverer, a Python callable, once.
 * Must never let its exceptions reach the program, nor discover what it calls itself. An interrupt is not the
 * discoverer's: it is left pending, and the function is shown again at its next call. */
#include "hook/discover.h"

#include "door/promote.h"
#include "hook/chain.h"
#include "abi/tdh_interrupt.h"

static PyObject *discoverer; /* owned, or NULL */

/* None takes it away. A new discoverer is shown everything once more. */
void tdh_discoverer_set(PyObject *callable) {
  PyObject *old = discoverer;
  discoverer = callable == Py_None ? NULL : Py_NewRef(callable);
  Py_XDECREF(old);
  if (discoverer) {
    tdh_slot_generation_new();
    tdh_hook_return();
  }
}

/* Whether the discoverer could have a use for it: a function that launches kernels names something outside itself. */
static bool is_interesting(PyCodeObject *code, PyObject *func) {
  return tdh_code_is_routable(code) && func != NULL && PyFunction_Check(func) &&
         (PyTuple_GET_SIZE(code->co_names) > 0 || code->co_nfreevars > 0);
}

/* 1 if `code` was new, 0 if not, -1 with an interrupt. Marks it before Python runs, so that threads and recursion see it
 * once. No exception may be pending. */
int tdh_discover(PyCodeObject *code, PyObject *func) {
  tdh_thread *t = &tdh_thread_here;
  if (discoverer == NULL || t->inside) return 0;
  tdh_slot_mark(code);
  if (!is_interesting(code, func)) return 1;
  PyObject *callable = Py_NewRef(discoverer);
  ++t->inside;
  t->discovering = code;
  PyObject *done = PyObject_CallOneArg(callable, func);
  t->discovering = NULL;
  --t->inside;
  int interrupted = tdh_is_interrupt();
  if (done == NULL && !interrupted) PyErr_WriteUnraisable(callable);
  Py_XDECREF(done);
  Py_DECREF(callable);
  if (interrupted) tdh_slot_unmark(code);
  tdh_entry *e = tdh_entry_find(code);
  if (e != NULL) {
    tdh_promote_met(func, e);
    tdh_hook_notice(e);
  }
  return interrupted ? -1 : 1;
}
