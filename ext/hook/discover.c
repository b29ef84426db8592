/* Code objects that are seen for the first time are shown to the discoverer, a Python callable, once.
 * Must never let its exceptions reach the program, nor discover what it calls itself. */
#include "hook/hook.h"

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

/* True if `code` was new. Marks it before Python runs, so that threads and recursion see it once. No exception may be
 * pending. */
bool tdh_discover(PyCodeObject *code, PyObject *func) {
  tdh_thread *t = &tdh_thread_here;
  if (discoverer == NULL || t->inside) return false;
  tdh_slot_mark(code);
  if (!is_interesting(code, func)) return true;
  PyObject *callable = Py_NewRef(discoverer);
  ++t->inside;
  t->discovering = code;
  PyObject *done = PyObject_CallOneArg(callable, func);
  t->discovering = NULL;
  --t->inside;
  if (done == NULL) PyErr_WriteUnraisable(callable);
  Py_XDECREF(done);
  Py_DECREF(callable);
  tdh_entry *e = tdh_entry_find(code);
  if (e != NULL) {
    tdh_route_promote(func, e);
    tdh_hook_notice(e);
  }
  return true;
}
