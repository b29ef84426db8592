/* The miss protocol and the switch to Dynamo and back. Cold: a miss costs a compilation or a Dynamo cache look-up.
 * Must never raise anything of its own: the user's call goes on as plain Python instead. An interrupt (see
 * abi/tdh_interrupt.h) is not ours: it is left pending, whatever it meets is undone, and the call ends with it. */
#include "table/miss.h"

#include "abi/tdh_interrupt.h"

static PyObject *name_before_miss, *name_after_miss, *name_after_trial, *door_names[2];
static PyObject *set_eval_frame;         /* owned: torch._C._dynamo.eval_frame.set_eval_frame, or NULL */
static void (*callback_set)(PyObject *); /* libtorch_python's eval_frame_callback_set, or NULL */
void (*tdh_delegation_left)(void);
/* The call that this thread's record is being told of; both are borrowed, NULL at any other time. */
static _Thread_local struct {
  const tdh_entry *entry;
  const tdh_call *call;
} missed;

int tdh_miss_init(void) {
  if (name_before_miss) return 0;
  door_names[0] = PyUnicode_InternFromString("frame");
  door_names[1] = PyUnicode_InternFromString("call");
  name_after_miss = PyUnicode_InternFromString("after_miss");
  name_after_trial = PyUnicode_InternFromString("after_trial");
  name_before_miss = PyUnicode_InternFromString("before_miss");
  return door_names[0] && door_names[1] && name_after_miss && name_after_trial && name_before_miss ? 0 : -1;
}

/* `leak_repair`: None, or the address of eval_frame_callback_set as an int (see is_leaked). */
int tdh_delegation_setup(PyObject *setter, PyObject *leak_repair) {
  if (setter != Py_None && !PyCallable_Check(setter)) {
    PyErr_Format(PyExc_TypeError, "delegation_setup: set_eval_frame: seen %R, expected a callable or None", setter);
    return -1;
  }
  void *address = NULL;
  if (leak_repair != Py_None) {
    address = PyLong_AsVoidPtr(leak_repair);
    if (address == NULL && PyErr_Occurred()) return -1;
  }
  PyObject *old = set_eval_frame;
  set_eval_frame = setter == Py_None ? NULL : Py_NewRef(setter);
  memcpy(&callback_set, &address, sizeof address);
  Py_XDECREF(old);
  return 0;
}

/* Of the exception that is pending: one of ours is reported and gone, an interrupt stays pending. */
static void fault_report(PyObject *where) {
  if (!tdh_is_interrupt()) PyErr_WriteUnraisable(where);
}

/* Back to what was pending before, but an interrupt that came since goes first, and remembers it. */
static void pending_restore(tdh_error before) {
  if (PyErr_Occurred() == NULL)
    tdh_error_restore(before);
  else
    tdh_error_chain(before);
}

/* Counted here, not by the record: an interrupt between two lines of Python would leave its count wrong for ever. */
static void missing_add(tdh_entry *e, int n) {
  e->n_missing += (uint32_t)n;
  tdh_thread_here.missing += n;
}

