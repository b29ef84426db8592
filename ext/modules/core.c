/* trident_hook._core: the module and its methods. Only argument checks and wiring; the work is in hook/, table/, door/.
 * One interpreter only: the tables are process-wide and guarded by that interpreter's GIL. */
#include "door/door.h"
#include "door/promote.h"
#include "hook/chain.h"
#include "hook/discover.h"
#include "hook/evaluate.h"
#include "table/miss.h"

/* Borrowed. NULL with TypeError. */
static PyCodeObject *code_arg(PyObject *op) {
  if (PyCode_Check(op)) return (PyCodeObject *)op;
  PyErr_Format(PyExc_TypeError, "seen an object of type %.200s, expected a code object", Py_TYPE(op)->tp_name);
  return NULL;
}

static PyObject *function_arg(PyObject *op) {
  if (PyFunction_Check(op)) return op;
  PyErr_Format(PyExc_TypeError, "seen an object of type %.200s, expected a Python function", Py_TYPE(op)->tp_name);
  return NULL;
}

/* Borrowed. NULL with TypeError or KeyError. */
static tdh_entry *entry_arg(PyObject *op) {
  PyCodeObject *code = code_arg(op);
  if (code == NULL) return NULL;
  tdh_entry *e = tdh_entry_find(code);
  if (e == NULL) PyErr_Format(PyExc_KeyError, "%R has no entry", op);
  return e;
}

static int range_check(const char *what, int seen, int low, int high) {
  if (seen >= low && seen <= high) return 0;
  PyErr_Format(PyExc_ValueError, "%s: seen %d, expected %d to %d", what, seen, low, high);
  return -1;
}

/* ---- hook ------------------------------------------------------------------------------------------------------- */

static PyObject *hook_install(PyObject *m, PyObject *x) {
  return (void)m, (void)x, PyBool_FromLong(tdh_hook_install());
}
static PyObject *hook_remove(PyObject *m, PyObject *x) {
  return (void)m, (void)x, PyBool_FromLong(tdh_hook_remove());
}
static PyObject *hook_state(PyObject *m, PyObject *x) {
  return (void)m, (void)x, PyUnicode_FromString(tdh_hook_state());
}

static PyObject *discoverer_set(PyObject *m, PyObject *callable) {
  (void)m;
  if (callable != Py_None && !PyCallable_Check(callable))
    return PyErr_Format(PyExc_TypeError, "discoverer_set: seen %R, expected a callable or None", callable);
  tdh_discoverer_set(callable);
  Py_RETURN_NONE;
}

static PyObject *quiet_after_set(PyObject *m, PyObject *n) {
  (void)m;
  Py_ssize_t limit = PyLong_AsSsize_t(n);
  if (limit == -1 && PyErr_Occurred()) return NULL;
  tdh_quiet_limit = limit > 0 ? limit : PY_SSIZE_T_MAX;
  tdh_quiet_frames = 0;
  Py_RETURN_NONE;
}

static PyObject *delegation_setup(PyObject *m, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"set_eval_frame", "clear_hint", NULL};
  PyObject *setter, *hint = Py_None;
  (void)m;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:delegation_setup", names, &setter, &hint)) return NULL;
  if (tdh_delegation_setup(setter, hint) < 0) return NULL;
  Py_RETURN_NONE;
}

/* ---- entries ---------------------------------------------------------------------------------------------------- */

static PyObject *entry_create(PyObject *m, PyObject *args) {
  PyObject *op, *record;
  int doors;
  (void)m;
  if (!PyArg_ParseTuple(args, "OOi:entry_create", &op, &record, &doors)) return NULL;
  PyCodeObject *code = code_arg(op);
  if (code == NULL || range_check("doors", doors, 0, TDH_DOOR_FRAME | TDH_DOOR_CALL) < 0) return NULL;
  tdh_entry *e = tdh_entry_create(code, record, doors);
  if (e == NULL) return NULL;
  tdh_hook_notice(e);
  return Py_NewRef(e->record);
}

