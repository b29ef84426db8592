/* Code objects seen for the first time. */
#ifndef TDH_HOOK_DISCOVER_H
#define TDH_HOOK_DISCOVER_H

#include "table/entry.h"

void tdh_discoverer_set(PyObject *callable);
int tdh_discover(PyCodeObject *code, PyObject *func);

#endif
