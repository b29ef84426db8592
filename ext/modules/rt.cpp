// The extension module trident_hook._rt: the table of services for generated modules (attribute `api`), and a Python
// face of the same services for capture and for tests. PyTorch must have been imported before: its libraries are found
// in the process, not through an rpath.
#include <Python.h>

#include <torch/csrc/autograd/python_variable.h>

#include <vector>

#include "aten/direct.h"
#include "aten/op_site.h"
#include "compat/py_attr.h"
#include "guard/context.h"
#include "guard/signal_actions.h"
#include "guard/thread_state.h"
#include "guard/watch.h"
#include "launch/launch.h"
#include "modules/numbers.h"
#include "scm/ranges.h"
#include "scm/verified.h"
#include "scm/bind.h"
#include "common/services.h"
#include "abi/tdh_interrupt.h"

namespace trident_hook {

uint64_t counters[TDH_COUNT_N];

int attr_find(PyObject *obj, PyObject *name, PyObject **out) {
  return tdh_py_attr_find(obj, name, out);
}

PyObject *space_of(PyObject *obj) {
  return tdh_py_space_of(obj);
}

PyObject *dict_of(PyObject *obj) {
  if (PyModule_Check(obj)) return PyModule_GetDict(obj);
  if (PyType_Check(obj)) return ((PyTypeObject *)obj)->tp_dict;  // NULL for static builtin types from 3.12 on
  // Py_TPFLAGS_MANAGED_DICT objects (3.11+) may keep their attributes inline. PyObject_GenericGetDict is the only
  // public way to them: it makes the dict, once, and gives a reference that the object then shares.
  if (Py_TYPE(obj)->tp_dictoffset == 0 && !PyType_HasFeature(Py_TYPE(obj), Py_TPFLAGS_MANAGED_DICT)) return nullptr;
  PyObject *dict = PyObject_GenericGetDict(obj, nullptr);
  if (dict == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  Py_DECREF(dict);  // the object holds it
  return dict;
}

PyObject *attr_stored(PyObject *obj, PyObject *name) {
  if (PyCell_Check(obj)) return PyUnicode_CompareWithASCIIString(name, "cell_contents") ? nullptr : PyCell_GET(obj);
  if (!PyModule_CheckExact(obj) && !PyType_Check(obj)) return tdh_py_attr_stored(obj, name, dict_of);
  PyObject *dict = dict_of(obj);  // of a class: what its bases have is not looked for
  PyObject *found = dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, name);
  if (found == nullptr) PyErr_Clear();
  return found;
}

extern const tdh_rt_api api = {
    TDH_ABI_VERSION, sizeof(tdh_rt_api),
    tensor_read,     keys_apply,
    state_read,      empty_strided,
    data_ptr,        retain,
    release,         wrap,
    unwrap,          handle_read,
    op_call,         launch_env,
    kernel_function, launch,
    launch_python,   attr_find,
    dict_of,         env_check,
    env_stale,       counters,
    tensor_map,      launch_scratch,
    env_recheck,     all_distinct,
    env_has,         space_of,
    attr_stored,
};

namespace {

constexpr const char *counter_names[TDH_COUNT_N] = {"launch",        "op_call",     "alloc",
                                                    "launch_python", "module_load", "handles_live"};

bool is_tensor(PyObject *obj) {
  return PyType_IsSubtype(Py_TYPE(obj), (PyTypeObject *)THPVariableClass);
}

PyObject *ints_tuple(const int64_t *values, Py_ssize_t n) {
  PyObject *tuple = PyTuple_New(n);
  for (Py_ssize_t i = 0; tuple != nullptr && i < n; i++)
    PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(values[i]));
  return tuple;
}

// state_read() -> (ok, eight ints). Not ok while saved-tensor hooks are active, either: nothing is learned under them.
PyObject *py_state_read(PyObject *, PyObject *) {
  tdh_state state = {};
  const int ok = state_read(&state);
  PyObject *words = PyTuple_New(TDH_STATE_WORDS);
  if (words == nullptr) return nullptr;
  for (int i = 0; i < TDH_STATE_WORDS; i++)
    PyTuple_SET_ITEM(words, i, PyLong_FromUnsignedLongLong(state.word[i]));
  return Py_BuildValue("(NN)", PyBool_FromLong(ok && state.word[TDH_STATE_HOOKS] == 0), words);
}

// tensor_read(obj) -> dict, or None for what is no tensor or has no plain sizes
PyObject *py_tensor_read(PyObject *, PyObject *obj) {
  tdh_tensor t = {};
  if (tensor_read(obj, &t) < 0) Py_RETURN_NONE;
  PyObject *sizes = ints_tuple(t.sizes, t.ndim), *strides = ints_tuple(t.strides, t.ndim);
  if (sizes == nullptr || strides == nullptr) {
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    return nullptr;
  }
  return Py_BuildValue("{sKsNsNsLsKsisisisisNsisi}", "impl", (unsigned long long)(uintptr_t)t.impl, "sizes", sizes,
                       "strides", strides, "storage_offset", (long long)t.storage_offset, "keys",
                       (unsigned long long)t.keys, "ndim", (int)t.ndim, "dtype", (int)t.dtype, "device_type",
                       (int)t.device_type, "device_index", (int)t.device_index, "requires_grad",
                       PyBool_FromLong(t.requires_grad), "layout", (int)t.layout, "flags", (int)t.flags);
}

// keys_apply(keys, words) -> int
PyObject *py_keys_apply(PyObject *, PyObject *args) {
  unsigned long long keys, included, excluded;
  PyObject *words;
  if (!PyArg_ParseTuple(args, "KO!", &keys, &PyTuple_Type, &words)) return nullptr;
  if (PyTuple_GET_SIZE(words) < 2) return PyErr_Format(PyExc_ValueError, "keys_apply: the words of state_read()");
  included = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(words, 0));
  excluded = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(words, 1));
  if (PyErr_Occurred()) return nullptr;
  const tdh_state state = {{included, excluded}};
  return PyLong_FromUnsignedLongLong(keys_apply(keys, &state));
}

