/* The frame door: our frame evaluation function, its place in the chain of evaluators, and when it steps aside.
 *
 *            hook_install                 n quiet frames (3.12+)
 *    off  ----------------->  on  ----------------------------->  aside
 *     ^                      |  ^                                   |
 *     |     hook_remove      |  |   an entry needs frames again     |
 *     +----------------------+  +-----------------------------------+
 *
 * `covered` is what `on` is called while another evaluator (Dynamo's, a debugger's) sits above ours: it cannot be taken
 * out from below, so hook_remove then only makes ours forward until the other one has gone. */
#ifndef TDH_HOOK_HOOK_H
#define TDH_HOOK_HOOK_H

#include "table/entry.h"

/* hook.c: the chain */
bool tdh_hook_install(void);
bool tdh_hook_remove(void);
const char *tdh_hook_state(void);
void tdh_hook_settle(void);
void tdh_hook_return(void);
void tdh_hook_notice(const tdh_entry *e);
PyObject *tdh_hook_forward(PyThreadState *ts, tdh_frame *f, int throwflag);
PyObject *tdh_hook_hand_over(PyThreadState *ts, tdh_frame *f);
extern bool tdh_hook_is_aside;

/* route.c: one frame of an entry */
PyObject *tdh_route_frame(PyThreadState *ts, tdh_frame *f, tdh_entry *e);
void tdh_route_raise(PyThreadState *ts, tdh_frame *f);
void tdh_route_promote(PyObject *func, tdh_entry *e);
void tdh_route_promote_asked(PyObject *func, tdh_entry *e);

/* discover.c: code objects seen for the first time */
void tdh_discoverer_set(PyObject *callable);
int tdh_discover(PyCodeObject *code, PyObject *func);

/* sentinel.c: watches for new code objects while the evaluator is out (3.12+) */
int tdh_sentinel_arm(void);
void tdh_sentinel_rest(void);
void tdh_sentinel_free(void);

/* Hooked frames in a row that brought nothing new, and how many of them make the hook step aside. */
extern Py_ssize_t tdh_quiet_frames, tdh_quiet_limit;

#endif
