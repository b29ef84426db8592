// Grad mode as an operator, so that a host program changes it where the function does (`with torch.no_grad():`), between
// operators. It takes no tensors and has one kernel for every key. `before`, the mode in which the
// program began, is for the host program, which puts it back on an error.
#include <c10/core/GradMode.h>
#include <torch/library.h>

namespace {

void set_grad_enabled(bool enabled, bool /* before */) {
  c10::GradMode::set_enabled(enabled);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(trident_hook, library) {
  library.def("set_grad_enabled(bool enabled, bool before) -> ()", set_grad_enabled);
}