bool read_ints(PyObject *sequence, std::vector<int64_t> *out) {
  PyObject *fast = PySequence_Fast(sequence, "a sequence of ints is expected");
  if (fast == nullptr) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast); i++) {
    out->push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(fast, i)));
  }
  Py_DECREF(fast);
  return !PyErr_Occurred();
}

bool read_doubles(PyObject *sequence, std::vector<double> *out) {
  PyObject *fast = PySequence_Fast(sequence, "a sequence of floats is expected");
  if (fast == nullptr) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast); i++) {
    out->push_back(PyFloat_AsDouble(PySequence_Fast_GET_ITEM(fast, i)));
  }
  Py_DECREF(fast);
  return !PyErr_Occurred();
}

// dict_of(obj): the very dict of a module, type or instance, or None
PyObject *py_dict_of(PyObject *, PyObject *obj) {
  PyObject *dict = dict_of(obj);
  return Py_NewRef(dict == nullptr ? Py_None : dict);
}

// dict_settle(dict): every change of an instance's attributes is a change of its dict from now on
PyObject *py_dict_settle(PyObject *, PyObject *dict) {
  if (!PyDict_CheckExact(dict)) return PyErr_Format(PyExc_TypeError, "dict_settle: a dict is expected");
  if (tdh_py_dict_settle(dict) < 0) return nullptr;
  Py_RETURN_NONE;
}

// type_version(type): its version tag, which every change of the type or a base changes; looks something up first, since
// a type has none until then. 0: no tag can be had.
PyObject *py_type_version(PyObject *, PyObject *type) {
  if (!PyType_Check(type)) return PyErr_Format(PyExc_TypeError, "type_version: a type is expected");
  PyObject *doc = PyObject_GetAttrString(type, "__doc__");
  if (doc == nullptr) PyErr_Clear();
  Py_XDECREF(doc);
  return PyLong_FromUnsignedLong(reinterpret_cast<PyTypeObject *>(type)->tp_version_tag);
}

