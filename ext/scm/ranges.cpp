// Named ranges of PyTorch's profiler around served calls: another entry in front of a module's own. Only functions whose
// ranges were asked for have it, so that it costs nothing while they are off. The GIL guards the table.
#include <Python.h>

#include <ATen/record_function.h>

#include <string>
#include <unordered_map>

#include "scm/ranges.h"
#include "abi/tdh_rt.h"

namespace trident_hook {
namespace {

struct ranged {
  tdh_scm scm;         // what the doors see
  PyObject *code;      // borrowed: an address
  tdh_entry_fn entry;  // the module's own
  std::string name;
};

std::unordered_map<PyObject *, ranged *> by_code;

// A miss is in the range too: until its guards were asked nobody knows.
int enter(tdh_call *call, PyObject **result) {
  const auto found = by_code.find(PyFunction_GET_CODE(call->func));
  if (found == by_code.end()) {  // the function has got another code object meanwhile
    call->spec = call->guard = -1;
    return TDH_BYPASS;
  }
  const tdh_entry_fn entry = found->second->entry;  // the call may change the table
  at::RecordFunction range(at::RecordScope::USER_SCOPE);
  if (range.isActive()) range.before(found->second->name);
  return entry(call, result);
}

void release(PyObject *capsule) {
  auto *mine = static_cast<ranged *>(PyCapsule_GetContext(capsule));
  const auto found = by_code.find(mine->code);
  if (found != by_code.end() && found->second == mine) by_code.erase(found);
  delete mine;
}

}  // namespace

// scm_ranged(scm, code, name) -> a capsule for the doors. The module of `scm` must live as long as the capsule does, and
// the code object as long as the doors have the capsule.
PyObject *py_scm_ranged(PyObject *, PyObject *args) {
  PyObject *capsule, *code;
  const char *name;
  if (!PyArg_ParseTuple(args, "OO!s", &capsule, &PyCode_Type, &code, &name)) return nullptr;
  const auto *scm = static_cast<const tdh_scm *>(PyCapsule_GetPointer(capsule, TDH_SCM_CAPSULE));
  if (scm == nullptr) return nullptr;
  auto *mine = new ranged{{scm->abi, scm->n_specs, enter}, code, scm->entry, name};
  PyObject *made = PyCapsule_New(&mine->scm, TDH_SCM_CAPSULE, nullptr);
  if (made == nullptr || PyCapsule_SetContext(made, mine) != 0 || PyCapsule_SetDestructor(made, release) != 0) {
    Py_XDECREF(made);
    delete mine;
    return nullptr;
  }
  by_code[code] = mine;
  return made;
}

}  // namespace trident_hook
