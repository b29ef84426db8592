/* The only home of questions about the CPython version, and of its internal headers.
 *
 * Everything else in ext/ reads frames, code objects and thread states through the verbs below and asks for facts by
 * name. When CPython moves a field, this file changes and nothing else does. An unknown minor stops the build: frame
 * layouts are private, and guessing one corrupts memory. */
#ifndef TDH_COMPAT_PY_H
#define TDH_COMPAT_PY_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000
#error "trident_hook needs CPython 3.11 or newer: older frames are heap objects with another layout"
#elif PY_VERSION_HEX >= 0x030E0000
#error "trident_hook does not know this CPython minor yet (3.14 frames hold _PyStackRef): extend ext/compat/py.h"
#endif
#ifdef Py_GIL_DISABLED
#error "trident_hook does not support free-threaded builds: its tables are guarded by the GIL"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#undef _PyGC_FINALIZED /* defined by both the public and the internal headers of 3.11 and 3.12 */
#define Py_BUILD_CORE 1
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#undef Py_BUILD_CORE
#pragma GCC diagnostic pop

#define TDH_LIKELY(x) __builtin_expect(!!(x), 1)
#define TDH_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TDH_COLD __attribute__((cold, noinline))

/* ---- facts ------------------------------------------------------------------------------------------------------ */

/* Python call sites honour PyFunctionObject.vectorcall and there is PyFunction_SetVectorcall (gh-92257, 3.12). On 3.11
 * the specialised call instructions ignore an override. Function watchers came with the same release (gh-91053). */
#define TDH_HAS_CALL_DOOR (PY_VERSION_HEX >= 0x030C0000)

/* sys.monitoring (PEP 669, 3.12). */
#define TDH_HAS_MONITORING (PY_VERSION_HEX >= 0x030C0000)

/* An evaluator that does not run a frame must clear and pop it (gh-96793, 3.12). On 3.11 its caller does. */
#define TDH_EVALUATOR_CLEARS_FRAME (PY_VERSION_HEX >= 0x030C0000)

/* Units of tstate->c_recursion_remaining that one _PyEval_EvalFrameDefault takes (PY_EVAL_C_STACK_UNITS in ceval.c).
 * 3.11 has a single counter that counts a Python frame the same whether it is inlined or not. */
#if PY_VERSION_HEX >= 0x030C0000
#define TDH_EVAL_C_UNITS 2
#else
#define TDH_EVAL_C_UNITS 0
#endif

/* ---- thread state ----------------------------------------------------------------------------------------------- */

static inline PyThreadState *tdh_thread_state(void) {
#if PY_VERSION_HEX >= 0x030D0000
  return PyThreadState_GetUnchecked();
#else
  return _PyThreadState_UncheckedGet();
#endif
}

/* Takes back (units > 0) or charges (units < 0) C recursion. */
static inline void tdh_c_units_add(PyThreadState *ts, int units) {
#if PY_VERSION_HEX >= 0x030C0000
  ts->c_recursion_remaining += units;
#else
  (void)ts, (void)units;
#endif
}

/* Py_EnterRecursiveCall without the call while there is plenty left. Non-zero with RecursionError set. */
static inline int tdh_recursion_enter(PyThreadState *ts) {
#if PY_VERSION_HEX >= 0x030C0000
  int *remaining = &ts->c_recursion_remaining;
#else
  int *remaining = &ts->recursion_remaining;
#endif
  if (TDH_LIKELY(*remaining > 1)) {
    --*remaining;
    return 0;
  }
  return Py_EnterRecursiveCall(" in a trident_hook specialization");
}

static inline void tdh_recursion_leave(PyThreadState *ts) {
#if PY_VERSION_HEX >= 0x030C0000
  ++ts->c_recursion_remaining;
#else
  ++ts->recursion_remaining;
#endif
}

#if TDH_HAS_MONITORING
/* Whether any tool of `mask` is set in a monitors table of `n` bytes (one byte an event, one bit a tool). Two loads. */
static inline bool tdh_tools_any(const uint8_t *tools, size_t n, uint8_t mask) {
  uint64_t head, tail;
  memcpy(&head, tools, 8);
  memcpy(&tail, tools + n - 8, 8);
  return ((head | tail) & mask * UINT64_C(0x0101010101010101)) != 0;
}
_Static_assert(sizeof(_Py_GlobalMonitors) >= 8 && sizeof(_Py_GlobalMonitors) <= 16 && sizeof(_Py_LocalMonitors) >= 8 &&
                   sizeof(_Py_LocalMonitors) <= 16,
               "tdh_tools_any reads 8 to 16 bytes");
