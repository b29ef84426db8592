// Gives a loaded module what it was generated for: objects, operator sites, plans, services. In C++ and not in the module
// itself, because every line of Python in a generated module costs compile time.
#include <Python.h>

#include "scm/bind.h"
#include "common/services.h"

namespace trident_hook {
namespace {

int gone(tdh_call *call, PyObject **) {
  call->spec = call->guard = -1;
  return TDH_MISS;
}

tdh_module *module_of(PyObject *capsule) {
  auto *module = static_cast<tdh_module *>(PyCapsule_GetPointer(capsule, TDH_MODULE_CAPSULE));
  if (module != nullptr && module->abi != TDH_ABI_VERSION) {
    PyErr_Format(PyExc_ImportError, "the module was compiled for ABI %u, the library has %d: clear the cache",
                 module->abi, TDH_ABI_VERSION);
    return nullptr;
  }
  return module;
}

bool check_length(PyObject *list, uint32_t wanted, const char *what) {
  if (PyList_GET_SIZE(list) == static_cast<Py_ssize_t>(wanted)) return true;
  PyErr_Format(PyExc_ImportError, "the module was generated for %u %s, not %zd: clear the cache", wanted, what,
               PyList_GET_SIZE(list));
  return false;
}

bool fill_pointers(PyObject *capsules, const char *name, void **out) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(capsules); i++) {
    out[i] = PyCapsule_GetPointer(PyList_GET_ITEM(capsules, i), name);
    if (out[i] == nullptr) return false;
  }
  return true;
}

}  // namespace

// scm_bind(module, objects, sites, plans, arms) -> capsule for the doors. The lists must outlive the module's calls: the
// references in it are borrowed.
PyObject *py_scm_bind(PyObject *, PyObject *args) {
  PyObject *capsule, *objects, *sites, *plans, *arms;
  if (!PyArg_ParseTuple(args, "OO!O!O!O!", &capsule, &PyList_Type, &objects, &PyList_Type, &sites, &PyList_Type, &plans,
                        &PyList_Type, &arms)) {
    return nullptr;
  }
  tdh_module *module = module_of(capsule);
  if (module == nullptr || !check_length(objects, module->n_objects, "objects") ||
      !check_length(sites, module->n_sites, "operator calls") || !check_length(plans, module->n_plans, "plans") ||
      !check_length(arms, module->n_plans, "plans") || !fill_pointers(sites, TDH_OP_SITE_CAPSULE, module->sites) ||
      !fill_pointers(plans, TDH_ENV_PLAN_CAPSULE, module->plans)) {
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); i++)
    module->objects[i] = PyList_GET_ITEM(objects, i);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arms); i++)
    module->arms[i] = PyList_GET_ITEM(arms, i);
  *module->rt = &api;
  module->scm->abi = TDH_ABI_VERSION;
  module->scm->n_specs = module->n_specs;
  module->scm->entry = module->entry;
  return PyCapsule_New(module->scm, TDH_SCM_CAPSULE, nullptr);
}

// scm_unbind(module): whoever still calls it gets a miss.
PyObject *py_scm_unbind(PyObject *, PyObject *capsule) {
  tdh_module *module = module_of(capsule);
  if (module == nullptr) return nullptr;
  module->scm->entry = gone;
  Py_RETURN_NONE;
}

}  // namespace trident_hook
