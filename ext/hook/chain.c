/* The place of our evaluator in the chain of evaluators, when it steps aside, and how a frame that is not served runs.
 * Must never put anything over an evaluator of others. */
#include "hook/chain.h"

#include "door/door.h"

bool tdh_hook_wanted; /* hook_install was called, hook_remove not yet */
static bool linked;   /* as far as we know our evaluator is in the chain, on top or below another one */
static int lifted;    /* deep frames that took the evaluator out until they return */
static tdh_evaluator previous = _PyEval_EvalFrameDefault; /* what was there before us */
bool tdh_hook_is_aside = false;
Py_ssize_t tdh_quiet_frames = 0, tdh_quiet_limit = 5000;

static tdh_evaluator evaluate; /* ours: hook/evaluate.c */
static tdh_sentinel_fn on_start;

void tdh_hook_init(tdh_evaluator ours, tdh_sentinel_fn start) {
  evaluate = ours;
  on_start = start;
}

/* The table in chain.h. */
static void state_check(void) {
  TDH_ASSERT(lifted >= 0);
  TDH_ASSERT(!tdh_hook_is_aside || (tdh_hook_wanted && !linked));
  TDH_ASSERT(!tdh_hook_wanted || tdh_hook_is_aside || linked);
  TDH_ASSERT(tdh_frame_door_open == (tdh_hook_wanted && !tdh_hook_is_aside));
}

/* Ours may be on top already: an evaluator above us that had stored us puts us back when it leaves. */
static void link_in(void) {
  tdh_evaluator now = tdh_evaluator_get();
  if (now != evaluate) {
    previous = now;
    tdh_evaluator_set(evaluate);
  }
  linked = true;
  tdh_quiet_frames = 0;
}

/* Only if ours is on top. */
static bool link_out(void) {
  if (tdh_evaluator_get() != evaluate) return false;
  tdh_evaluator_set(previous);
  linked = false;
  return true;
}

/* An evaluator that was installed before us and removed while we were there may have restored its own idea of what was
 * below it, and dropped us from the chain. Only what certainly does not chain to us proves that. */
static bool was_dropped(void) {
  tdh_evaluator now = tdh_evaluator_get();
  return linked && !lifted && now != evaluate && (now == _PyEval_EvalFrameDefault || now == previous);
}

/* Puts the evaluator back where it was dropped, and takes it out where it only waited to be on top again. Cheap; called
 * from cold places. */
void tdh_hook_settle(void) {
  if (!tdh_hook_wanted && linked && !lifted) link_out();
  if (!was_dropped()) return;
  linked = false;
  if (tdh_hook_wanted && !tdh_hook_is_aside) link_in();
  state_check();
}

/* True if it changed something. */
bool tdh_hook_install(void) {
  tdh_hook_settle();
  if (tdh_hook_wanted) return false;
  tdh_hook_wanted = tdh_frame_door_open = true;
  if (!linked) link_in();
  state_check();
  return true;
}

bool tdh_hook_remove(void) {
  tdh_hook_settle();
  tdh_sentinel_free();
  if (!tdh_hook_wanted) return false;
  tdh_hook_wanted = tdh_frame_door_open = tdh_hook_is_aside = false;
  if (linked && lifted && tdh_evaluator_get() != evaluate) linked = false; /* already out, and now stays out */
  if (linked) link_out();
  state_check();
  return true;
}

const char *tdh_hook_state(void) {
  tdh_hook_settle();
  if (tdh_hook_is_aside) return "aside";
  if (linked && !lifted && tdh_evaluator_get() != evaluate) return "covered";
  return tdh_hook_wanted ? "on" : "off";
}

/* Back from aside: something can only be found or served through frames. Over another evaluator the sentinel stays armed:
 * that one drops us when it goes, and the next new code object is then the first to notice. */
void tdh_hook_return(void) {
  if (!tdh_hook_is_aside) return;
  tdh_hook_is_aside = false;
  tdh_frame_door_open = true;
  if (tdh_evaluator_get() == _PyEval_EvalFrameDefault) tdh_sentinel_rest();
  link_in();
}

/* An entry has changed: back from aside if only frames can serve it, or if none of its functions carries the call door
 * yet and no new code object will announce them. While its function is being discovered, promotion is still to come. */
