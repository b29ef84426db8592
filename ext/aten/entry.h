// The entry behind an operator's handle: its dispatch table says which kernel a key has at this moment. PyTorch keeps the
// field private; an explicit instantiation may name it (C++20, [temp.spec.general]/6). A change of type stops the build.
#ifndef TDH_ATEN_ENTRY_H
#define TDH_ATEN_ENTRY_H

#include <ATen/core/dispatch/Dispatcher.h>

namespace trident_hook {
namespace {

template <auto Field>
struct field_of_handle {
  friend const auto &operator_entry(const c10::OperatorHandle &handle) { return (handle.*Field)->op; }
};
template struct field_of_handle<&c10::OperatorHandle::operatorDef_>;
const auto &operator_entry(const c10::OperatorHandle &handle);

}  // namespace
}  // namespace trident_hook

#endif
