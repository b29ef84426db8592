// Tensor handles: at::Tensor on one side, `void *` to its TensorImpl on the other, and who owns the reference.
// HANDLES_LIVE counts owned handles that were given out and have not come back.
#ifndef TDH_ATEN_HANDLE_H
#define TDH_ATEN_HANDLE_H

#include <ATen/core/TensorBase.h>

#include "common/services.h"

namespace trident_hook {

using impl_ptr = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

inline c10::TensorImpl *impl_of(void *handle) {
  return static_cast<c10::TensorImpl *>(handle);
}

// A new reference to a borrowed handle; undefined for NULL.
inline impl_ptr share(void *handle) {
  return handle == nullptr ? impl_ptr() : impl_ptr::unsafe_reclaim_from_nonowning(impl_of(handle));
}

// Takes back an owned handle.
inline impl_ptr take(void *handle) {
  counters[TDH_COUNT_HANDLES_LIVE]--;
  return impl_ptr::reclaim(impl_of(handle));
}

// Gives out the reference that `tensor` holds: an owned handle, NULL for an undefined tensor.
inline void *give(at::TensorBase &&tensor) {
  if (!tensor.defined()) return nullptr;
  counters[TDH_COUNT_HANDLES_LIVE]++;
  return tensor.unsafeReleaseTensorImpl();
}

}  // namespace trident_hook

#endif
