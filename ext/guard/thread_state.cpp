// What PyTorch keeps of the running thread (modes of dispatch, dispatch keys, grad mode, saved-tensor hooks), noted before
// Dynamo runs and put back after an interrupt. A mode whose __enter__ or __exit__ was interrupted stays in force for ever
// otherwise, and with a fake mode every later call of the program fails.
#include "guard/thread_state.h"

#include <ATen/ThreadLocalState.h>
#include <torch/csrc/Exceptions.h>

namespace trident_hook {
namespace {
constexpr const char *capsule_name = "trident_hook.thread_state";

void drop(PyObject *capsule) {
  delete static_cast<at::ThreadLocalState *>(PyCapsule_GetPointer(capsule, capsule_name));
}
}  // namespace

// thread_state() -> capsule, for the thread that asks
PyObject *py_thread_state(PyObject *, PyObject *) {
  HANDLE_TH_ERRORS
  auto *state = new at::ThreadLocalState();
  PyObject *capsule = PyCapsule_New(state, capsule_name, drop);
  if (capsule == nullptr) delete state;
  return capsule;
  END_HANDLE_TH_ERRORS
}

// thread_state_restore(capsule): as it was then
PyObject *py_thread_state_restore(PyObject *, PyObject *capsule) {
  auto *state = static_cast<at::ThreadLocalState *>(PyCapsule_GetPointer(capsule, capsule_name));
  if (state == nullptr) return nullptr;
  HANDLE_TH_ERRORS
  at::ThreadLocalState::setThreadLocalState(*state);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

// call_warned(callable): calls it, and what PyTorch warns of meanwhile is a warning of Python's, as in torch's own functions. Operators that
// are called by name (torch.ops) write theirs to stderr otherwise.
PyObject *py_call_warned(PyObject *, PyObject *callable) {
  HANDLE_TH_ERRORS
  return PyObject_CallNoArgs(callable);
  END_HANDLE_TH_ERRORS
}

}  // namespace trident_hook