#endif

/* Whether a tracer, a profiler or a monitoring tool wants to see calls of `code` on this thread. A served call produces
 * no events, so such calls must run as plain Python. `own_tools` are bits of monitoring tools that are ours.
 * sys.settrace and sys.setprofile use the tool ids 6 and 7 for all threads: for them the thread's own fields decide. */
static inline bool tdh_thread_is_watched(PyThreadState *ts, PyCodeObject *code, uint8_t own_tools) {
#if TDH_HAS_MONITORING
  if (TDH_UNLIKELY(ts->c_tracefunc != NULL || ts->c_profilefunc != NULL)) return true;
  uint8_t mask = (uint8_t)~(own_tools | 1u << PY_MONITORING_SYS_PROFILE_ID | 1u << PY_MONITORING_SYS_TRACE_ID);
  _Py_GlobalMonitors *global = &ts->interp->monitors;
  if (TDH_UNLIKELY(tdh_tools_any(global->tools, sizeof global->tools, mask))) return true;
  if (TDH_LIKELY(code->_co_monitoring == NULL)) return false;
  _Py_LocalMonitors *local = &code->_co_monitoring->local_monitors;
  return tdh_tools_any(local->tools, sizeof local->tools, mask);
#else
  (void)code, (void)own_tools;
  return ts->cframe->use_tracing != 0 || ts->c_tracefunc != NULL || ts->c_profilefunc != NULL;
#endif
}

/* Saved exception state: PyErr_Fetch is deprecated on 3.12, PyErr_GetRaisedException absent on 3.11. */
typedef struct tdh_error {
  PyObject *type, *value, *traceback;
} tdh_error;

static inline tdh_error tdh_error_save(void) {
  tdh_error e = {NULL, NULL, NULL};
#if PY_VERSION_HEX >= 0x030C0000
  e.value = PyErr_GetRaisedException();
#else
  PyErr_Fetch(&e.type, &e.value, &e.traceback);
#endif
  return e;
}

static inline void tdh_error_restore(tdh_error e) { /* steals what was saved; clears the state if that was nothing */
#if PY_VERSION_HEX >= 0x030C0000
  PyErr_SetRaisedException(e.value);
#else
  PyErr_Restore(e.type, e.value, e.traceback);
#endif
}

/* What was saved becomes the context of the exception that is pending now. Steals it. */
static inline void tdh_error_chain(tdh_error saved) {
#if PY_VERSION_HEX >= 0x030C0000
  PyObject *now = PyErr_GetRaisedException(), *context = saved.value;
#else
  PyObject *type, *now, *traceback, *context;
  PyErr_Fetch(&type, &now, &traceback);
  PyErr_NormalizeException(&type, &now, &traceback);
  if (saved.type) PyErr_NormalizeException(&saved.type, &saved.value, &saved.traceback);
  if (saved.value && saved.traceback) PyException_SetTraceback(saved.value, saved.traceback);
  Py_XDECREF(saved.type);
  Py_XDECREF(saved.traceback);
  context = saved.value;
#endif
  if (context != NULL && context != now)
    PyException_SetContext(now, context);
  else
    Py_XDECREF(context);
#if PY_VERSION_HEX >= 0x030C0000
  PyErr_SetRaisedException(now);
#else
  PyErr_Restore(type, now, traceback);
#endif
}

/* ---- code objects ----------------------------------------------------------------------------------------------- */

static inline Py_ssize_t tdh_code_extra_request(freefunc free_slot) {
#if PY_VERSION_HEX >= 0x030C0000
  return PyUnstable_Eval_RequestCodeExtraIndex(free_slot);
#else
  return _PyEval_RequestCodeExtraIndex(free_slot);
#endif
}

/* The slot of `index`, or NULL. Same layout as _PyCodeObjectExtra in Objects/codeobject.c since 3.6; one load instead
 * of the checked call. */
static inline void *tdh_code_extra(PyCodeObject *code, Py_ssize_t index) {
  struct {
    Py_ssize_t size;
    void *slots[1];
  } *extra = code->co_extra;
  return extra == NULL || index >= extra->size ? NULL : extra->slots[index];
}

/* Frees what was in the slot first. -1 with an exception set. */
static inline int tdh_code_extra_set(PyCodeObject *code, Py_ssize_t index, void *value) {
#if PY_VERSION_HEX >= 0x030C0000
  return PyUnstable_Code_SetExtra((PyObject *)code, index, value);
#else
  return _PyCode_SetExtra((PyObject *)code, index, value);
#endif
}

