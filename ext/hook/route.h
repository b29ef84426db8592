/* One frame of an entry. */
#ifndef TDH_HOOK_ROUTE_H
#define TDH_HOOK_ROUTE_H

#include "table/entry.h"

PyObject *tdh_route_frame(PyThreadState *ts, tdh_frame *f, tdh_entry *e);
void tdh_route_raise(PyThreadState *ts, tdh_frame *f);

#endif
