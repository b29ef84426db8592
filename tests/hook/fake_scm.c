/* Stand-ins for the hook tests: specialization cache modules whose behaviour a test chooses, and a foreign evaluator. */
#include "compat/py.h"
#include "tdh_scm.h"

enum { ARG0, CONST, LOCALS, FREE, MISS, ERROR_, BYPASS, CALL, BROKEN_HIT, BROKEN_ERROR, N_MODES };
static const char *const mode_names[N_MODES] = {"arg0",  "const",  "locals", "free",       "miss",
                                                "error", "bypass", "call",   "broken_hit", "broken_error"};

typedef struct fake {
  int used, mode;
  PyObject *value;
  tdh_scm scm;
} fake;

#define N_FAKES 12
static fake fakes[N_FAKES];

static PyObject *locals_tuple(tdh_call *call) {
  PyCodeObject *code = (PyCodeObject *)((PyFunctionObject *)call->func)->func_code;
  Py_ssize_t n = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
                 !!(code->co_flags & CO_VARKEYWORDS);
  PyObject *tuple = PyTuple_New(n);
  for (Py_ssize_t i = 0; tuple && i < n; i++)
    PyTuple_SET_ITEM(tuple, i, Py_NewRef(call->locals[i]));
  return tuple;
}

static PyObject *free_tuple(tdh_call *call) {
  PyObject *closure = ((PyFunctionObject *)call->func)->func_closure;
  Py_ssize_t n = closure ? PyTuple_GET_SIZE(closure) : 0;
  PyObject *tuple = PyTuple_New(n);
  for (Py_ssize_t i = 0; tuple && i < n; i++)
    PyTuple_SET_ITEM(tuple, i, PyCell_Get(PyTuple_GET_ITEM(closure, i)));
  return tuple;
}

static int fake_run(fake *me, tdh_call *call, PyObject **result) {
  switch (me->mode) {
    case ARG0:
      *result = Py_NewRef(call->locals[0]);
      return TDH_HIT;
    case CONST:
      *result = Py_NewRef(me->value);
      return TDH_HIT;
    case LOCALS:
      *result = locals_tuple(call);
      return *result ? TDH_HIT : TDH_ERROR;
    case FREE:
      *result = free_tuple(call);
      return *result ? TDH_HIT : TDH_ERROR;
    case MISS:
      call->spec = 3;
      call->guard = 7;
      return TDH_MISS;
    case ERROR_:
      PyErr_SetObject((PyObject *)Py_TYPE(me->value), me->value);
      return TDH_ERROR;
    case BYPASS:
      return TDH_BYPASS;
    case CALL: { /* value(func, arguments): its result is the hit's, its exception the error */
      PyObject *locals = locals_tuple(call), *args[] = {call->func, locals};
      *result = locals ? PyObject_Vectorcall(me->value, args, 2, NULL) : NULL;
      Py_XDECREF(locals);
      return *result ? TDH_HIT : TDH_ERROR;
    }
    case BROKEN_HIT:
      return TDH_HIT;
    default:
      return TDH_ERROR;
  }
}

#define ENTRY(i)                                            \
  static int entry_##i(tdh_call *call, PyObject **result) { \
    return fake_run(&fakes[i], call, result);               \
  }
/* clang-format off */
ENTRY(0) ENTRY(1) ENTRY(2) ENTRY(3) ENTRY(4) ENTRY(5)
ENTRY(6) ENTRY(7) ENTRY(8) ENTRY(9) ENTRY(10) ENTRY(11)
    /* clang-format on */
    static const tdh_entry_fn entries[N_FAKES] = {entry_0, entry_1, entry_2, entry_3, entry_4,  entry_5,
                                                  entry_6, entry_7, entry_8, entry_9, entry_10, entry_11};

static void capsule_free(PyObject *capsule) {
  fake *me = PyCapsule_GetContext(capsule);
  Py_CLEAR(me->value);
  me->used = 0;
}

