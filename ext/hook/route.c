/* One frame of an entry: ask the SCM; a hit or an error disposes of the frame, everything else runs it.
 * Must never touch the frame after it was discarded or handed over. */
#include "hook/route.h"

#include "door/door.h"
#include "door/promote.h"
#include "hook/chain.h"
#include "table/miss.h"

/* Disposes of a fresh frame with an exception pending: the call raises it. */
void tdh_route_raise(PyThreadState *ts, tdh_frame *f) {
  tdh_error_trace(tdh_frame_code(f));
  tdh_error pending = tdh_error_save(); /* destructors of the arguments may run */
  tdh_frame_discard(ts, f);
  tdh_error_restore(pending);
}

static TDH_COLD PyObject *missed_frame(PyThreadState *ts, tdh_frame *f, tdh_entry *e, const tdh_call *call) {
  ++e->counts.misses;
  tdh_delegation delegation;
  PyObject *result, *callback = tdh_miss_begin(e, TDH_DOOR_FRAME, call);
  if (callback == NULL || tdh_miss_is_trial(callback) || tdh_delegation_enter(&delegation, callback) < 0) {
    result = NULL;
    if (PyErr_Occurred()) {
      tdh_route_raise(ts, f);
    } else {
      ++e->counts.python;
      result = tdh_hook_forward(ts, f, 0);
    }
  } else {
    ++e->counts.delegated;
    result = tdh_hook_hand_over(ts, f);
    tdh_delegation_leave(&delegation);
  }
  if (callback) tdh_miss_end(e, callback);
  Py_XDECREF(callback);
  return tdh_unless_interrupted(result);
}

PyObject *tdh_route_frame(PyThreadState *ts, tdh_frame *f, tdh_entry *e) {
  PyObject *result = NULL;
  tdh_call call = {tdh_frame_locals(f), tdh_frame_func(f), -1, -1};
  tdh_entry_hold(e);
  int outcome = tdh_entry_ask(ts, e, &call, &result);
  if (((PyFunctionObject *)call.func)->vectorcall == tdh_plain_vectorcall) tdh_promote_met(call.func, e);
  if (TDH_LIKELY(outcome == TDH_HIT && result != NULL)) {
    ++e->counts.frame_hits;
    tdh_frame_discard(ts, f);
  } else if (outcome == TDH_MISS) {
    result = missed_frame(ts, f, e, &call);
  } else if (outcome == TDH_BYPASS) {
    ++e->counts.bypasses;
    result = tdh_hook_forward(ts, f, 0);
  } else {
    ++e->counts.errors;
    result = NULL;
    tdh_route_raise(ts, f);
  }
  tdh_entry_release(e);
  return result;
}
