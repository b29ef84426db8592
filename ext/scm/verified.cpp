// Another entry in front of a module's own, for functions whose hits are verified: a call that would hit is given to a
// callable of Python, which runs the specialization and the plain function and says what the caller gets. Slow, and only
// there while it was asked for. The GIL guards the table.
#include "scm/verified.h"

#include <unordered_map>
#include <vector>

#include "abi/tdh_rt.h"

namespace trident_hook {
namespace {

struct verified {
  tdh_scm scm;         // what the doors see
  PyObject *code;      // borrowed: an address
  tdh_entry_fn entry;  // the module's own
  PyObject *judge;     // owned: (func, locals, spec) -> (value,), or None for the plain function
};

std::unordered_map<PyObject *, verified *> by_code;

int n_locals(const PyCodeObject *code) {
  return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
         ((code->co_flags & CO_VARKEYWORDS) != 0);
}

// The arguments as a tuple.
PyObject *locals_of(const tdh_call *call) {
  const int n = n_locals(reinterpret_cast<PyCodeObject *>(PyFunction_GET_CODE(call->func)));
  PyObject *made = PyTuple_New(n);
  for (int i = 0; made != nullptr && i < n; i++)
    PyTuple_SET_ITEM(made, i, Py_NewRef(call->locals[i]));
  return made;
}

int enter(tdh_call *call, PyObject **result) {
  const auto found = by_code.find(PyFunction_GET_CODE(call->func));
  if (found == by_code.end()) {  // the function has got another code object meanwhile
    call->spec = call->guard = -1;
    return TDH_BYPASS;
  }
  const int outcome = found->second->entry(call, nullptr);
  if (outcome != TDH_HIT || result == nullptr) return outcome;
  PyObject *judge = Py_NewRef(found->second->judge);  // the call may change the table
  PyObject *locals = locals_of(call);
  PyObject *answer = locals ? PyObject_CallFunction(judge, "OOi", call->func, locals, call->spec) : nullptr;
  Py_XDECREF(locals);
  Py_DECREF(judge);
  if (answer == nullptr) return TDH_ERROR;
  if (answer == Py_None || !PyTuple_Check(answer) || PyTuple_GET_SIZE(answer) != 1) {
    Py_DECREF(answer);
    return TDH_BYPASS;
  }
  *result = Py_NewRef(PyTuple_GET_ITEM(answer, 0));
  Py_DECREF(answer);
  return TDH_HIT;
}

void release(PyObject *capsule) {
  auto *mine = static_cast<verified *>(PyCapsule_GetContext(capsule));
  const auto found = by_code.find(mine->code);
  if (found != by_code.end() && found->second == mine) by_code.erase(found);
  Py_DECREF(mine->judge);
  delete mine;
}

}  // namespace

// scm_verified(scm, code, judge) -> a capsule for the doors. The module of `scm` must live as long as the capsule does, and
// the code object as long as the doors have the capsule.
PyObject *py_scm_verified(PyObject *, PyObject *args) {
  PyObject *capsule, *code, *judge;
  if (!PyArg_ParseTuple(args, "OO!O", &capsule, &PyCode_Type, &code, &judge)) return nullptr;
  const auto *scm = static_cast<const tdh_scm *>(PyCapsule_GetPointer(capsule, TDH_SCM_CAPSULE));
  if (scm == nullptr) return nullptr;
  auto *mine = new verified{{scm->abi, scm->n_specs, enter}, code, scm->entry, Py_NewRef(judge)};
  PyObject *made = PyCapsule_New(&mine->scm, TDH_SCM_CAPSULE, nullptr);
  if (made == nullptr || PyCapsule_SetContext(made, mine) != 0 || PyCapsule_SetDestructor(made, release) != 0) {
    Py_XDECREF(made);
    Py_DECREF(mine->judge);
    delete mine;
    return nullptr;
  }
  by_code[code] = mine;
  return made;
}

// scm_ask(scm, func, locals) -> (value,) where a specialization serves the call, None where none does; raises what the
// specialization raises.
PyObject *py_scm_ask(PyObject *, PyObject *args) {
  PyObject *capsule, *func, *locals;
  if (!PyArg_ParseTuple(args, "OO!O!", &capsule, &PyFunction_Type, &func, &PyTuple_Type, &locals)) return nullptr;
  const auto *scm = static_cast<const tdh_scm *>(PyCapsule_GetPointer(capsule, TDH_SCM_CAPSULE));
  if (scm == nullptr) return nullptr;
  const int n = n_locals(reinterpret_cast<PyCodeObject *>(PyFunction_GET_CODE(func)));
  if (PyTuple_GET_SIZE(locals) != n) {
    PyErr_Format(PyExc_TypeError, "scm_ask: seen %zd locals, expected %d", PyTuple_GET_SIZE(locals), n);
    return nullptr;
  }
  std::vector<PyObject *> held(n + 1);
  for (int i = 0; i < n; i++)
    held[i] = PyTuple_GET_ITEM(locals, i);
  tdh_call call = {held.data(), func, -1, -1};
  PyObject *value = nullptr;
  const int outcome = scm->entry(&call, &value);
  if (outcome == TDH_ERROR) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "a specialization failed without setting an exception");
    return nullptr;
  }
  if (outcome != TDH_HIT || value == nullptr) Py_RETURN_NONE;
  PyObject *made = PyTuple_Pack(1, value);
  Py_DECREF(value);
  return made;
}

}  // namespace trident_hook
