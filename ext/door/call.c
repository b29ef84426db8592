/* The life of a call that enters through the call door: look the entry up, bind, ask the SCM, and on anything but a hit
 * run the plain function, with or without Dynamo. Must never run the function after the SCM reported an error. */
#include "door/door.h"
#include "table/miss.h"

bool tdh_frame_door_open = false;

int tdh_door_init(void) {
  return tdh_promoted_init(tdh_door_vectorcall);
}

/* The error of a served call gets the function's own traceback line, as it would have had from a frame. */
TDH_COLD void tdh_error_trace(PyCodeObject *code) {
  if (!PyErr_Occurred()) {
    PyErr_SetString(PyExc_SystemError, "trident_hook: a specialization failed without setting an exception");
  }
  tdh_error pending = tdh_error_save();
  const char *name = PyUnicode_AsUTF8(code->co_name), *file = PyUnicode_AsUTF8(code->co_filename);
  if (name == NULL || file == NULL) PyErr_Clear();
  tdh_error_restore(pending);
  if (name && file) _PyTraceback_Add(name, file, code->co_firstlineno);
}

/* The plain function, below every door of ours. Calls that we keep from being inlined are not charged as C recursion,
 * and when they nest deeply the function gets its inlining back until this call returns. */
static PyObject *plain_call(PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
  tdh_thread *t = &tdh_thread_here;
  PyThreadState *ts = tdh_thread_state();
  PyCodeObject *code = (PyCodeObject *)((PyFunctionObject *)func)->func_code, *outer = t->pass_code;
  int depth = t->depth;
  bool lift = depth >= TDH_DEPTH_LIMIT;
  if (TDH_UNLIKELY(lift))
    tdh_promoted_lift(func);
  else
    tdh_c_units_add(ts, TDH_EVAL_C_UNITS);
  t->depth = depth + 1;
  if (tdh_frame_door_open) t->pass_code = code;
  PyObject *result = tdh_plain_vectorcall(func, args, nargsf, kwnames);
  t->pass_code = outer;
  t->depth = depth;
  if (TDH_UNLIKELY(lift))
    tdh_promoted_lower(func);
  else
    tdh_c_units_add(ts, -TDH_EVAL_C_UNITS);
  return result;
}

/* Clears `bound` once the record has seen the call. */
static TDH_COLD PyObject *missed_call(tdh_entry *e, const tdh_call *call, tdh_bound *bound, PyObject *func,
                                      PyObject *const *args, size_t nargsf, PyObject *kwnames) {
  tdh_delegation delegation;
  PyObject *result, *callback = tdh_miss_begin(e, TDH_DOOR_CALL, call);
  tdh_bound_clear(bound);
  if (callback == NULL || tdh_miss_is_trial(callback) || tdh_delegation_enter(&delegation, callback) < 0) {
    result = NULL;
    if (PyErr_Occurred()) {
      tdh_error_trace((PyCodeObject *)((PyFunctionObject *)func)->func_code);
    } else {
      ++e->counts.python;
      result = plain_call(func, args, nargsf, kwnames);
    }
  } else {
    ++e->counts.delegated;
    result = plain_call(func, args, nargsf, kwnames);
    tdh_delegation_leave(&delegation);
  }
  if (callback) tdh_miss_end(e, callback);
  Py_XDECREF(callback);
  return tdh_unless_interrupted(result);
}

/* vectorcallfunc of a promoted function, and of a JitFunction's inner function. Looks at the function's code on every
 * call, so `f.__code__ = other` needs no notice. Budget of a hit besides the SCM: no allocation, no attribute look-up. */
