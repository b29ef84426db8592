/* Watches for new code objects while the evaluator is out (3.12+). Knows nothing of what is done with them. */
#ifndef TDH_HOOK_SENTINEL_H
#define TDH_HOOK_SENTINEL_H

#include "compat/py.h"

/* A code object starts for the first time; `func` is its function, borrowed, or NULL. 1: report it again, 0: never again,
 * -1 with an exception, which is raised where it starts. */
typedef int (*tdh_sentinel_fn)(PyCodeObject *code, PyObject *func);

int tdh_sentinel_arm(tdh_sentinel_fn on_start);
void tdh_sentinel_rest(void);
void tdh_sentinel_free(void);

#endif
