// Launches of embedded CUBINs: where to, the function of the device, the call itself. Grid and attributes mean what
// they mean to Triton's own launcher; grids that it treats oddly are left to it (launch returns 1).
#define PY_SSIZE_T_CLEAN  // "y#" takes a Py_ssize_t
#include <Python.h>

#include "launch/launch.h"

#include <ATen/core/TensorBase.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/python_variable.h>

#include <atomic>
#include <climits>

#include "common/gil.h"
#include "common/handle.h"
#include "launch/driver.h"
#include "common/services.h"

namespace trident_hook {
namespace {

// What Python does for launches, set when the package loads its first module: nothing here knows where it stands.
struct {
  PyObject *load_cubin = nullptr, *raise_error = nullptr;  // owned
} callbacks;

// A new reference, or NULL with an exception.
PyObject *callback(PyObject *registered) {
  if (registered == nullptr) PyErr_SetString(PyExc_RuntimeError, "_rt.launch_callbacks() was not called");
  return Py_XNewRef(registered);
}

// Set while a simulated driver stands in for CUDA: kernels then accept CPU tensors.
int (*simulated_device)() = nullptr;
uint64_t (*simulated_stream)(int) = nullptr;

constexpr int64_t max_grid = INT_MAX;

// What stock Triton launches, and what it does not: its test for an empty grid is a product of ints that may wrap.
enum class grid_verdict { launch, nothing, leave_to_stock };
grid_verdict judge(int64_t gx, int64_t gy, int64_t gz, int64_t num_ctas) {
  if (gx < 0 || gy < 0 || gz < 0 || gx > max_grid || gy > max_grid || gz > max_grid)
    return grid_verdict::leave_to_stock;
  if (gx == 0 || gy == 0 || gz == 0) return grid_verdict::nothing;
  int64_t product;
  if (__builtin_mul_overflow(gx * gy, gz, &product) || product > INT_MAX) return grid_verdict::leave_to_stock;
  if (gx * num_ctas > UINT_MAX) return grid_verdict::leave_to_stock;
  return grid_verdict::launch;
}

struct request {
  tdh_kernel *kernel;
  driver::function function;
  driver::stream stream;
  int device;
  unsigned grid[3];  // in blocks: x includes the cluster
  void **params;
};

unsigned ctas(const tdh_kernel *kernel) {
  return kernel->num_ctas > 1 ? kernel->num_ctas : 1;
}

const char *call_name(const tdh_kernel *kernel) {
  return kernel->flags != 0 || kernel->num_ctas > 1 ? "cuLaunchKernelEx" : "cuLaunchKernel";
}

driver::result submit(const request &r) {
  const tdh_kernel &kernel = *r.kernel;
  if (kernel.flags == 0 && kernel.num_ctas <= 1) {
    return driver::cuLaunchKernel(r.function, r.grid[0], r.grid[1], r.grid[2], kernel.threads, 1, 1, kernel.shared,
                                  r.stream, r.params, nullptr);
  }
  driver::launch_attribute attributes[4] = {};
  unsigned n = 0;
  const auto add = [&](int id, uint32_t x, uint32_t y = 0, uint32_t z = 0) {
    attributes[n].id = id;
    attributes[n].value[0] = x;
    attributes[n].value[1] = y;
    attributes[n++].value[2] = z;
  };
  if (kernel.flags & TDH_KERNEL_PDL) add(driver::attribute_programmatic_stream_serialization, 1);
  if (kernel.flags & TDH_KERNEL_COOPERATIVE) add(driver::attribute_cooperative, 1);
  if (kernel.num_ctas > 1) {
    add(driver::attribute_cluster_dimension, kernel.num_ctas, 1, 1);
    add(driver::attribute_cluster_scheduling, driver::cluster_scheduling_spread);
  }
  const driver::launch_config config = {
      {r.grid[0], r.grid[1], r.grid[2]}, {kernel.threads, 1, 1}, kernel.shared, r.stream, attributes, n};
  return driver::cuLaunchKernelEx(&config, r.function, r.params, nullptr);
}

// A thread that has not used CUDA has no context, and another library may have left one that is not the device's. A
// launch refused for that had no effect: make the primary context current, try once more, put back what was there (but
// leave the primary one where there was none, as Triton does).
driver::result submit_in_primary_context(const request &r, driver::result refusal) {
  static std::atomic<driver::context> retained[TDH_MAX_DEVICES];  // for the life of the process, as PyTorch does
  driver::context before = nullptr, primary = retained[r.device];
  driver::result code = driver::cuCtxGetCurrent(&before);
  if (code == driver::success && primary == nullptr) {
    code = driver::cuDevicePrimaryCtxRetain(&primary, r.device);
    if (code == driver::success) retained[r.device] = primary;
  }
  if (code != driver::success) return code;
  if (before == primary) return refusal;
  code = driver::cuCtxSetCurrent(primary);
  if (code != driver::success) return code;
  code = submit(r);
  if (before != nullptr) driver::cuCtxSetCurrent(before);
  return code;
}

C10_NOINLINE int raise_launch_error(const request &r, driver::result code) {
  PyObject *raise = callback(callbacks.raise_error);
  PyObject *done = nullptr;
  if (raise != nullptr) {
    done = PyObject_CallFunction(raise, "sisss(III)i", call_name(r.kernel), static_cast<int>(code),
                                 driver::error_name(code), driver::error_text(code), r.kernel->name, r.grid[0],
                                 r.grid[1], r.grid[2], r.device);
  }
  Py_XDECREF(raise);
  Py_XDECREF(done);
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "raise_launch_error() did not raise");
  return -1;
}

}  // namespace