static PyObject *entry_drop(PyObject *m, PyObject *op) {
  (void)m;
  PyCodeObject *code = code_arg(op);
  int rc = code ? tdh_entry_drop(code) : -1;
  return rc < 0 ? NULL : PyBool_FromLong(rc);
}

static PyObject *entry_record(PyObject *m, PyObject *op) {
  (void)m;
  PyCodeObject *code = code_arg(op);
  if (code == NULL) return NULL;
  tdh_entry *e = tdh_entry_find(code);
  return Py_NewRef(e ? e->record : Py_None);
}

static PyObject *entry_doors_set(PyObject *m, PyObject *args) {
  PyObject *op;
  int doors;
  (void)m;
  if (!PyArg_ParseTuple(args, "Oi:entry_doors_set", &op, &doors)) return NULL;
  tdh_entry *e = entry_arg(op);
  if (e == NULL || range_check("doors", doors, 0, TDH_DOOR_FRAME | TDH_DOOR_CALL) < 0) return NULL;
  tdh_entry_doors_set(e, doors);
  tdh_hook_notice(e);
  Py_RETURN_NONE;
}

static PyObject *entry_scm_set(PyObject *m, PyObject *args) {
  PyObject *op, *module;
  (void)m;
  if (!PyArg_ParseTuple(args, "OO:entry_scm_set", &op, &module)) return NULL;
  tdh_entry *e = entry_arg(op);
  if (e == NULL) return NULL;
  tdh_entry_hold(e); /* the module's attributes and the old module's end may run Python code */
  int rc = tdh_entry_scm_set(e, module);
  if (rc == 0) tdh_hook_notice(e);
  tdh_entry_release(e);
  if (rc < 0) return NULL;
  Py_RETURN_NONE;
}

/* Asks the SCM without a fallback: (True, result), (False, None) on a miss, or the program's exception. */
static PyObject *scm_ask(PyObject *m, PyObject *args) {
  PyObject *func, *given, *result = NULL;
  (void)m;
  if (!PyArg_ParseTuple(args, "O!O!:scm_ask", &PyFunction_Type, &func, &PyTuple_Type, &given)) return NULL;
  int outcome = tdh_door_ask(func, &PyTuple_GET_ITEM(given, 0), PyTuple_GET_SIZE(given), &result);
  if (outcome == TDH_HIT) return Py_BuildValue("(ON)", Py_True, result);
  return outcome == TDH_MISS ? Py_BuildValue("(OO)", Py_False, Py_None) : NULL;
}

/* The number of the specialization that would serve the call, None where none would. `times`: for measuring. */
static PyObject *scm_check(PyObject *m, PyObject *args) {
  PyObject *func, *given;
  Py_ssize_t times = 1;
  (void)m;
  if (!PyArg_ParseTuple(args, "O!O!|n:scm_check", &PyFunction_Type, &func, &PyTuple_Type, &given, &times)) return NULL;
  int spec = tdh_door_check(func, &PyTuple_GET_ITEM(given, 0), PyTuple_GET_SIZE(given), times);
  if (spec == -2) return NULL;
  if (spec < 0) Py_RETURN_NONE;
  return PyLong_FromLong(spec);
}

static PyObject *missed_call(PyObject *m, PyObject *none) {
  (void)m, (void)none;
  return tdh_missed_call();
}

static PyObject *entry_state_set(PyObject *m, PyObject *args) {
  PyObject *op;
  int state;
  (void)m;
  if (!PyArg_ParseTuple(args, "Oi:entry_state_set", &op, &state)) return NULL;
  tdh_entry *e = entry_arg(op);
  if (e == NULL || range_check("state", state, TDH_STATE_OFF, TDH_STATE_REFUSED) < 0) return NULL;
  tdh_entry_state_set(e, state);
  tdh_hook_notice(e);
  Py_RETURN_NONE;
}