void tdh_hook_notice(const tdh_entry *e) {
  if (e->state == TDH_STATE_SERVE && e->routable && (e->doors & TDH_DOOR_FRAME)) {
    bool discovering = e->code == tdh_thread_here.discovering;
    if (!(e->doors & TDH_DOOR_CALL) || (e->n_promoted == 0 && !discovering)) tdh_hook_return();
  }
  tdh_hook_settle();
}

/* Nothing new for a while. Steps aside if nobody needs frames and a sentinel can be armed; else asks again later. */
TDH_COLD void tdh_hook_quiet(void) {
  tdh_quiet_frames = 0;
  if (!tdh_hook_wanted || lifted || tdh_entry_any_needs_frames()) return;
  if (tdh_evaluator_get() != evaluate || tdh_sentinel_arm(on_start) < 0) return;
  if (!link_out()) return;
  tdh_hook_is_aside = true;
  tdh_frame_door_open = false;
  state_check();
}

/* ---- running a frame that is not served ------------------------------------------------------------------------- */

/* Two evaluators can come to stand below each other: Dynamo's is installed over ours after ours was installed over it.
 * The frame that then comes back is evaluated at once. */
static TDH_COLD PyObject *evaluate_with_other(PyThreadState *ts, tdh_frame *f, int throwflag) {
  tdh_thread *t = &tdh_thread_here;
  tdh_frame *outer = t->forwarded;
  if (outer == f) return _PyEval_EvalFrameDefault(ts, f, throwflag);
  t->forwarded = f;
  PyObject *result = previous(ts, f, throwflag);
  t->forwarded = outer;
  return result;
}

static inline PyObject *evaluate_below(PyThreadState *ts, tdh_frame *f, int throwflag) {
  return TDH_LIKELY(previous == _PyEval_EvalFrameDefault) ? _PyEval_EvalFrameDefault(ts, f, throwflag)
                                                          : evaluate_with_other(ts, f, throwflag);
}

/* An evaluator keeps CPython from inlining Python calls, so deep recursion would eat the C stack. From here on the
 * evaluator is out until this frame returns: what it calls is inlined, and charged, as it is without us. */
static TDH_COLD PyObject *forward_lifted(PyThreadState *ts, tdh_frame *f, int throwflag) {
  tdh_thread *t = &tdh_thread_here;
  int depth = t->depth;
  bool lift = tdh_evaluator_get() == evaluate;
  if (lift) {
    tdh_evaluator_set(previous);
    ++lifted;
  }
  t->depth = depth + 1;
  PyObject *result = evaluate_below(ts, f, throwflag);
  t->depth = depth;
  if (lift) {
    --lifted;
    if (tdh_hook_wanted && linked && !tdh_hook_is_aside && tdh_evaluator_get() == previous) tdh_evaluator_set(evaluate);
  }
  return result;
}

/* Runs the frame with the evaluator below ours. The C recursion that CPython charges for it is given back: without us
 * the call would have been inlined and charged nothing. The depth is restored rather than decremented, so that a
 * greenlet that never returns cannot leave it too high. */
PyObject *tdh_hook_forward(PyThreadState *ts, tdh_frame *f, int throwflag) {
  tdh_thread *t = &tdh_thread_here;
  int depth = t->depth;
  if (TDH_UNLIKELY(depth >= TDH_DEPTH_LIMIT)) return forward_lifted(ts, f, throwflag);
  t->depth = depth + 1;
  tdh_c_units_add(ts, TDH_EVAL_C_UNITS);
  PyObject *result = evaluate_below(ts, f, throwflag);
  tdh_c_units_add(ts, -TDH_EVAL_C_UNITS);
  t->depth = depth;
  return result;
}

/* Runs the frame with whatever evaluator is on top now: Dynamo's, once it was given a callback. It may hand the very
 * same frame back to us, and is then passed on. */
PyObject *tdh_hook_hand_over(PyThreadState *ts, tdh_frame *f) {
  tdh_thread *t = &tdh_thread_here;
  tdh_evaluator now = tdh_evaluator_get();
  tdh_frame *outer = t->delegated;
  t->delegated = f;
  PyObject *result = now == evaluate ? tdh_hook_forward(ts, f, 0) : now(ts, f, 0);
  t->delegated = outer;
  return result;
}

/* Removed while another evaluator sat above us: goes as soon as that one has gone. */
TDH_COLD PyObject *tdh_hook_forward_unwanted(PyThreadState *ts, tdh_frame *f, int throwflag) {
  link_out();
  return tdh_hook_forward(ts, f, throwflag);
}
