// Tensors without the Python in between: allocation through the backend's registered kernel, data pointers, and the
// ownership of handles.
#include "compat/torch.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided_ops.h>
#include <c10/core/SymIntArrayRef.h>
#include <torch/csrc/autograd/python_variable.h>

#include "aten/handle.h"
#include "services.h"

namespace trident_hook {
namespace {

using empty_strided_handle = c10::TypedOperatorHandle<at::_ops::empty_strided::schema>;

// aten::empty_strided is registered by libtorch itself and never goes away, so the handle is good for ever.
const empty_strided_handle &empty_strided_operator() {
  static const empty_strided_handle handle = c10::Dispatcher::singleton()
                                                 .findSchemaOrThrow("aten::empty_strided", "")
                                                 .typed<at::_ops::empty_strided::schema>();
  return handle;
}

// Enters the dispatcher below BackendSelect, whose kernel for this operator only computes the key that is given here.
// With that, an override registered for the backend (torch.library.impl, a library such as FlagGems) is found. What is
// skipped is the profiler's record of the allocation. Devices: the CUDA kernel switches to `device` and back itself.
int allocate(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype, c10::Device device,
             at::Tensor *out) {
  HANDLE_TH_ERRORS
  // What eager does first: initialises CUDA in a process that has not used it, raises in a forked child.
  if (!device.is_cpu() && !device.is_meta()) torch::utils::device_lazy_init(device.type());
  const c10::DispatchKeySet key(c10::computeDispatchKey(dtype, c10::kStrided, device));
  *out = empty_strided_operator().redispatch(key, c10::fromIntArrayRefSlow(sizes), c10::fromIntArrayRefSlow(strides),
                                             dtype, std::nullopt, device, std::nullopt);
  return 0;
  END_HANDLE_TH_ERRORS_RET(-1)
}

}  // namespace

void *empty_strided(int32_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int32_t device_type,
                    int32_t device_index) {
  const c10::Device device(static_cast<c10::DeviceType>(device_type), static_cast<c10::DeviceIndex>(device_index));
  at::Tensor tensor;
  const c10::IntArrayRef size_list(sizes, ndim), stride_list(strides, ndim);
  if (allocate(size_list, stride_list, static_cast<c10::ScalarType>(dtype), device, &tensor) < 0) return nullptr;
  counters[TDH_COUNT_ALLOC]++;
  return give(std::move(tensor));
}

void *data_ptr(void *handle) {
  try {
    return impl_of(handle)->mutable_data();
  } catch (const std::exception &) {
    torch::translate_exception_to_python(std::current_exception());
    return nullptr;
  }
}

void retain(void *handle) {
  counters[TDH_COUNT_HANDLES_LIVE]++;
  share(handle).release();
}

void release(void *handle) {
  if (handle != nullptr) take(handle);
}

PyObject *wrap(void *handle) {
  if (handle == nullptr) Py_RETURN_NONE;
  try {
    return THPVariable_Wrap(at::TensorBase(take(handle)));
  } catch (const std::exception &) {
    torch::translate_exception_to_python(std::current_exception());
    return nullptr;
  }
}

}  // namespace trident_hook
