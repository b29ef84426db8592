/* Which functions may get the call door. */
#include "door/promote.h"

#include "table/promoted.h"

/* A function that the frame door or the sentinel met gets its call door, if its entry has both (the call door alone is
 * for a JitFunction: its plain function stays plain). Runs no Python code. */
void tdh_promote_met(PyObject *func, tdh_entry *e) {
  if (e->doors & TDH_DOOR_FRAME) tdh_promote_asked(func, e);
}

/* The same because somebody asked for it: the call door is enough. */
void tdh_promote_asked(PyObject *func, tdh_entry *e) {
  if (!TDH_HAS_CALL_DOOR || !(e->doors & TDH_DOOR_CALL) || !PyFunction_Check(func)) return;
  PyFunctionObject *f = (PyFunctionObject *)func;
  if (f->vectorcall == tdh_plain_vectorcall && e->state == TDH_STATE_SERVE && e->routable &&
      f->func_code == (PyObject *)e->code)
    tdh_promoted_add(func, e);
}
