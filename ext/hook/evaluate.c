/* Our evaluator. Every Python call of the process comes through it while it is installed: for code that is not ours it
 * costs a few loads. While it is out, new code comes through the sentinel instead. */
#include "hook/evaluate.h"

#include "door/promote.h"
#include "hook/chain.h"
#include "hook/discover.h"
#include "hook/route.h"

/* A slot that is not the mark: new code, or an entry. */
static TDH_COLD PyObject *evaluate_entry(PyThreadState *ts, tdh_frame *f, void *slot) {
  tdh_thread *t = &tdh_thread_here;
  PyCodeObject *code = tdh_frame_code(f);
  if (tdh_slot_is_new(slot)) {
    /* Discovery may be interrupted, and only a fresh frame can then be given up: another one waits for its next call. */
    if (!tdh_frame_is_fresh(f) && tdh_code_is_routable(code)) return tdh_hook_forward(ts, f, 0);
    int found = tdh_discover(code, tdh_frame_func(f));
    if (found < 0) return tdh_route_raise(ts, f), NULL;
    if (found == 0) return tdh_hook_forward(ts, f, 0);
    tdh_quiet_frames = 0;
    slot = tdh_slot_get(code);
    if (slot == NULL || tdh_slot_is_mark(slot)) return tdh_hook_forward(ts, f, 0);
  }
  if (t->pass_code == code) {
    t->pass_code = NULL;
    return tdh_hook_forward(ts, f, 0);
  }
  if (t->delegated == f || !tdh_entry_wants(slot, TDH_DOOR_FRAME) || !tdh_frame_is_fresh(f) ||
      tdh_thread_is_watched(ts, code, tdh_own_tools))
    return tdh_hook_forward(ts, f, 0);
  return tdh_route_frame(ts, f, slot);
}

static PyObject *hook_evaluate(PyThreadState *ts, tdh_frame *f, int throwflag) {
  if (TDH_UNLIKELY(throwflag != 0)) return tdh_hook_forward(ts, f, throwflag);
  if (TDH_UNLIKELY(!tdh_hook_wanted)) return tdh_hook_forward_unwanted(ts, f, throwflag);
  if (TDH_UNLIKELY(++tdh_quiet_frames >= tdh_quiet_limit)) tdh_hook_quiet();
  void *slot = tdh_slot_get(tdh_frame_code(f));
  if (TDH_UNLIKELY(slot != tdh_slot_seen)) return evaluate_entry(ts, f, slot);
  return tdh_hook_forward(ts, f, 0);
}

/* Code that starts while the evaluator is out: 1 if its function is to be reported again, 0 if not, -1 with an interrupt. */
static int code_starts(PyCodeObject *code, PyObject *func) {
  tdh_hook_settle();
  if (func && tdh_slot_is_new(tdh_slot_get(code))) {
    if (tdh_thread_here.inside) return 1; /* the discoverer's own call: ask again another time */
    Py_INCREF(func);
    int found = tdh_discover(code, func);
    Py_DECREF(func);
    if (found < 0) return -1; /* raised where the function starts; the event stays on */
  }
  tdh_entry *e = tdh_entry_find(code);
  if (e == NULL || e->state != TDH_STATE_SERVE || !e->routable) return 0;
  if (func) tdh_promote_met(func, e);
  tdh_hook_notice(e);
  return 1; /* stays on: another function of this code may come, without a call door */
}

void tdh_evaluate_init(void) {
  tdh_hook_init(hook_evaluate, code_starts);
}