static PyObject *entry_stats(PyObject *m, PyObject *op) {
  (void)m;
  tdh_entry *e = entry_arg(op);
  return e ? tdh_entry_stats(e) : NULL;
}

static PyObject *entry_missing(PyObject *m, PyObject *op) {
  (void)m;
  tdh_entry *e = entry_arg(op);
  return e ? PyLong_FromUnsignedLong(e->n_missing) : NULL;
}

static PyObject *forked(PyObject *m, PyObject *ignored) {
  (void)m, (void)ignored;
  tdh_entry_forked();
  Py_RETURN_NONE;
}

static PyObject *entry_stats_reset(PyObject *m, PyObject *op) {
  (void)m;
  tdh_entry *e = entry_arg(op);
  if (e == NULL) return NULL;
  e->counts = (tdh_counts){0};
  Py_RETURN_NONE;
}

/* ---- call door -------------------------------------------------------------------------------------------------- */

/* False: not promoted (CPython 3.11, no entry with a call door, not a servable function, another vectorcall there). */
static PyObject *promote(PyObject *m, PyObject *op) {
  (void)m;
  PyObject *func = function_arg(op);
  if (func == NULL) return NULL;
  tdh_entry *e = tdh_entry_find((PyCodeObject *)((PyFunctionObject *)func)->func_code);
  if (e == NULL || !(e->doors & TDH_DOOR_CALL)) Py_RETURN_FALSE;
  tdh_promote_asked(func, e);
  return PyBool_FromLong(tdh_promoted_has(func));
}

static PyObject *demote(PyObject *m, PyObject *op) {
  (void)m;
  return function_arg(op) ? PyBool_FromLong(tdh_promoted_remove(op)) : NULL;
}

static PyObject *is_promoted(PyObject *m, PyObject *op) {
  (void)m;
  return function_arg(op) ? PyBool_FromLong(tdh_promoted_has(op)) : NULL;
}

static PyObject *demote_all(PyObject *m, PyObject *x) {
  (void)m, (void)x;
  return PyLong_FromSsize_t(tdh_promoted_remove_all());
}

static PyObject *live_counts(PyObject *m, PyObject *x) {
  (void)m, (void)x;
  return Py_BuildValue("{s:n,s:n,s:n,s:n}", "entries", tdh_entry_count(), "scms", tdh_entry_scm_count(), "promoted",
                       tdh_promoted_count(), "jit_functions", tdh_jit_count());
}