// launch_callbacks(load_cubin, raise_error): see trident_hook/runtime/callbacks.py
PyObject *py_launch_callbacks(PyObject *, PyObject *args) {
  PyObject *load, *raise;
  if (!PyArg_ParseTuple(args, "OO:launch_callbacks", &load, &raise)) return nullptr;
  Py_XSETREF(callbacks.load_cubin, Py_NewRef(load));
  Py_XSETREF(callbacks.raise_error, Py_NewRef(raise));
  Py_RETURN_NONE;
}

void simulated_set(uintptr_t current_device, uintptr_t current_stream) {
  simulated_device = reinterpret_cast<int (*)()>(current_device);
  simulated_stream = reinterpret_cast<uint64_t (*)(int)>(current_stream);
}

namespace {

// A stream's native handle never changes: PyTorch's own streams live as long as the process, and the id of an external
// one is its handle. Asking PyTorch for it reads the current device twice more.
void *native_handle(const c10::impl::DeviceGuardImplInterface *guard, c10::Stream stream) {
  thread_local c10::Stream last(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::CPU), -1);
  thread_local void *handle = nullptr;
  if (C10_UNLIKELY(last != stream)) {
    handle = guard->getStreamNativeHandle(stream);
    last = stream;
  }
  return handle;
}

}  // namespace

// Device and stream through the device guard that libtorch_cuda registers: no CUDA header, no symbol of it.
int launch_env(tdh_launch_env *out) {
  if (simulated_device != nullptr) {
    out->device = simulated_device();
    out->stream = reinterpret_cast<void *>(simulated_stream(out->device));
    out->device_type = static_cast<int32_t>(c10::DeviceType::CPU);
    return 0;
  }
  try {
    const auto *guard = c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
    const c10::Device device = guard->getDevice();
    out->device = device.index();
    out->stream = native_handle(guard, guard->getStream(device));
    out->device_type = static_cast<int32_t>(c10::DeviceType::CUDA);
    return 0;
  } catch (const std::exception &) {
    torch::translate_exception_to_python(std::current_exception());
    return -1;
  }
}

void *kernel_function(tdh_kernel *kernel, int32_t device) {
  if (device < 0 || device >= TDH_MAX_DEVICES) {
    PyErr_Format(PyExc_RuntimeError, "trident_hook serves devices 0 to %d, not %d", TDH_MAX_DEVICES - 1, device);
    return nullptr;
  }
  if (C10_LIKELY(kernel->function[device] != nullptr)) return kernel->function[device];
  PyObject *load = callback(callbacks.load_cubin);
  if (load == nullptr) return nullptr;
  PyObject *handle = PyObject_CallFunction(load, "y#sIIi", reinterpret_cast<const char *>(kernel->cubin),
                                           static_cast<Py_ssize_t>(kernel->cubin_size), kernel->name, kernel->shared,
                                           kernel->threads, static_cast<int>(device));
  Py_DECREF(load);
  if (handle == nullptr) return nullptr;
  void *function = PyLong_AsVoidPtr(handle);
  Py_DECREF(handle);
  if (function == nullptr) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "the loader of CUBINs returned no function");
    return nullptr;
  }
  // Stock Triton sets this before each launch of a cluster of 16.
  if (kernel->num_ctas == 16) {
    const auto code = driver::cuFuncSetAttribute(function, driver::function_nonportable_cluster_size, 1);
    if (code != driver::success) {
      raise_launch_error({kernel, function, nullptr, device, {0, 0, 0}, nullptr}, code);
      return nullptr;
    }
  }
  counters[TDH_COUNT_MODULE_LOAD]++;
  return kernel->function[device] = function;
}