/* scm(mode, value=None, abi=current): a module object with `__tdh_scm__`. */
static PyObject *scm(PyObject *m, PyObject *args) {
  const char *name;
  PyObject *value = Py_None;
  unsigned abi = TDH_ABI_VERSION;
  (void)m;
  if (!PyArg_ParseTuple(args, "s|OI", &name, &value, &abi)) return NULL;
  int mode = 0, i = 0;
  while (mode < N_MODES && strcmp(mode_names[mode], name))
    mode++;
  while (i < N_FAKES && fakes[i].used)
    i++;
  if (mode == N_MODES || i == N_FAKES) return PyErr_Format(PyExc_ValueError, "no mode %s, or all fakes in use", name);
  fakes[i] = (fake){1, mode, Py_NewRef(value), {abi, 1, entries[i]}};
  PyObject *capsule = PyCapsule_New(&fakes[i].scm, TDH_SCM_CAPSULE, capsule_free);
  PyObject *module = PyModule_New(name);
  if (capsule == NULL || module == NULL || PyCapsule_SetContext(capsule, &fakes[i]) < 0) return NULL;
  if (PyModule_AddObjectRef(module, "__tdh_scm__", capsule) < 0) return NULL;
  Py_DECREF(capsule);
  return module;
}

static PyObject *scms_in_use(PyObject *m, PyObject *x) {
  (void)m, (void)x;
  long n = 0;
  for (int i = 0; i < N_FAKES; i++)
    n += fakes[i].used;
  return PyLong_FromLong(n);
}

/* ---- a foreign evaluator, as a debugger or a compiler would install one ----------------------------------------- */

static tdh_evaluator below;
static Py_ssize_t n_foreign;
static PyObject *foreign(PyThreadState *ts, tdh_frame *f, int throwflag) {
  ++n_foreign;
  return below(ts, f, throwflag);
}
static PyObject *foreign_install(PyObject *m, PyObject *x) {
  (void)m, (void)x;
  below = tdh_evaluator_get();
  tdh_evaluator_set(foreign);
  Py_RETURN_NONE;
}
/* foreign_remove(drop): puts back what it found, or with drop=True the default evaluator. */
static PyObject *foreign_remove(PyObject *m, PyObject *drop) {
  (void)m;
  tdh_evaluator_set(PyObject_IsTrue(drop) ? _PyEval_EvalFrameDefault : below);
  Py_RETURN_NONE;
}
static PyObject *foreign_count(PyObject *m, PyObject *x) {
  return (void)m, (void)x, PyLong_FromSsize_t(n_foreign);
}
/* 'default', 'foreign' or 'other' */
static PyObject *evaluator(PyObject *m, PyObject *x) {
  (void)m, (void)x;
  tdh_evaluator now = tdh_evaluator_get();
  return PyUnicode_FromString(now == _PyEval_EvalFrameDefault ? "default" : now == foreign ? "foreign" : "other");
}

#if TDH_HAS_CALL_DOOR
static PyObject *always_none(PyObject *f, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
  return (void)f, (void)args, (void)nargsf, (void)kwnames, Py_NewRef(Py_None);
}
static PyObject *foreign_vectorcall_set(PyObject *m, PyObject *func) {
  (void)m;
  PyFunction_SetVectorcall((PyFunctionObject *)func, always_none);
  Py_RETURN_NONE;
}
#endif

static PyMethodDef methods[] = {
    {"scm", scm, METH_VARARGS, NULL},
    {"scms_in_use", scms_in_use, METH_NOARGS, NULL},
    {"foreign_install", foreign_install, METH_NOARGS, NULL},
    {"foreign_remove", foreign_remove, METH_O, NULL},
    {"foreign_count", foreign_count, METH_NOARGS, NULL},
    {"evaluator", evaluator, METH_NOARGS, NULL},
#if TDH_HAS_CALL_DOOR
    {"foreign_vectorcall_set", foreign_vectorcall_set, METH_O, NULL},
#endif
    {NULL, NULL, 0, NULL},
};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "fake_scm", .m_size = -1, .m_methods = methods};
PyMODINIT_FUNC PyInit_fake_scm(void) {
  return PyModule_Create(&definition);
}
