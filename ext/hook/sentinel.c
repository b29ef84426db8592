/* While the evaluator is out, a monitoring tool of ours watches PY_START: each code object is reported once, its event
 * is then disabled, and running it costs nothing more. CPython 3.12 and newer; elsewhere the hook never steps aside.
 * Must never touch the tool ids that debuggers, profilers and coverage expect. */
#include "hook/sentinel.h"

#include "table/entry.h"

#if TDH_HAS_MONITORING

static int tool_id = -1;
static bool armed;
static tdh_sentinel_fn on_start;
static PyObject *disable; /* owned: sys.monitoring.DISABLE */

/* Runs for the first PY_START of a code object. The function is read from the frame that is starting. */
static PyObject *sentinel_start(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  (void)self;
  if (nargs < 1 || !PyCode_Check(args[0]) || on_start == NULL) return Py_NewRef(disable);
  tdh_frame *f = tdh_frame_current(tdh_thread_state());
  PyCodeObject *code = (PyCodeObject *)args[0];
  PyObject *func =
      f != NULL && tdh_frame_code(f) == code && f->owner == FRAME_OWNED_BY_THREAD ? tdh_frame_func(f) : NULL;
  int again = on_start(code, func);
  return again < 0 ? NULL : Py_NewRef(again ? Py_None : disable);
}

static PyMethodDef start_def = {"trident_hook_sentinel", (PyCFunction)(void (*)(void))sentinel_start, METH_FASTCALL,
                                NULL};

/* New reference to sys.monitoring. */
static PyObject *monitoring(void) {
  PyObject *module = PySys_GetObject("monitoring");
  if (module == NULL) PyErr_SetString(PyExc_RuntimeError, "sys.monitoring is gone");
  return Py_XNewRef(module);
}

static long event_start(PyObject *m) {
  PyObject *events = PyObject_GetAttrString(m, "events");
  PyObject *value = events ? PyObject_GetAttrString(events, "PY_START") : NULL;
  long n = value ? PyLong_AsLong(value) : -1;
  Py_XDECREF(value);
  Py_XDECREF(events);
  return n;
}

static int call_ignore(PyObject *result) {
  if (result == NULL) return -1;
  Py_DECREF(result);
  return 0;
}

/* Takes one of the ids that no kind of tool is told to use. */
static int tool_take(PyObject *m) {
  static const int candidates[] = {4, 3};
  for (size_t i = 0; i < 2; i++) {
    PyObject *name = PyObject_CallMethod(m, "get_tool", "i", candidates[i]);
    if (name == NULL) return -1;
    bool is_free = name == Py_None;
    Py_DECREF(name);
    if (!is_free) continue;
    if (call_ignore(PyObject_CallMethod(m, "use_tool_id", "is", candidates[i], "trident_hook")) < 0) return -1;
    tool_id = candidates[i];
    tdh_own_tools = (uint8_t)(1u << tool_id);
    return 0;
  }
  PyErr_SetString(PyExc_RuntimeError, "no monitoring tool id is free");
  return -1;
}

static int events_set(PyObject *m, long events) {
  return call_ignore(PyObject_CallMethod(m, "set_events", "il", tool_id, events));
}

static int arm(PyObject *m) {
  if (disable == NULL && (disable = PyObject_GetAttrString(m, "DISABLE")) == NULL) return -1;
  if (tool_id < 0 && tool_take(m) < 0) return -1;
  long start = event_start(m);
  if (start < 0) return -1;
  PyObject *callback = PyCFunction_New(&start_def, NULL);
  if (callback == NULL) return -1;
  int rc = call_ignore(PyObject_CallMethod(m, "register_callback", "ilO", tool_id, start, callback));
  Py_DECREF(callback);
  return rc < 0 ? -1 : events_set(m, start);
}

/* -1 without an exception when it cannot be armed. Events bring all code up to date lazily. */
int tdh_sentinel_arm(tdh_sentinel_fn start) {
  on_start = start;
  PyObject *m = monitoring();
  int rc = m ? arm(m) : -1;
  if (rc < 0) PyErr_Clear();
  Py_XDECREF(m);
  armed = rc == 0;
  return rc;
}

/* Off for now; keeps the tool id. Keeps the pending exception. */
void tdh_sentinel_rest(void) {
  if (!armed) return;
  armed = false;
  tdh_error pending = tdh_error_save();
  PyObject *m = monitoring();
  if (m == NULL || events_set(m, 0) < 0) PyErr_Clear();
  Py_XDECREF(m);
  tdh_error_restore(pending);
}

void tdh_sentinel_free(void) {
  if (tool_id < 0) return;
  tdh_sentinel_rest();
  tdh_error pending = tdh_error_save();
  PyObject *m = monitoring();
  long start = m ? event_start(m) : -1;
  if (m == NULL || start < 0 ||
      call_ignore(PyObject_CallMethod(m, "register_callback", "ilO", tool_id, start, Py_None)) < 0)
    PyErr_Clear();
  if (m == NULL || call_ignore(PyObject_CallMethod(m, "free_tool_id", "i", tool_id)) < 0) PyErr_Clear();
  Py_XDECREF(m);
  tool_id = -1;
  tdh_own_tools = 0;
  tdh_error_restore(pending);
}

#else

int tdh_sentinel_arm(tdh_sentinel_fn start) {
  (void)start;
  return -1;
}
void tdh_sentinel_rest(void) {}
void tdh_sentinel_free(void) {}

#endif