// empty_strided(sizes, strides, dtype, device_type, device_index) -> Tensor; dtype and device as c10 numbers them
PyObject *py_empty_strided(PyObject *, PyObject *args) {
  PyObject *sizes_in, *strides_in;
  int dtype, device_type, device_index;
  if (!PyArg_ParseTuple(args, "OOiii", &sizes_in, &strides_in, &dtype, &device_type, &device_index)) return nullptr;
  std::vector<int64_t> sizes, strides;
  if (!read_ints(sizes_in, &sizes) || !read_ints(strides_in, &strides)) return nullptr;
  if (sizes.size() != strides.size()) return PyErr_Format(PyExc_ValueError, "empty_strided: as many strides as sizes");
  void *handle = empty_strided((int32_t)sizes.size(), sizes.data(), strides.data(), dtype, device_type, device_index);
  return handle == nullptr ? nullptr : wrap(handle);
}

PyObject *py_data_ptr(PyObject *, PyObject *obj) {
  if (!is_tensor(obj)) return PyErr_Format(PyExc_TypeError, "data_ptr: a tensor is expected");
  void *pointer = data_ptr(unwrap(obj));
  return PyErr_Occurred() ? nullptr : PyLong_FromVoidPtr(pointer);
}

bool read_tensors(PyObject *sequence, std::vector<void *> *out) {
  if (!PyTuple_Check(sequence)) {
    PyErr_SetString(PyExc_TypeError, "a tuple of tensors is expected");
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sequence); i++) {
    PyObject *item = PyTuple_GET_ITEM(sequence, i);
    if (item != Py_None && !is_tensor(item)) {
      PyErr_SetString(PyExc_TypeError, "a tuple of tensors is expected");
      return false;
    }
    out->push_back(item == Py_None ? nullptr : unwrap(item));
  }
  return true;
}

// op_call(site, tensors, ints, doubles) -> (tensors, ints, doubles)
PyObject *py_op_call(PyObject *, PyObject *args) {
  PyObject *capsule, *tensors_in, *ints_in, *doubles_in;
  if (!PyArg_ParseTuple(args, "OOOO", &capsule, &tensors_in, &ints_in, &doubles_in)) return nullptr;
  void *site = PyCapsule_GetPointer(capsule, TDH_OP_SITE_CAPSULE);
  if (site == nullptr) return nullptr;
  std::vector<void *> tensors;
  std::vector<int64_t> ints;
  std::vector<double> doubles;
  if (!read_tensors(tensors_in, &tensors) || !read_ints(ints_in, &ints) || !read_doubles(doubles_in, &doubles)) {
    return nullptr;
  }
  const site_shape &shape = op_site_shape(site);
  if ((int)tensors.size() < shape.n_tensors || (int)ints.size() < shape.n_ints ||
      (int)doubles.size() < shape.n_doubles) {
    return PyErr_Format(PyExc_ValueError, "op_call: the site reads %d tensors, %d ints and %d floats", shape.n_tensors,
                        shape.n_ints, shape.n_doubles);
  }
  std::vector<void *> outs(shape.n_outs);
  std::vector<int64_t> out_ints(shape.n_out_ints);
  std::vector<double> out_doubles(shape.n_out_doubles);
  if (op_call(site, tensors.data(), ints.data(), doubles.data(), outs.data(), out_ints.data(), out_doubles.data()) <
      0) {
    return nullptr;
  }
  PyObject *tensor_tuple = PyTuple_New(shape.n_outs), *double_tuple = PyTuple_New(shape.n_out_doubles);
  PyObject *int_tuple = ints_tuple(out_ints.data(), shape.n_out_ints);
  for (int i = 0; i < shape.n_outs; i++)
    PyTuple_SET_ITEM(tensor_tuple, i, wrap(outs[i]));
  for (int i = 0; i < shape.n_out_doubles; i++)
    PyTuple_SET_ITEM(double_tuple, i, PyFloat_FromDouble(out_doubles[i]));
  return Py_BuildValue("(NNN)", tensor_tuple, int_tuple, double_tuple);
}

