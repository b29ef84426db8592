/* Gives functions the call door, where they and their entry allow it. Runs no Python code. */
#ifndef TDH_DOOR_PROMOTE_H
#define TDH_DOOR_PROMOTE_H

#include "table/entry.h"

void tdh_promote_met(PyObject *func, tdh_entry *e);
void tdh_promote_asked(PyObject *func, tdh_entry *e);

#endif