PyObject *tdh_door_vectorcall(PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
  PyFunctionObject *f = (PyFunctionObject *)func;
  PyCodeObject *code = (PyCodeObject *)f->func_code;
  tdh_entry *e = tdh_entry_find(code);
  PyThreadState *ts = tdh_thread_state();
  if (TDH_UNLIKELY(e == NULL || !tdh_entry_wants(e, TDH_DOOR_CALL) || tdh_thread_is_watched(ts, code, tdh_own_tools)))
    return plain_call(func, args, nargsf, kwnames);

  tdh_bound bound;
  int rc = tdh_bound_fill(&bound, f, args, PyVectorcall_NARGS(nargsf), kwnames);
  if (TDH_UNLIKELY(rc != 0)) return rc < 0 ? NULL : plain_call(func, args, nargsf, kwnames);

  tdh_call call = {bound.locals, func, -1, -1};
  PyObject *result = NULL;
  tdh_entry_hold(e);
  int outcome = tdh_entry_ask(ts, e, &call, &result);
  if (TDH_LIKELY(outcome == TDH_HIT && result != NULL)) {
    ++e->counts.call_hits;
    tdh_bound_clear(&bound);
    tdh_entry_release(e);
    return result;
  }
  if (outcome == TDH_MISS) {
    ++e->counts.misses;
    result = missed_call(e, &call, &bound, func, args, nargsf, kwnames);
  } else if (outcome == TDH_BYPASS) {
    tdh_bound_clear(&bound);
    ++e->counts.bypasses;
    result = plain_call(func, args, nargsf, kwnames);
  } else {
    tdh_bound_clear(&bound);
    ++e->counts.errors;
    result = NULL;
    tdh_error_trace((PyCodeObject *)f->func_code);
  }
  tdh_entry_release(e);
  return result;
}

/* Asks `times` times whether a specialization would serve a call, which is not made: no effect, nothing is counted. Its
 * number, -1 where none would, -2 with an exception. Holds the GIL. */
int tdh_door_check(PyObject *func, PyObject *const *args, Py_ssize_t nargs, Py_ssize_t times) {
  PyFunctionObject *f = (PyFunctionObject *)func;
  tdh_entry *e = tdh_entry_find((PyCodeObject *)f->func_code);
  if (e == NULL) return -1;
  tdh_bound bound;
  int rc = tdh_bound_fill(&bound, f, args, nargs, NULL);
  if (rc != 0) return rc < 0 ? -2 : -1;
  tdh_call call = {bound.locals, func, -1, -1};
  int outcome = TDH_MISS;
  tdh_entry_hold(e);
  while (times-- > 0 && outcome != TDH_ERROR)
    outcome = tdh_entry_ask(tdh_thread_state(), e, &call, NULL);
  tdh_entry_release(e);
  tdh_bound_clear(&bound);
  return outcome == TDH_ERROR ? -2 : outcome == TDH_HIT ? call.spec : -1;
}

/* The SCM alone: its outcome, with a new reference in *result on TDH_HIT; TDH_MISS (no exception) as well where there is
 * nothing to ask or the arguments do not fit; TDH_ERROR with an exception. Nothing is delegated. Holds the GIL. */
int tdh_door_ask(PyObject *func, PyObject *const *args, Py_ssize_t nargs, PyObject **result) {
  PyFunctionObject *f = (PyFunctionObject *)func;
  tdh_entry *e = tdh_entry_find((PyCodeObject *)f->func_code);
  if (e == NULL) return TDH_MISS;
  tdh_bound bound;
  int rc = tdh_bound_fill(&bound, f, args, nargs, NULL);
  if (rc != 0) return rc < 0 ? TDH_ERROR : TDH_MISS;
  tdh_call call = {bound.locals, func, -1, -1};
  *result = NULL;
  tdh_entry_hold(e);
  int outcome = tdh_entry_ask(tdh_thread_state(), e, &call, result);
  tdh_bound_clear(&bound);
  if (outcome == TDH_HIT) {
    ++e->counts.call_hits;
  } else if (outcome == TDH_ERROR) {
    ++e->counts.errors;
    tdh_error_trace((PyCodeObject *)f->func_code);
  } else {
    outcome == TDH_MISS ? ++e->counts.misses : ++e->counts.bypasses;
    outcome = TDH_MISS;
  }
  tdh_entry_release(e);
  return outcome;
}