// launch_env() -> (device, stream, device_type)
// `times`: read so often, to see what one read costs.
PyObject *py_launch_env(PyObject *, PyObject *args) {
  Py_ssize_t times = 1;
  if (!PyArg_ParseTuple(args, "|n:launch_env", &times)) return nullptr;
  tdh_launch_env env = {};
  do {
    if (launch_env(&env) < 0) return nullptr;
  } while (--times > 0);
  return Py_BuildValue("(iKi)", (int)env.device, (unsigned long long)(uintptr_t)env.stream, (int)env.device_type);
}

PyObject *py_set_simulated(PyObject *, PyObject *args) {
  unsigned long long device, stream;
  if (!PyArg_ParseTuple(args, "KK", &device, &stream)) return nullptr;
  if ((device == 0) != (stream == 0)) return PyErr_Format(PyExc_ValueError, "set_simulated: both functions, or 0, 0");
  simulated_set(device, stream);
  Py_RETURN_NONE;
}

PyObject *py_counters(PyObject *, PyObject *) {
  PyObject *dict = PyDict_New();
  for (int i = 0; dict != nullptr && i < TDH_COUNT_N; i++) {
    PyObject *value = PyLong_FromLongLong((long long)counters[i]);
    if (value == nullptr || PyDict_SetItemString(dict, counter_names[i], value) < 0) Py_CLEAR(dict);
    Py_XDECREF(value);
  }
  return dict;
}

// Handles that are alive stay counted.
PyObject *py_counters_reset(PyObject *, PyObject *) {
  for (int i = 0; i < TDH_COUNT_N; i++) {
    if (i != TDH_COUNT_HANDLES_LIVE) counters[i] = 0;
  }
  Py_RETURN_NONE;
}

PyObject *py_live_handles(PyObject *, PyObject *) {
  return PyLong_FromLongLong((long long)counters[TDH_COUNT_HANDLES_LIVE]);
}

PyObject *call_uninterrupted(PyObject *callable, PyObject *const *args, Py_ssize_t n) {
  PyObject *answer = PyObject_Vectorcall(callable, args, n, nullptr);
  if (answer != nullptr || !tdh_is_interrupt()) return answer;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  answer = PyObject_Vectorcall(callable, args, n, nullptr);
  if (answer != nullptr) {  // else the caller meets the second one; nobody sends two
    PyErr_Restore(type, value, traceback);
    tdh_interrupt_put_off();
    return answer;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return nullptr;
}

// uninterrupted(callable) -> callable: asked again where an interrupt came in it, which is raised after it
PyObject *py_uninterrupted(PyObject *, PyObject *callable) {
  static PyMethodDef call = {"uninterrupted",
                             reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(call_uninterrupted)), METH_FASTCALL,
                             nullptr};
  return PyCFunction_New(&call, callable);
}

