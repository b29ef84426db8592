// The check of environment guards that a call makes when something they depend on has changed: a table of steps, gone
// through here. Not code of the generated module: it runs once in a while, and compiling it was most of a cold start for
// functions that reach hundreds of objects. (Where nothing can be watched, on CPython 3.11, every call comes by.)
#include <Python.h>

#include <memory>
#include <vector>

#include "common/services.h"
#include "guard/identity.h"
#include "abi/tdh_interrupt.h"
#include "abi/tdh_num.h"

namespace trident_hook {
namespace {

// Values are owned: what a step reads stays alive while later steps run Python code.
class recheck {
 public:
  recheck(tdh_call *call, int32_t n_steps, void *plan, PyObject *const *objects, uint64_t *versions)
      : call_(call), plan_(plan), objects_(objects), versions_(versions) {
    if (n_steps > few) {
      many_.reset(new PyObject *[n_steps]);
      values_ = many_.get();
    }
  }
  ~recheck() {
    while (n_values_ > 0)
      Py_DECREF(values_[--n_values_]);
  }
  recheck(const recheck &) = delete;
  recheck &operator=(const recheck &) = delete;

  bool step(const tdh_step &s) {
    if (s.what >= TDH_ASK_IS) return ask(s);
    PyObject *value = read(s);
    if (value == nullptr) return false;
    values_[n_values_++] = value;
    return true;
  }

 private:
  PyObject *operand(int32_t number) const { return number < 0 ? objects_[-1 - number] : values_[number]; }

  // New reference, or NULL.
  PyObject *read(const tdh_step &s) const {
    if (s.what == TDH_READ_GLOBALS) return Py_XNewRef(PyFunction_GetGlobals(call_->func));
    PyObject *const o = operand(s.of), *found = nullptr;
    switch (s.what) {
      case TDH_READ_ATTR:
        return attr_find(o, operand(s.with), &found) == 1 ? found : nullptr;
      case TDH_READ_DICT:
        return Py_XNewRef(dict_of(o));
      case TDH_READ_DICT_ITEM:
        return PyDict_Check(o) ? Py_XNewRef(PyDict_GetItemWithError(o, operand(s.with))) : nullptr;
      case TDH_READ_TUPLE_ITEM:
        return PyTuple_Check(o) && PyTuple_GET_SIZE(o) > s.n ? Py_NewRef(PyTuple_GET_ITEM(o, s.n)) : nullptr;
      case TDH_READ_KEY_AT:
      case TDH_READ_VALUE_AT:
        return Py_XNewRef(dict_at(o, s));
      case TDH_READ_TYPE:
        return Py_NewRef(reinterpret_cast<PyObject *>(Py_TYPE(o)));
      case TDH_READ_MRO:
        return PyType_Check(o) ? Py_XNewRef(reinterpret_cast<PyTypeObject *>(o)->tp_mro) : nullptr;
      default:
        return PyFunction_Check(o) ? of_function(o, s.what) : nullptr;
    }
  }

  static PyObject *of_function(PyObject *function, uint32_t what) {
    PyObject *found = nullptr;
    if (what == TDH_READ_CODE) found = PyFunction_GetCode(function);
    if (what == TDH_READ_CLOSURE) found = PyFunction_GetClosure(function);
    if (what == TDH_READ_DEFAULTS) found = PyFunction_GetDefaults(function);
    if (what == TDH_READ_KWDEFAULTS) found = PyFunction_GetKwDefaults(function);
    return Py_NewRef(found == nullptr ? Py_None : found);
  }

  static PyObject *dict_at(PyObject *dict, const tdh_step &s) {
    if (!PyDict_Check(dict) || PyDict_Size(dict) <= s.n) return nullptr;
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    for (int32_t i = 0; i <= s.n; i++)
      if (!PyDict_Next(dict, &position, &key, &value)) return nullptr;
    return s.what == TDH_READ_KEY_AT ? key : value;
  }

  bool ask(const tdh_step &s) {
    PyObject *const o = operand(s.of);
    switch (s.what) {
      case TDH_ASK_NOTED:
        noted_.push_back(o);
        return true;
      case TDH_ASK_APART:
        return keep_apart(plan_, noted_);
      case TDH_ASK_IS:
        return o == operand(s.with);
      case TDH_ASK_IS_NOT:
        return o != operand(s.with);
      case TDH_ASK_TYPE:
        return reinterpret_cast<PyObject *>(Py_TYPE(o)) == operand(s.with);
      case TDH_ASK_EQUALS:
        return tdh_equals(o, operand(s.with));
      case TDH_ASK_DIFFERS:
        return !tdh_equals(o, operand(s.with));
      case TDH_ASK_CONTAINS:
        return PyDict_Check(o) && PyDict_Contains(o, operand(s.with)) == s.n;
      case TDH_ASK_DICT_LENGTH:
        return PyDict_Check(o) && PyDict_Size(o) == s.n;
      case TDH_ASK_EMPTY_LIST:
        return PyList_Check(o) && PyList_GET_SIZE(o) == 0;
      case TDH_ASK_CLASS_FACTS:
        return PyType_Check(o) && class_facts(o, operand(s.with), versions_[s.n]);
      default:
        return false;
    }
  }

  // Asked again only when the class's or its metaclass's version has changed since it was found as `facts` wants it.
  static bool class_facts(PyObject *type, PyObject *facts, uint64_t &known) {
    if (known != 0 && known == tdh_class_version(type)) return true;
    PyObject *answer = PyObject_CallOneArg(facts, type);
    const int truth = answer == nullptr ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    if (truth != 1) return false;
    known = tdh_class_version(type);
    return true;
  }

  tdh_call *call_;
  void *plan_;
  std::vector<PyObject *> noted_;
  PyObject *const *objects_;
  uint64_t *versions_;
  static constexpr int32_t few = 64;
  PyObject *some_[few], **values_ = some_;
  std::unique_ptr<PyObject *[]> many_;
  int32_t n_values_ = 0;
};

}  // namespace

int env_recheck(void *plan, PyObject *arm, tdh_call *call, const tdh_step *steps, int32_t n, PyObject *const *objects,
                uint64_t *versions) {
  if (env_check(plan) == 0) {
    PyObject *answer = PyObject_CallOneArg(arm, call->func);
    const bool interrupted = tdh_is_interrupt();
    if (answer == nullptr) tdh_error_drop();
    Py_XDECREF(answer);
    if (interrupted && n > 0) return steps[0].guard;  // a miss: it is raised before anything has been done
  }
  recheck guards(call, n, plan, objects, versions);
  for (int32_t i = 0; i < n; i++) {
    if (guards.step(steps[i])) continue;
    tdh_error_drop();
    env_stale(plan);
    return steps[i].guard;
  }
  return -1;
}

}  // namespace trident_hook