namespace {

// The driver call may block for long, when the queue of the stream is full: other Python threads run meanwhile.
int submit_or_raise(const request &r) {
  driver::result code;
  {
    released_gil no_gil;
    code = submit(r);
    if (C10_UNLIKELY(code == driver::invalid_context || code == driver::invalid_handle)) {
      code = submit_in_primary_context(r, code);
    }
  }
  if (C10_UNLIKELY(code != driver::success)) return raise_launch_error(r, code);
  counters[TDH_COUNT_LAUNCH]++;
  return 0;
}

request request_for(tdh_kernel *kernel, const tdh_launch_env *env, int64_t gx, int64_t gy, int64_t gz, void **params) {
  const unsigned num_ctas = ctas(kernel);
  return {kernel,
          kernel_function(kernel, env->device),
          env->stream,
          env->device,
          {static_cast<unsigned>(gx) * num_ctas, static_cast<unsigned>(gy), static_cast<unsigned>(gz)},
          params};
}

}  // namespace

int launch(tdh_kernel *kernel, const tdh_launch_env *env, int64_t gx, int64_t gy, int64_t gz, void **params) {
  switch (judge(gx, gy, gz, ctas(kernel))) {
    case grid_verdict::nothing:
      return 0;
    case grid_verdict::leave_to_stock:
      return 1;
    case grid_verdict::launch:
      break;
  }
  const request r = request_for(kernel, env, gx, gy, gz, params);
  return r.function == nullptr ? -1 : submit_or_raise(r);
}

int launch_scratch(tdh_kernel *kernel, const tdh_launch_env *env, int64_t gx, int64_t gy, int64_t gz, void **params,
                   void **scratch) {
  const grid_verdict verdict = judge(gx, gy, gz, ctas(kernel));
  if (verdict == grid_verdict::leave_to_stock) return 1;
  const request r = request_for(kernel, env, gx, gy, gz, params);  // loaded before memory is asked for, as by Triton
  if (r.function == nullptr) return -1;
  scratch_buffer buffers[2];
  int status = 0;
  for (int kind = TDH_SCRATCH_GLOBAL; kind <= TDH_SCRATCH_PROFILE && status == 0; kind++) {
    status = scratch_allocate(kernel, kind, gx * gy * gz * ctas(kernel), env->stream, &buffers[kind]);
    scratch[kind] = buffers[kind].address;
  }
  if (status == 0 && verdict == grid_verdict::launch) status = submit_or_raise(r);
  for (scratch_buffer &buffer : buffers)
    Py_XDECREF(buffer.owner);
  return status;
}

int launch_python(PyObject *callable, void *const *tensors, int32_t n_tensors, const int64_t *ints, int32_t n_ints) {
  counters[TDH_COUNT_LAUNCH_PYTHON]++;
  try {
    const auto tensor_tuple = py::reinterpret_steal<py::object>(PyTuple_New(n_tensors));
    const auto int_tuple = py::reinterpret_steal<py::object>(PyTuple_New(n_ints));
    if (!tensor_tuple || !int_tuple) return -1;
    for (int32_t i = 0; i < n_tensors; i++) {
      PyObject *wrapped = THPVariable_Wrap(at::TensorBase(share(tensors[i])));
      if (wrapped == nullptr) return -1;
      PyTuple_SET_ITEM(tensor_tuple.ptr(), i, wrapped);
    }
    for (int32_t i = 0; i < n_ints; i++) {
      PyObject *number = PyLong_FromLongLong(ints[i]);
      if (number == nullptr) return -1;
      PyTuple_SET_ITEM(int_tuple.ptr(), i, number);
    }
    PyObject *result = PyObject_CallFunctionObjArgs(callable, tensor_tuple.ptr(), int_tuple.ptr(), nullptr);
    if (result == nullptr) return -1;
    Py_DECREF(result);
    return 0;
  } catch (const std::exception &) {
    torch::translate_exception_to_python(std::current_exception());
    return -1;
  }
}

}  // namespace trident_hook
