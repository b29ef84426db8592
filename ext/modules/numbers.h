// Numbers that Python and C share: said once, here in C, and read in Python as constants of `_rt`.
#ifndef TDH_MODULES_NUMBERS_H
#define TDH_MODULES_NUMBERS_H

#include <Python.h>

#include <c10/core/DeviceType.h>

#include "guard/state.h"
#include "guard/watch.h"
#include "abi/tdh_rt.h"

namespace trident_hook {

// 0, or -1 with an exception.
inline int add_flags(PyObject *module) {
  const Py_ssize_t count = sizeof(state_flags) / sizeof(state_flags[0]);
  PyObject *flags = PyTuple_New(count);
  for (Py_ssize_t i = 0; flags != nullptr && i < count; i++) {
    PyObject *flag = Py_BuildValue("(si)", state_flags[i].name, state_flags[i].bits);
    if (flag == nullptr) Py_CLEAR(flags);
    if (flags != nullptr) PyTuple_SET_ITEM(flags, i, flag);
  }
  const int status = flags == nullptr ? -1 : PyModule_AddObjectRef(module, "STATE_FLAGS", flags);
  Py_XDECREF(flags);
  return status;
}

// 0, or -1 with an exception.
inline int add_numbers(PyObject *module) {
  const struct {
    const char *name;
    long number;
  } numbers[] = {
      {"ABI", TDH_ABI_VERSION},
      {"PIN_TYPE", pin_type},
      {"PIN_CODE", pin_code},
      {"PIN_CLOSURE", pin_closure},
      {"PIN_DEFAULTS", pin_defaults},
      {"PIN_KWDEFAULTS", pin_kwdefaults},
      {"PIN_DICT", pin_dict},
      {"PIN_EMPTY_LIST", pin_empty_list},
      {"STATE_WORDS", TDH_STATE_WORDS},
      {"STATE_HOOKS", TDH_STATE_HOOKS},
      {"KERNEL_PDL", TDH_KERNEL_PDL},
      {"KERNEL_COOPERATIVE", TDH_KERNEL_COOPERATIVE},
      {"SCRATCH_GLOBAL", TDH_SCRATCH_GLOBAL},
      {"SCRATCH_PROFILE", TDH_SCRATCH_PROFILE},
      {"DEVICE_CPU", static_cast<long>(c10::DeviceType::CPU)},
      {"DEVICE_CUDA", static_cast<long>(c10::DeviceType::CUDA)},
  };
  for (const auto &it : numbers)
    if (PyModule_AddIntConstant(module, it.name, it.number) < 0) return -1;
  return add_flags(module);
}

}  // namespace trident_hook

#endif