/* MAKE_FUNCTION gives a new function its code's version *after* the CREATE event, and call sites that were specialised
 * for that version skip a vectorcall override. With version 0 they do not. Returns the old version. */
static inline uint32_t tdh_code_version_exchange(PyCodeObject *code, uint32_t version) {
#if TDH_HAS_CALL_DOOR
  uint32_t old = code->co_version;
  code->co_version = version;
  return old;
#else
  (void)code;
  return version;
#endif
}

/* ---- frames ----------------------------------------------------------------------------------------------------- */

typedef struct _PyInterpreterFrame tdh_frame;

static inline PyCodeObject *tdh_frame_code(tdh_frame *f) { /* borrowed */
#if PY_VERSION_HEX >= 0x030D0000
  return (PyCodeObject *)f->f_executable;
#else
  return f->f_code;
#endif
}

static inline PyObject *tdh_frame_func(tdh_frame *f) { /* borrowed */
#if PY_VERSION_HEX >= 0x030C0000
  return f->f_funcobj;
#else
  return (PyObject *)f->f_func;
#endif
}

/* MAKE_CELL and COPY_FREE_VARS have not run in a fresh frame: the arguments are raw values, all else is NULL. */
static inline PyObject *const *tdh_frame_locals(tdh_frame *f) {
  return f->localsplus;
}

/* A function's frame that nobody has started or looked at: the only kind that may be served without running it. */
static inline bool tdh_frame_is_fresh(tdh_frame *f) {
  if (f->owner != FRAME_OWNED_BY_THREAD || f->frame_obj != NULL || f->f_locals != NULL) return false;
#if PY_VERSION_HEX >= 0x030D0000
  return f->instr_ptr == _PyCode_CODE(tdh_frame_code(f));
#else
  return f->prev_instr == _PyCode_CODE(tdh_frame_code(f)) - 1;
#endif
}

/* The innermost frame of this thread, borrowed; NULL outside Python code. */
static inline tdh_frame *tdh_frame_current(PyThreadState *ts) {
#if PY_VERSION_HEX >= 0x030D0000
  return ts->current_frame;
#else
  return ts->cframe->current_frame;
#endif
}

#if PY_VERSION_HEX >= 0x030D0000
PyAPI_FUNC(void) _PyEval_FrameClearAndPop(PyThreadState *ts, tdh_frame *f);
#endif

/* Disposes of a fresh frame that was not evaluated, as the evaluator of this CPython must. May run destructors.
 * The frame is not linked yet and no recursion was charged for it, so neither has to be undone. */
static inline void tdh_frame_discard(PyThreadState *ts, tdh_frame *f) {
#if PY_VERSION_HEX >= 0x030D0000
  _PyEval_FrameClearAndPop(ts, f);
#elif TDH_EVALUATOR_CLEARS_FRAME
  /* _PyEvalFrameClearAndPop, _PyFrame_ClearExceptCode and _PyThreadState_PopFrame of 3.12, none of which is exported,
   * reduced to a fresh frame (no frame object, thread-owned). */
  for (int i = 0; i < f->stacktop; i++)
    Py_XDECREF(f->localsplus[i]);
  Py_DECREF(f->f_funcobj);
  Py_DECREF(f->f_code);
  PyObject **base = (PyObject **)f;
  _PyStackChunk *chunk = ts->datastack_chunk;
  if (TDH_LIKELY(base != &chunk->data[0])) {
    ts->datastack_top = base;
    return;
  }
  _PyStackChunk *previous = chunk->previous;
  ts->datastack_top = &previous->data[previous->top];
  ts->datastack_chunk = previous;
  ts->datastack_limit = (PyObject **)((char *)previous + previous->size);
  PyObjectArenaAllocator arena;
  PyObject_GetArenaAllocator(&arena);
  arena.free(arena.ctx, chunk, chunk->size);
#else
  (void)ts, (void)f; /* _PyEval_Vector clears it */
#endif
}

/* Adds a traceback entry without a frame. Exported by all three, declared by none of the public headers. */
PyAPI_FUNC(void) _PyTraceback_Add(const char *function, const char *file, int line);

/* ---- evaluators ------------------------------------------------------------------------------------------------- */

typedef _PyFrameEvalFunction tdh_evaluator;

static inline tdh_evaluator tdh_evaluator_get(void) {
  return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
}

static inline void tdh_evaluator_set(tdh_evaluator evaluator) {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluator);
}

#endif
