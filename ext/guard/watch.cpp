// Environment guards that need no evaluation: a plan holds what its guards were seen to depend on. Watched dict keys and
// types mark the plan stale when they change; pins are pointers that are compared on every call (a function's code, an
// object's type), because nothing announces their change. Must never miss a change: in doubt a plan is stale.
// One dict watcher and one type watcher serve every plan. Callbacks run no Python code and raise nothing.
#include <Python.h>

#include <cstring>
#include <unordered_map>
#include <vector>

#include "compat/py_attr.h"
#include "compat/watchers.h"
#include "guard/identity.h"
#include "guard/watch.h"
#include "common/services.h"

namespace trident_hook {
namespace {

enum plan_state : int { stale = 0, valid = 1, unwatchable = -1 };

// A word inside an object, and what stood in it: one load and one comparison a call. `keep` owns the object.
struct pin {
  const void *place, *expected;
};

}  // namespace

struct env_plan {
  int state = stale;
  std::vector<pin> pins;
  PyObject *keep = nullptr;  // owned: tuple of everything that pins and watches name
  object_set apart;          // objects that the guards found to be distinct, for comparison with those of a call
};

namespace {

struct watched_key {
  PyObject *key;
  std::vector<env_plan *> plans;
};

std::unordered_map<PyObject *, std::vector<watched_key>> dicts;
std::unordered_map<PyObject *, std::vector<env_plan *>> types;
int dict_watcher = -1, type_watcher = -1;

void mark(const std::vector<env_plan *> &plans) {
  for (env_plan *plan : plans)
    if (plan->state == valid) plan->state = stale;
}

bool same_key(PyObject *a, PyObject *b) {
  if (a == b) return true;
  if (!PyUnicode_CheckExact(a) || !PyUnicode_CheckExact(b)) return true;  // in doubt
  if (PyUnicode_GET_LENGTH(a) != PyUnicode_GET_LENGTH(b) || PyUnicode_KIND(a) != PyUnicode_KIND(b)) return false;
  return memcmp(PyUnicode_DATA(a), PyUnicode_DATA(b), PyUnicode_GET_LENGTH(a) * PyUnicode_KIND(a)) == 0;
}

#if TDH_HAS_WATCHERS
int on_dict(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *) {
  const auto found = dicts.find(dict);
  if (found == dicts.end()) return 0;
  const bool one_key = event == PyDict_EVENT_ADDED || event == PyDict_EVENT_MODIFIED || event == PyDict_EVENT_DELETED;
  for (const watched_key &watched : found->second)
    if (!one_key || same_key(watched.key, key)) mark(watched.plans);
  return 0;
}

int on_type(PyTypeObject *type) {
  const auto found = types.find(reinterpret_cast<PyObject *>(type));
  if (found != types.end()) mark(found->second);
  return 0;
}
#endif

bool watchers_take() {
#if TDH_HAS_WATCHERS
  if (dict_watcher < 0 && (dict_watcher = PyDict_AddWatcher(on_dict)) < 0) PyErr_Clear();
  if (type_watcher < 0 && (type_watcher = PyType_AddWatcher(on_type)) < 0) PyErr_Clear();
#endif
  return dict_watcher >= 0 && type_watcher >= 0;
}

void forget(std::vector<env_plan *> &plans, env_plan *plan) {
  for (size_t i = plans.size(); i-- > 0;)
    if (plans[i] == plan) plans.erase(plans.begin() + i);
}

// Takes the plan out of every table; what nobody watches any more is unwatched.
void unregister(env_plan *plan) {
  for (auto d = dicts.begin(); d != dicts.end();) {
    auto &keys = d->second;
    for (size_t i = keys.size(); i-- > 0;) {
      forget(keys[i].plans, plan);
      if (keys[i].plans.empty()) keys.erase(keys.begin() + i);
    }
    if (keys.empty()) {
      watch_dict(dict_watcher, d->first, false);
      d = dicts.erase(d);
    } else {
      ++d;
    }
  }
  for (auto t = types.begin(); t != types.end();) {
    forget(t->second, plan);
    if (t->second.empty()) {
      watch_type(type_watcher, t->first, false);
      t = types.erase(t);
    } else {
      ++t;
    }
  }
}

void plan_clear(env_plan *plan) {
  plan->state = stale;
  unregister(plan);
  plan->pins.clear();
  Py_CLEAR(plan->keep);
}

env_plan *plan_of(PyObject *capsule) {
  return static_cast<env_plan *>(PyCapsule_GetPointer(capsule, TDH_ENV_PLAN_CAPSULE));
}

void capsule_free(PyObject *capsule) {
  env_plan *plan = plan_of(capsule);
  plan_clear(plan);
  delete plan;
}

// NULL when the object has no such word.
const void *pin_place(int kind, PyObject *o) {
  PyFunctionObject *function = reinterpret_cast<PyFunctionObject *>(o);
  switch (kind) {
    case pin_type:
      return &o->ob_type;
    case pin_code:
      return &function->func_code;
    case pin_closure:
      return &function->func_closure;
    case pin_defaults:
      return &function->func_defaults;
    case pin_kwdefaults:
      return &function->func_kwdefaults;
    case pin_dict:
      return tdh_py_dict_place(o);
    default:  // pin_empty_list
      return &reinterpret_cast<PyVarObject *>(o)->ob_size;
  }
}

bool kind_fits(int kind, PyObject *object) {
  if (kind == pin_empty_list) return PyList_Check(object);
  if (kind == pin_type || kind == pin_dict) return true;
  return kind >= pin_code && kind <= pin_kwdefaults && PyFunction_Check(object);
}

bool pins_hold(const env_plan &plan) {
  for (const pin &p : plan.pins)
    if (memcmp(p.place, &p.expected, sizeof p.expected) != 0) return false;
  return true;
}

}  // namespace

// 1: nothing that the guards depend on has changed. 0: evaluate them, after arming the plan anew. -1: evaluate them, the
// plan cannot be armed. Budget: one branch, and one load and compare per pin.
int env_check(void *handle) {
  env_plan *plan = static_cast<env_plan *>(handle);
  if (plan->state != valid) return plan->state;
  if (__builtin_expect(pins_hold(*plan), 1)) return 1;
  plan->state = stale;
  return 0;
}

// Of the last check of the plan's guards: the objects are alive and where they were found for as long as it is valid.
bool keep_apart(void *handle, const std::vector<PyObject *> &objects) {
  return static_cast<env_plan *>(handle)->apart.fill(objects.data(), objects.size());
}

int env_has(void *handle, PyObject *const *objects, int32_t n) {
  const object_set &apart = static_cast<env_plan *>(handle)->apart;
  for (int32_t i = 0; i < n; i++)
    if (objects[i] != nullptr && apart.has(objects[i])) return 1;
  return 0;
}

void env_stale(void *handle) {
  env_plan *plan = static_cast<env_plan *>(handle);
  if (plan->state == valid) plan->state = stale;
}

PyObject *py_env_plan(PyObject *, PyObject *) {
  env_plan *plan = new env_plan;
  PyObject *capsule = PyCapsule_New(plan, TDH_ENV_PLAN_CAPSULE, capsule_free);
  if (capsule == nullptr) delete plan;
  return capsule;
}

// env_arm(plan, pins, keys, types): pins of (kind, object, expected or None for NULL), keys of (dict, key). The plan is
// valid from here on, so the caller evaluates the guards after this call. False: cannot be watched; None never.
PyObject *py_env_arm(PyObject *, PyObject *args) {
  PyObject *capsule, *pins, *keys, *type_list;
  if (!PyArg_ParseTuple(args, "OO!O!O!", &capsule, &PyTuple_Type, &pins, &PyTuple_Type, &keys, &PyTuple_Type,
                        &type_list)) {
    return nullptr;
  }
  env_plan *plan = plan_of(capsule);
  if (plan == nullptr) return nullptr;
  plan_clear(plan);
  if (!watchers_take()) {
    plan->state = unwatchable;
    Py_RETURN_FALSE;
  }
  plan->keep = PyTuple_Pack(3, pins, keys, type_list);
  if (plan->keep == nullptr) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(pins); i++) {
    int kind;
    PyObject *object, *expected;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(pins, i), "iOO", &kind, &object, &expected)) return nullptr;
    const void *place = kind_fits(kind, object) ? pin_place(kind, object) : nullptr;
    if (place == nullptr) return PyErr_Format(PyExc_TypeError, "env_arm: pin %d of a wrong object", kind);
    const bool is_null = expected == Py_None || kind == pin_empty_list;  // of a list: a size of 0
    plan->pins.push_back({place, is_null ? nullptr : expected});
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); i++) {
    PyObject *dict, *key;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(keys, i), "O!O", &PyDict_Type, &dict, &key)) return nullptr;
    if (watch_dict(dict_watcher, dict, true) < 0) return nullptr;
    auto &watched = dicts[dict];
    watched_key *entry = nullptr;
    for (watched_key &w : watched)
      if (w.key == key) entry = &w;
    if (entry == nullptr) entry = &watched.emplace_back(watched_key{key, {}});
    entry->plans.push_back(plan);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type_list); i++) {
    PyObject *type = PyTuple_GET_ITEM(type_list, i);
    if (!PyType_Check(type)) return PyErr_Format(PyExc_TypeError, "env_arm: a type is expected");
    if (watch_type(type_watcher, type, true) < 0) return nullptr;
    types[type].push_back(plan);
  }
  plan->state = valid;
  Py_RETURN_TRUE;
}

