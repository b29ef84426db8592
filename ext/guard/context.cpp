// Contexts of torch.autograd.Function: whether `ctx.saved_tensors` can be read by guards, which may do so in vain.
#include "guard/context.h"

#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace trident_hook {
namespace {

using torch::autograd::SavedVariable;

// PyTorch keeps the hooks of a saved tensor private; an explicit instantiation may name them (C++20,
// [temp.spec.general]/6). A change of type stops the build.
template <auto Field>
struct field_of_saved {
  friend const auto &hooks_of(const SavedVariable &saved) { return saved.*Field; }
};
template struct field_of_saved<&SavedVariable::hooks_>;
const auto &hooks_of(const SavedVariable &saved);

}  // namespace

// context_is_plain(obj): False for a context whose saved tensors have an unpack hook (which runs the program's code, and
// may refuse to run twice), are given up by the first reading, or have been freed. True for what is no context.
PyObject *py_context_is_plain(PyObject *, PyObject *obj) {
  if (THPFunctionClass == nullptr || !PyObject_TypeCheck(obj, &THPFunctionType)) Py_RETURN_TRUE;
  const auto *context = reinterpret_cast<const THPFunction *>(obj);
  if (context->has_freed_buffers || context->clear_saved_tensors_on_access) Py_RETURN_FALSE;
  for (const SavedVariable &saved : context->saved_variables) {
    if (hooks_of(saved) != nullptr) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

}  // namespace trident_hook
