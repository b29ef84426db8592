/* What happens around a call that no specialization serves: ask the record, hand the call to Dynamo, tell the record. */
#ifndef TDH_TABLE_MISS_H
#define TDH_TABLE_MISS_H

#include "table/entry.h"

int tdh_miss_init(void);

/* A new reference to Dynamo's callback for this call, or NULL to run it as plain Python. Never leaves an exception. */
PyObject *tdh_miss_begin(tdh_entry *e, int door, const tdh_call *call);
/* The delegated call has returned. Keeps the pending exception. */
void tdh_miss_end(tdh_entry *e);

int tdh_delegation_setup(PyObject *set_eval_frame, PyObject *leak_repair);
/* Puts `callback` in Dynamo's hands on this thread. *old is a new reference. -1: could not, nothing changed. */
int tdh_delegation_enter(PyObject *callback, PyObject **old);
/* Undoes it; steals `old`. Keeps the pending exception. */
void tdh_delegation_leave(PyObject *callback, PyObject *old);

#endif