TDH_COLD PyObject *tdh_miss_begin(tdh_entry *e, int door, const tdh_call *call) {
  PyObject *record = Py_NewRef(e->record), *callback = NULL;
  missing_add(e, 1);
  if (record != Py_None) {
    PyObject *spec = PyLong_FromLong(call->spec), *guard = spec ? PyLong_FromLong(call->guard) : NULL;
    if (guard) {
      PyObject *args[] = {record, door_names[door == TDH_DOOR_CALL], spec, guard};
      __typeof__(missed) outer = missed;
      missed.entry = e;
      missed.call = call;
      ++tdh_thread_here.inside;
      callback = PyObject_VectorcallMethod(name_before_miss, args, 4 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
      --tdh_thread_here.inside;
      missed = outer;
    }
    Py_XDECREF(spec);
    Py_XDECREF(guard);
    if (callback == NULL) fault_report(record);
  }
  Py_DECREF(record);
  if (callback == Py_None || (callback != NULL && set_eval_frame == NULL)) Py_CLEAR(callback);
  if (callback == NULL || tdh_miss_is_trial(callback)) missing_add(e, -1);
  return callback;
}

TDH_COLD PyObject *tdh_missed_call(void) {
  const PyCodeObject *code = missed.entry ? missed.entry->code : NULL;
  if (code == NULL) Py_RETURN_NONE;
  Py_ssize_t n = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
                 ((code->co_flags & CO_VARKEYWORDS) != 0);
  PyObject *values = PyTuple_New(n);
  if (values == NULL) return NULL;
  for (Py_ssize_t i = 0; i < n; i++)
    PyTuple_SET_ITEM(values, i, Py_NewRef(missed.call->locals[i] ? missed.call->locals[i] : Py_None));
  return Py_BuildValue("(ON)", missed.call->func, values);
}

TDH_COLD void tdh_miss_end(tdh_entry *e, PyObject *answer) {
  bool raised = PyErr_Occurred() != NULL;
  if (!tdh_miss_is_trial(answer)) missing_add(e, -1);
  tdh_error pending = tdh_error_save();
  PyObject *record = Py_NewRef(e->record), *how = raised ? Py_True : Py_False;
  ++tdh_thread_here.inside;
  PyObject *done = tdh_miss_is_trial(answer) ? PyObject_CallMethodObjArgs(record, name_after_trial, answer, how, NULL)
                                             : PyObject_CallMethodOneArg(record, name_after_miss, how);
  --tdh_thread_here.inside;
  if (done == NULL) fault_report(record);
  Py_XDECREF(done);
  Py_DECREF(record);
  pending_restore(pending);
}

TDH_COLD int tdh_delegation_enter(tdh_delegation *d, PyObject *callback) {
  PyObject *setter = set_eval_frame ? Py_NewRef(set_eval_frame) : NULL;
  d->callback = callback;
  d->before = tdh_evaluator_get();
  d->old = setter ? PyObject_CallOneArg(setter, callback) : NULL;
  if (d->old == NULL && setter) fault_report(setter);
  Py_XDECREF(setter);
  return d->old ? 0 : -1;
}

/* When Dynamo or a backend raises, Dynamo leaves the thread's callback at None without taking its evaluator down, and
 * set_eval_frame(None) then sees no change: every later call in the process pays. Putting the callback back behind its
 * back first makes the count come out right. It owns what it holds, so it is given a reference. */
static bool is_leaked(const tdh_delegation *d, PyObject *prior) {
  return callback_set != NULL && prior == Py_None && d->old == Py_None && d->callback != Py_None &&
         tdh_evaluator_get() != d->before;
}

TDH_COLD void tdh_delegation_leave(tdh_delegation *d) {
  tdh_error pending = tdh_error_save();
  PyObject *setter = Py_NewRef(set_eval_frame ? set_eval_frame : Py_None);
  PyObject *prior = setter != Py_None ? PyObject_CallOneArg(setter, d->old) : Py_NewRef(Py_None);
  if (prior && setter != Py_None && is_leaked(d, prior)) {
    Py_INCREF(d->callback);
    callback_set(d->callback);
    Py_DECREF(prior);
    prior = PyObject_CallOneArg(setter, d->old);
  }
  if (prior == NULL && tdh_is_interrupt()) { /* it may have come before anything was done */
    tdh_error interrupt = tdh_error_save();
    prior = PyObject_CallOneArg(setter, d->old);
    if (prior == NULL) PyErr_WriteUnraisable(setter);
    tdh_error_restore(interrupt);
  } else if (prior == NULL) {
    PyErr_WriteUnraisable(setter);
  }
  Py_XDECREF(prior);
  Py_DECREF(setter);
  Py_CLEAR(d->old);
  if (tdh_delegation_left) tdh_delegation_left();
  pending_restore(pending);
}