/* ---- module ----------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"hook_install", hook_install, METH_NOARGS, PyDoc_STR("Put the frame door in; True if it was not.")},
    {"hook_remove", hook_remove, METH_NOARGS,
     PyDoc_STR("Take the frame door and its sentinel out; True if it was in.")},
    {"hook_state", hook_state, METH_NOARGS, PyDoc_STR("'off', 'on', 'aside' or 'covered'.")},
    {"discoverer_set", discoverer_set, METH_O,
     PyDoc_STR("Who is shown each new function's first call; None for nobody.")},
    {"quiet_after_set", quiet_after_set, METH_O,
     PyDoc_STR("Frames without news before the hook steps aside; 0: never.")},
    {"delegation_setup", (PyCFunction)(void (*)(void))delegation_setup, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR(
         "delegation_setup(set_eval_frame, clear_hint=None): how to reach Dynamo.\n\nclear_hint is the address of "
         "libtorch_python's eval_frame_callback_set, which repairs what Dynamo leaves behind when it raises.")},
    {"entry_create", entry_create, METH_VARARGS,
     PyDoc_STR("entry_create(code, record, doors): make or extend the entry; returns the record that it has.")},
    {"entry_drop", entry_drop, METH_O, PyDoc_STR("Forget the entry of a code object; True if there was one.")},
    {"entry_record", entry_record, METH_O, PyDoc_STR("The record of a code object's entry, or None.")},
    {"entry_doors_set", entry_doors_set, METH_VARARGS, PyDoc_STR("entry_doors_set(code, doors): 1 frame, 2 call.")},
    {"entry_scm_set", entry_scm_set, METH_VARARGS, PyDoc_STR("entry_scm_set(code, module or None): swap the SCM.")},
    {"scm_ask", scm_ask, METH_VARARGS, PyDoc_STR("scm_ask(function, args) -> (hit, result); nothing is delegated.")},
    {"scm_check", scm_check, METH_VARARGS,
     PyDoc_STR(
         "scm_check(function, args[, times]) -> number of the specialization that would serve the call, or None.")},
    {"missed_call", missed_call, METH_NOARGS,
     PyDoc_STR("(function, arguments) of the call that before_miss is being told of; None outside of it.")},
    {"entry_state_set", entry_state_set, METH_VARARGS,
     PyDoc_STR("entry_state_set(code, state): OFF, SERVE or REFUSED.")},
    {"entry_stats", entry_stats, METH_O, PyDoc_STR("Counters of an entry, as a dict.")},
    {"entry_missing", entry_missing, METH_O, PyDoc_STR("How many calls of a code object are in a miss now.")},
    {"forked", forked, METH_NOARGS, PyDoc_STR("To be called in the child of a fork: other threads are gone.")},
    {"entry_stats_reset", entry_stats_reset, METH_O, PyDoc_STR("Set the counters of an entry to zero.")},
    {"promote", promote, METH_O, PyDoc_STR("Give a function the call door (CPython 3.12+); whether it has it now.")},
    {"demote", demote, METH_O, PyDoc_STR("Take the call door back; whether it was there.")},
    {"is_promoted", is_promoted, METH_O, PyDoc_STR("Whether a function carries the call door.")},
    {"demote_all", demote_all, METH_NOARGS, PyDoc_STR("Take every call door back; how many there were.")},
    {"live_counts", live_counts, METH_NOARGS, PyDoc_STR("What is alive: entries, scms, promoted, jit_functions.")},
    {NULL, NULL, 0, NULL},
};

/* The hook goes before the interpreter is torn down: nothing is worth discovering or missing after that. */
static int exit_register(PyObject *module) {
  PyObject *atexit = PyImport_ImportModule("atexit");
  PyObject *remove = atexit ? PyObject_GetAttrString(module, "hook_remove") : NULL;
  PyObject *done = remove ? PyObject_CallMethod(atexit, "register", "O", remove) : NULL;
  Py_XDECREF(done);
  Py_XDECREF(remove);
  Py_XDECREF(atexit);
  return done ? 0 : -1;
}

static int constants_add(PyObject *module) {
  return PyModule_AddIntConstant(module, "abi_version", TDH_ABI_VERSION) < 0 ||
                 PyModule_AddIntConstant(module, "DOOR_FRAME", TDH_DOOR_FRAME) < 0 ||
                 PyModule_AddIntConstant(module, "DOOR_CALL", TDH_DOOR_CALL) < 0 ||
                 PyModule_AddIntConstant(module, "OFF", TDH_STATE_OFF) < 0 ||
                 PyModule_AddIntConstant(module, "SERVE", TDH_STATE_SERVE) < 0 ||
                 PyModule_AddIntConstant(module, "REFUSED", TDH_STATE_REFUSED) < 0
             ? -1
             : 0;
}

static int core_exec(PyObject *module) {
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError, "trident_hook works in the main interpreter only: this is a subinterpreter");
    return -1;
  }
  tdh_evaluate_init();
  tdh_delegation_left = tdh_hook_settle;
  if (tdh_entry_init() < 0 || tdh_miss_init() < 0 || tdh_door_init() < 0 || tdh_jit_init() < 0) return -1;
  if (PyModule_AddObjectRef(module, "JitFunction", (PyObject *)&tdh_jit_type) < 0) return -1;
  if (constants_add(module) < 0) return -1;
  return exit_register(module);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, core_exec}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "trident_hook._core",
    .m_doc = PyDoc_STR("The doors through which calls reach specialization cache modules."),
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void) {
  return PyModuleDef_Init(&definition);
}
