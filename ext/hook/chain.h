/* The place of our evaluator in the chain of evaluators, and when it steps aside.
 *
 *            hook_install                 n quiet frames (3.12+)
 *    off  ----------------->  on  ----------------------------->  aside
 *     ^                      |  ^                                   |
 *     |     hook_remove      |  |   an entry needs frames again     |
 *     +----------------------+  +-----------------------------------+
 *
 * `covered` is what `on` is called while another evaluator (Dynamo's, a debugger's) sits above ours: it cannot be taken
 * out from below, so hook_remove then only makes ours forward until the other one has gone. In chain.c's variables:
 *
 *    state          wanted  aside  linked  evaluator on top
 *    off              0       0      0     not ours
 *    leaving          0       0      1     another's, ours forwards below it (hook_state says covered)
 *    on               1       0      1     ours, or none while a deep frame has lifted it (lifted > 0)
 *    covered          1       0      1     another's
 *    dropped          1       0      1     what was below ours: settle() puts ours back
 *    aside            1       1      0     not ours; the sentinel is armed
 */
#ifndef TDH_HOOK_CHAIN_H
#define TDH_HOOK_CHAIN_H

#include "hook/sentinel.h"
#include "table/entry.h"

/* What stands above: our evaluator, and what is told of new code while it is out. Once, before all else. */
void tdh_hook_init(tdh_evaluator evaluate, tdh_sentinel_fn on_start);

bool tdh_hook_install(void);
bool tdh_hook_remove(void);
const char *tdh_hook_state(void);
void tdh_hook_settle(void);
void tdh_hook_return(void);
void tdh_hook_notice(const tdh_entry *e);
void tdh_hook_quiet(void);
PyObject *tdh_hook_forward(PyThreadState *ts, tdh_frame *f, int throwflag);
PyObject *tdh_hook_forward_unwanted(PyThreadState *ts, tdh_frame *f, int throwflag);
PyObject *tdh_hook_hand_over(PyThreadState *ts, tdh_frame *f);
extern bool tdh_hook_wanted, tdh_hook_is_aside;

/* Hooked frames in a row that brought nothing new, and how many of them make the hook step aside. */
extern Py_ssize_t tdh_quiet_frames, tdh_quiet_limit;

#endif
