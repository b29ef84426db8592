// Tensors without the Python in between: allocation through the backend's registered kernel, data pointers, and the
// ownership of handles.
#include "compat/torch.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided_ops.h>
#include <c10/core/SymIntArrayRef.h>
#include <torch/csrc/autograd/python_variable.h>

#include <dlfcn.h>
#include <pthread.h>

#include <optional>

#include "aten/entry.h"
#include "common/handle.h"
#include "common/services.h"

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

constexpr int n_trusted = 2;  // CPU, CUDA
static_assert(static_cast<int>(c10::DeviceType::CPU) == 0 && static_cast<int>(c10::DeviceType::CUDA) == 1);
constexpr c10::DispatchKey trusted_keys[n_trusted] = {c10::DispatchKey::CPU, c10::DispatchKey::CUDA};

// PyTorch's own kernels, noted by alloc_trust() once their registration was seen to be the only one.
std::optional<c10::KernelFunction> own_kernel[n_trusted];

using cuda_allocation = at::TensorBase (*)(c10::IntArrayRef, c10::IntArrayRef, c10::ScalarType,
                                           std::optional<c10::Device>);
cuda_allocation allocate_on_cuda = nullptr;  // at::detail::empty_strided_cuda, if this PyTorch has it

bool initialised[n_trusted] = {true, false};

// What eager does first: initialises CUDA in a process that has not used it, raises in a forked child.
void initialise(c10::Device device) {
  const int type = static_cast<int>(device.type());
  if (type < n_trusted && initialised[type]) return;
  if (device.is_meta()) return;
  torch::utils::device_lazy_init(device.type());
  if (type < n_trusted) initialised[type] = true;
}

// True if a plain allocation of this backend is what its kernel does now: nobody has registered another one, and the
// deterministic mode does not ask for memory to be filled. Budget: a few loads.
bool is_plain(int type) {
  if (type >= n_trusted || !own_kernel[type]) return false;
  if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms())) return false;
  const c10::KernelFunction &now =
      operator_entry(empty_strided_operator()).lookup(c10::DispatchKeySet(trusted_keys[type]));
  return now._equalsBoxedAndUnboxed(*own_kernel[type]);
}

// The plain path allocates as PyTorch's kernel does. Anything else enters the dispatcher below BackendSelect, whose
// kernel for this operator only computes the key that is given here. With that, an override registered for the backend
// (torch.library.impl, a library such as FlagGems) is found. What is skipped is the profiler's record of the allocation.
// Devices: the CUDA kernel switches to `device` and back itself.
int allocate(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype, c10::Device device,
             at::Tensor *out) {
  HANDLE_TH_ERRORS
  initialise(device);
  if (C10_LIKELY(is_plain(static_cast<int>(device.type())))) {
    *out = at::Tensor(device.is_cpu() ? at::detail::empty_strided_cpu(sizes, strides, dtype)
                                      : allocate_on_cuda(sizes, strides, dtype, device));
    return 0;
  }
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

// alloc_trust(device_type): the kernel that is registered for this backend now is PyTorch's own (the caller has read the
// registrations). Returns whether plain allocations are made directly from here on.
PyObject *py_alloc_trust(PyObject *, PyObject *number) {
  const long type = PyLong_AsLong(number);
  if (type < 0 || type >= n_trusted) {
    return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_ValueError, "alloc_trust: device type 0 or 1");
  }
  if (type == static_cast<int>(c10::DeviceType::CUDA)) {
    void *library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) Py_RETURN_FALSE;
    allocate_on_cuda = reinterpret_cast<cuda_allocation>(
        dlsym(library,
              "_ZN2at6detail18empty_strided_cudaEN3c108ArrayRefIlEES3_NS1_10ScalarTypeESt8optionalINS1_"
              "6DeviceEE"));
    if (allocate_on_cuda == nullptr) Py_RETURN_FALSE;
  }
  static const int registered = pthread_atfork(nullptr, nullptr, [] { initialised[1] = false; });
  if (registered != 0) Py_RETURN_FALSE;
  own_kernel[type] = operator_entry(empty_strided_operator()).lookup(c10::DispatchKeySet(trusted_keys[type]));
  Py_RETURN_TRUE;
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