// env_unwatchable(plan): its guards are evaluated on every call.
PyObject *py_env_unwatchable(PyObject *, PyObject *capsule) {
  env_plan *plan = plan_of(capsule);
  if (plan == nullptr) return nullptr;
  plan_clear(plan);
  plan->state = unwatchable;
  Py_RETURN_NONE;
}

// env_watchers() -> {"dict": id, "type": id, "dicts": n, "types": n}
PyObject *py_env_watchers(PyObject *, PyObject *) {
  return Py_BuildValue("{sisisnsn}", "dict", dict_watcher, "type", type_watcher, "dicts", (Py_ssize_t)dicts.size(),
                       "types", (Py_ssize_t)types.size());
}

// env_release(): gives the watcher ids back; plans are armed anew when they are next needed.
PyObject *py_env_release(PyObject *, PyObject *) {
  for (auto &d : dicts) {
    for (auto &w : d.second)
      mark(w.plans);
    watch_dict(dict_watcher, d.first, false);
  }
  for (auto &t : types) {
    mark(t.second);
    watch_type(type_watcher, t.first, false);
  }
  dicts.clear();
  types.clear();
#if TDH_HAS_WATCHERS
  if (dict_watcher >= 0 && PyDict_ClearWatcher(dict_watcher) < 0) PyErr_Clear();
  if (type_watcher >= 0 && PyType_ClearWatcher(type_watcher) < 0) PyErr_Clear();
#endif
  dict_watcher = type_watcher = -1;
  Py_RETURN_NONE;
}

}  // namespace trident_hook
