// Reads what the guards compare from a tensor argument. No reference is taken, nothing is allocated, and no Python code
// runs: tensors that dispatch to Python (__torch_dispatch__) are refused, because their fields may be computed there
// and nothing that we would do with their memory is what they mean.
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/python_variable.h>

#include "common/services.h"

namespace trident_hook {
namespace {

// The size and stride policy is protected in TensorImpl; naming the member through a derived class is the legal way in.
struct Peek : c10::TensorImpl {
  static bool sizes_are_plain(const c10::TensorImpl &impl) {
    return !(impl.*&Peek::matches_policy)(SizesStridesPolicy::CustomStrides);
  }
};

constexpr c10::DispatchKeySet python_keys({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                                           c10::DispatchKey::PythonDispatcher});

int read(c10::TensorImpl &impl, tdh_tensor *out) {
  const c10::DispatchKeySet keys = impl.key_set();
  if (C10_UNLIKELY(keys.has(c10::DispatchKey::Python))) return -1;
  out->impl = &impl;
  out->keys = keys.raw_repr();
  // Device and layout are virtual for a few classes, in C++, and may throw.
  const c10::Device device = impl.device();
  const c10::Layout layout = impl.layout();
  out->device_type = static_cast<int8_t>(device.type());
  out->device_index = device.index();
  out->layout = static_cast<uint8_t>(layout);
  out->dtype = static_cast<int16_t>(c10::typeMetaToScalarType(impl.dtype()));
  out->requires_grad = impl.requires_grad();
  out->flags = (keys.has(c10::DispatchKey::Conjugate) ? TDH_TENSOR_CONJ : 0) |
               (keys.has(c10::DispatchKey::Negative) ? TDH_TENSOR_NEG : 0) |
               (impl.is_inference() ? TDH_TENSOR_INFERENCE : 0);
  out->sizes = out->strides = nullptr;
  out->storage_offset = 0;
  out->ndim = -1;
  // Nested tensors and symbolic shapes have a custom policy, too. MKLDNN has plain sizes but no strides that mean
  // anything.
  if (C10_UNLIKELY(!Peek::sizes_are_plain(impl) || layout != c10::kStrided)) return -1;
  const c10::IntArrayRef sizes = impl.sizes();
  out->sizes = sizes.data();
  out->strides = impl.strides().data();
  out->storage_offset = impl.storage_offset();
  out->ndim = static_cast<int32_t>(sizes.size());
  return 0;
}

}  // namespace

int handle_read(void *handle, tdh_tensor *out) {
  try {
    return read(*static_cast<c10::TensorImpl *>(handle), out);
  } catch (const std::exception &) {
    return -1;
  }
}

// The type test is by inheritance only. THPVariable_Check would ask isinstance(), which believes an object whose
// __class__ lies, and may run Python.
int tensor_read(PyObject *obj, tdh_tensor *out) {
  if (C10_UNLIKELY(!THPVariable_CheckExact(obj) &&
                   (!THPVariableClass || !PyType_IsSubtype(Py_TYPE(obj), (PyTypeObject *)THPVariableClass)))) {
    return -1;
  }
  const at::Tensor &tensor = THPVariable_Unpack(obj);
  if (C10_UNLIKELY(!tensor.defined())) return -1;
  return handle_read(tensor.unsafeGetTensorImpl(), out);
}

uint64_t keys_apply(uint64_t keys, const tdh_state *state) {
  using set = c10::DispatchKeySet;
  const set included(set::RAW, state->word[0]), excluded(set::RAW, state->word[1]);
  return (((set(set::RAW, keys) | included) - excluded) - python_keys).raw_repr();
}

void *unwrap(PyObject *tensor) {
  return THPVariable_Unpack(tensor).unsafeGetTensorImpl();
}

}  // namespace trident_hook
