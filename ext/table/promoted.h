/* Which functions carry the call door. Functions are known by address and never kept alive. CPython 3.12 and newer;
 * on 3.11 nothing can be promoted and every call here answers so. */
#ifndef TDH_TABLE_PROMOTED_H
#define TDH_TABLE_PROMOTED_H

#include "table/entry.h"

/* What a function that nobody touched has: _PyFunction_Vectorcall (not exported on 3.13). */
extern vectorcallfunc tdh_plain_vectorcall;

int tdh_promoted_init(vectorcallfunc door);
bool tdh_promoted_has(PyObject *func);
bool tdh_promoted_add(PyObject *func, tdh_entry *e);
bool tdh_promoted_remove(PyObject *func);
void tdh_promoted_entry_gone(tdh_entry *e);
Py_ssize_t tdh_promoted_remove_all(void);
Py_ssize_t tdh_promoted_count(void);
void tdh_promoted_lift(PyObject *func);
void tdh_promoted_lower(PyObject *func);

#endif