PyMethodDef methods[] = {
    {"state_read", py_state_read, METH_NOARGS, "state_read() -> (may serve, eight words)"},
    {"call_warned", py_call_warned, METH_O, "call_warned(callable): PyTorch's warnings meanwhile are Python's"},
    {"registrations_watch", py_registrations_watch, METH_O,
     "registrations_watch(set of what torch.library registered)"},
    {"tensor_read", py_tensor_read, METH_O, "tensor_read(obj) -> dict of what guards see, or None"},
    {"context_is_plain", py_context_is_plain, METH_O, "context_is_plain(obj) -> whether its saved tensors may be read"},
    {"keys_apply", py_keys_apply, METH_VARARGS, "keys_apply(keys, words) -> dispatch keys in effect"},
    {"empty_strided", py_empty_strided, METH_VARARGS,
     "empty_strided(sizes, strides, dtype, device_type, device_index) -> Tensor"},
    {"type_version", py_type_version, METH_O, "type_version(type) -> tag that changes with the type"},
    {"dict_settle", py_dict_settle, METH_O, "dict_settle(dict): of an instance; the dict then sees every change"},
    {"dict_of", py_dict_of, METH_O, "dict_of(obj) -> the very dict of a module, type or instance, or None"},
    {"alloc_trust", py_alloc_trust, METH_O, "alloc_trust(device_type) -> whether plain allocations are made directly"},
    {"view_trust", py_view_trust, METH_VARARGS, "view_trust(name, overload): its kernels are PyTorch's own"},
    {"views_made", py_views_made, METH_NOARGS, "views_made() -> views made without PyTorch's kernels"},
    {"data_ptr", py_data_ptr, METH_O, "data_ptr(tensor) -> int"},
    {"op_site", op_site_new, METH_VARARGS, "op_site(name, overload, template, n_tensor_outs) -> capsule"},
    {"op_call", py_op_call, METH_VARARGS, "op_call(site, tensors, ints, floats) -> (tensors, ints, floats)"},
    {"launch_env", py_launch_env, METH_VARARGS, "launch_env(times=1) -> (device, stream, device_type)"},
    {"launch_callbacks", py_launch_callbacks, METH_VARARGS, "launch_callbacks(load_cubin, raise_error): for launches"},
    {"set_simulated", py_set_simulated, METH_VARARGS, "set_simulated(current_device, current_stream): C addresses"},
    {"note_memory", py_note_memory, METH_O, "note_memory(on) -> whether memory of CPU tensors is noted from here on"},
    {"noted_memory", py_noted_memory, METH_O, "noted_memory(address) -> (start, end) of the memory there, or None"},
    {"scm_bind", py_scm_bind, METH_VARARGS, "scm_bind(module, objects, sites, plans, arms) -> capsule for the doors"},
    {"scm_verified", py_scm_verified, METH_VARARGS,
     "scm_verified(scm, code, judge) -> capsule that asks `judge` on each hit"},
    {"scm_ask", py_scm_ask, METH_VARARGS,
     "scm_ask(scm, func, locals) -> (value,) of a hit, or None; raises what it raises"},
    {"scm_ranged", py_scm_ranged, METH_VARARGS, "scm_ranged(scm, code, name) -> capsule that opens a profiler range"},
    {"scm_unbind", py_scm_unbind, METH_O, "scm_unbind(module): whoever still calls it gets a miss"},
    {"env_plan", py_env_plan, METH_NOARGS, "env_plan() -> capsule of a plan that is not armed"},
    {"env_arm", py_env_arm, METH_VARARGS, "env_arm(plan, pins, keys, types) -> whether it is watched now"},
    {"env_unwatchable", py_env_unwatchable, METH_O, "env_unwatchable(plan): evaluate its guards on every call"},
    {"env_watchers", py_env_watchers, METH_NOARGS, "env_watchers() -> dict of ids and numbers"},
    {"env_release", py_env_release, METH_NOARGS, "env_release(): give the watcher ids back"},
    {"counters", py_counters, METH_NOARGS, "counters() -> dict"},
    {"counters_reset", py_counters_reset, METH_NOARGS, "counters_reset(): all but handles_live"},
    {"signal_action", py_signal_action, METH_O, "signal_action(number) -> bytes: what the system calls"},
    {"signal_action_set", py_signal_action_set, METH_VARARGS, "signal_action_set(number, bytes): what was read"},
    {"thread_state", py_thread_state, METH_NOARGS, "thread_state() -> capsule of PyTorch's state of this thread"},
    {"thread_state_restore", py_thread_state_restore, METH_O, "thread_state_restore(capsule): as it was then"},
    {"uninterrupted", py_uninterrupted, METH_O, "uninterrupted(callable) -> it, with interrupts put off"},
    {"live_handles", py_live_handles, METH_NOARGS, "live_handles() -> owned tensor handles given out"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "trident_hook._rt",
                          "Services for generated modules; see ext/abi/tdh_rt.h.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace
}  // namespace trident_hook

PyMODINIT_FUNC PyInit__rt() {
  PyObject *module = PyModule_Create(&trident_hook::definition);
  if (module == nullptr) return nullptr;
  PyObject *capsule = PyCapsule_New(const_cast<tdh_rt_api *>(&trident_hook::api), TDH_RT_CAPSULE, nullptr);
  if (capsule == nullptr || PyModule_AddObjectRef(module, "api", capsule) < 0 ||
      trident_hook::add_numbers(module) < 0) {
    Py_CLEAR(module);
  }
  Py_XDECREF(capsule);
  return module;
}
