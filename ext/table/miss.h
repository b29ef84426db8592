/* What happens around a call that no specialization serves: ask the record, hand the call to Dynamo, tell the record. */
#ifndef TDH_TABLE_MISS_H
#define TDH_TABLE_MISS_H

#include "table/entry.h"

int tdh_miss_init(void);

/* A new reference to what the record answers: Dynamo's callback for this call, or a tuple: the call is on trial, it runs
 * as plain Python and the record is told how it ended. NULL: plain Python, or an interrupt if an exception is pending. */
PyObject *tdh_miss_begin(tdh_entry *e, int door, const tdh_call *call);
/* The call that this thread's record is being told of, while it is: (function, tuple of its arguments as a frame holds
 * them), a new reference; None at any other time. NULL with an exception when out of memory. Runs no Python code. */
PyObject *tdh_missed_call(void);
static inline bool tdh_miss_is_trial(PyObject *answer) {
  return PyTuple_CheckExact(answer);
}
/* The call that `answer` was given for has ended. Keeps the pending exception, unless an interrupt takes its place. */
void tdh_miss_end(tdh_entry *e, PyObject *answer);

int tdh_delegation_setup(PyObject *set_eval_frame, PyObject *leak_repair);

typedef struct tdh_delegation {
  PyObject *callback;   /* borrowed: outlives the call */
  PyObject *old;        /* owned: the callback that this thread had before */
  tdh_evaluator before; /* the evaluator that was on top before */
} tdh_delegation;

/* Puts `callback` in Dynamo's hands on this thread. -1: could not, nothing changed; an exception that is left is an
 * interrupt. */
int tdh_delegation_enter(tdh_delegation *d, PyObject *callback);
/* Undoes it. Keeps the pending exception, unless an interrupt takes its place. */
void tdh_delegation_leave(tdh_delegation *d);
/* The call's result, or NULL in its place where an interrupt came while the record was told of it. */
static inline PyObject *tdh_unless_interrupted(PyObject *result) {
  if (result != NULL && PyErr_Occurred()) Py_CLEAR(result);
  return result;
}
/* Called at the end of each, if set: Dynamo's evaluator has just left the chain, and may have dropped ours. */
extern void (*tdh_delegation_left)(void);

#endif
