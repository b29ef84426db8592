/* JitFunction: a callable that stands in for a function and sends its calls straight to the call door, also on 3.11.
 * It looks like the function it wraps: metadata is copied once, as functools.update_wrapper would; what makes up the
 * function (code, defaults, ...) is read from and written to the function itself. */
#include "door/door.h"

typedef struct tdh_jit {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *func; /* owned: a plain function */
  PyObject *dict, *weakrefs;
} tdh_jit;

static Py_ssize_t n_jit;

static PyObject *jit_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
  return tdh_door_vectorcall(((tdh_jit *)self)->func, args, nargsf, kwnames);
}

/* __dict__ of the function, then the names that update_wrapper copies, then __wrapped__. */
static int metadata_copy(tdh_jit *self) {
  static const char *const names[] = {"__module__", "__name__", "__qualname__", "__doc__"};
  self->dict = PyDict_New();
  if (self->dict == NULL) return -1;
  PyObject *theirs = ((PyFunctionObject *)self->func)->func_dict;
  if (theirs && PyDict_Update(self->dict, theirs) < 0) return -1;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    PyObject *value = PyObject_GetAttrString(self->func, names[i]);
    int rc = value ? PyDict_SetItemString(self->dict, names[i], value) : -1;
    Py_XDECREF(value);
    if (rc < 0) return -1;
  }
  return PyDict_SetItemString(self->dict, "__wrapped__", self->func);
}

static PyObject *jit_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"func", NULL};
  PyObject *func;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:JitFunction", names, &func)) return NULL;
  if (!PyFunction_Check(func)) {
    PyErr_Format(PyExc_TypeError, "JitFunction: seen an object of type %.200s, expected a Python function",
                 Py_TYPE(func)->tp_name);
    return NULL;
  }
  tdh_jit *self = (tdh_jit *)type->tp_alloc(type, 0);
  if (self == NULL) return NULL;
  ++n_jit;
  self->vectorcall = jit_vectorcall;
  self->func = Py_NewRef(func);
  if (metadata_copy(self) < 0) Py_CLEAR(self);
  return (PyObject *)self;
}

static int jit_traverse(PyObject *op, visitproc visit, void *arg) {
  tdh_jit *self = (tdh_jit *)op;
  Py_VISIT(self->func);
  Py_VISIT(self->dict);
  return 0;
}

/* The function stays: a call may be running. Its own tp_clear and our dict break every cycle through us. */
static int jit_clear(PyObject *op) {
  Py_CLEAR(((tdh_jit *)op)->dict);
  return 0;
}

static void jit_dealloc(PyObject *op) {
  tdh_jit *self = (tdh_jit *)op;
  PyObject_GC_UnTrack(op);
  if (self->weakrefs) PyObject_ClearWeakRefs(op);
  Py_CLEAR(self->dict);
  Py_CLEAR(self->func);
  --n_jit;
  Py_TYPE(op)->tp_free(op);
}

static PyObject *jit_get(PyObject *self, PyObject *instance, PyObject *owner) {
  (void)owner;
  return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyObject *jit_repr(PyObject *op) {
  PyFunctionObject *f = (PyFunctionObject *)((tdh_jit *)op)->func;
  return PyUnicode_FromFormat("<trident_hook jit function %U at %p>", f->func_qualname, op);
}

/* By qualified name, as a function: copy and deepcopy return the object itself, pickle stores module and name. */
static PyObject *jit_reduce(PyObject *op, PyObject *ignored) {
  (void)ignored;
  return PyObject_GetAttrString(op, "__qualname__");
}

static PyObject *func_attribute_get(PyObject *op, void *name) {
  return PyObject_GetAttrString(((tdh_jit *)op)->func, name);
}

static int func_attribute_set(PyObject *op, PyObject *value, void *name) {
  return PyObject_SetAttrString(((tdh_jit *)op)->func, name, value); /* NULL deletes */
}

#define FUNC_ATTRIBUTE(name) {name, func_attribute_get, func_attribute_set, NULL, name}
static PyGetSetDef jit_getset[] = {
    FUNC_ATTRIBUTE("__code__"),
    FUNC_ATTRIBUTE("__defaults__"),
    FUNC_ATTRIBUTE("__kwdefaults__"),
    FUNC_ATTRIBUTE("__annotations__"),
    FUNC_ATTRIBUTE("__globals__"),
    FUNC_ATTRIBUTE("__closure__"),
    FUNC_ATTRIBUTE("__builtins__"),
    FUNC_ATTRIBUTE("__type_params__"), /* absent below 3.12, as on the function */
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef jit_methods[] = {
    {"__reduce__", jit_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject tdh_jit_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "trident_hook._core.JitFunction",
    .tp_doc = PyDoc_STR("JitFunction(func): func, with its calls sent to its specialization cache module first."),
    .tp_basicsize = sizeof(tdh_jit),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(tdh_jit, vectorcall),
    .tp_dictoffset = offsetof(tdh_jit, dict),
    .tp_weaklistoffset = offsetof(tdh_jit, weakrefs),
    .tp_new = jit_new,
    .tp_dealloc = jit_dealloc,
    .tp_traverse = jit_traverse,
    .tp_clear = jit_clear,
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = jit_get,
    .tp_repr = jit_repr,
    .tp_getset = jit_getset,
    .tp_methods = jit_methods,
};

int tdh_jit_init(void) {
  return PyType_Ready(&tdh_jit_type);
}
Py_ssize_t tdh_jit_count(void) {
  return n_jit;
}
