// The floor: what a call costs when a person writes its host side in C++, and nothing else is left to save.
//
// Each function checks its arguments, allocates its outputs, looks up the current stream, launches the CUBIN that
// Triton compiled for the same call, and returns what the Python function returns. One shape is served: the sizes and
// integer parameters are constants given by `configure_*`. It must never grow a check or a feature that a careful
// person would leave out, nor lose one that a correct program needs: it is the unit that the product is measured in.
#include <ATen/EmptyTensor.h>
#include <Python.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstring>
#include <string>
#include <vector>

#ifdef FLOOR_WITH_CUDA
#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace {

using LaunchFn = int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                         void **);
LaunchFn launch_kernel = nullptr;

constexpr int MAX_PARAMS = 24;
constexpr int MAX_TENSORS = 4;
constexpr int MAX_DIMS = 4;

struct Layout {
  int64_t sizes[MAX_DIMS], strides[MAX_DIMS];
  int dims = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
};

// One function's constants. `pointer_slot[t]` is where tensor t (inputs, then outputs) goes in the parameter list.
struct Plan {
  void *function = nullptr;
  unsigned grid[3], threads = 0, shared = 0;
  uint64_t values[MAX_PARAMS];
  void *params[MAX_PARAMS];
  int pointer_slot[MAX_TENSORS];
  Layout layout[MAX_TENSORS];
  double eps = 0;
  c10::Device device = c10::Device(c10::kCPU);
};
Plan rms_norm_plan, silu_plan;

// Borrowed tensor, or null when the argument is not what the plan was made for. No allocation, cannot run Python code.
inline const at::Tensor *check_tensor(PyObject *object, const Layout &want, c10::Device device) {
  if (!THPVariable_CheckExact(object)) return nullptr;
  const at::Tensor &tensor = THPVariable_Unpack(object);
  if (tensor.scalar_type() != want.dtype || tensor.device() != device || tensor.dim() != want.dims ||
      tensor.requires_grad()) {
    return nullptr;
  }
  auto sizes = tensor.sizes(), strides = tensor.strides();
  for (int d = 0; d < want.dims; d++) {
    if (sizes[d] != want.sizes[d] || strides[d] != want.strides[d]) return nullptr;
  }
  if (reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16) return nullptr;
  return &tensor;
}

inline at::Tensor allocate(const Layout &layout, c10::Device device) {
  c10::IntArrayRef sizes(layout.sizes, layout.dims), strides(layout.strides, layout.dims);
#ifdef FLOOR_WITH_CUDA
  if (device.is_cuda()) return at::Tensor(at::detail::empty_strided_cuda(sizes, strides, layout.dtype, device));
#endif
  return at::Tensor(at::detail::empty_strided_cpu(sizes, strides, layout.dtype));
}

inline void *current_stream(c10::Device device) {
#ifdef FLOOR_WITH_CUDA
  if (device.is_cuda()) {
    auto stream = c10::cuda::getCurrentCUDAStream(device.index());
    return stream.id() == 0 ? nullptr : stream.stream();
  }
#endif
  return nullptr;
}

inline bool launch(const Plan &plan, const at::Tensor *const *tensors, int n) {
  uint64_t values[MAX_TENSORS];
  void *params[MAX_PARAMS];
  std::memcpy(params, plan.params, sizeof params);
  for (int t = 0; t < n; t++) {
    values[t] = reinterpret_cast<uint64_t>(tensors[t]->const_data_ptr());
    params[plan.pointer_slot[t]] = &values[t];
  }
  int error = launch_kernel(plan.function, plan.grid[0], plan.grid[1], plan.grid[2], plan.threads, 1, 1, plan.shared,
                            current_stream(plan.device), params, nullptr);
  if (error) PyErr_Format(PyExc_RuntimeError, "cuLaunchKernel failed with error %d", error);
  return !error;
}

PyObject *not_served() {
  PyErr_SetString(PyExc_RuntimeError, "the floor serves one shape, and these arguments are not it");
  return nullptr;
}

// rms_norm(x, weight, eps) -> (out, inv_rms)
PyObject *rms_norm(PyObject *, PyObject *const *args, Py_ssize_t nargs) {
  const Plan &plan = rms_norm_plan;
  if (nargs != 3 || !PyFloat_CheckExact(args[2]) || PyFloat_AS_DOUBLE(args[2]) != plan.eps) return not_served();
  const at::Tensor *x = check_tensor(args[0], plan.layout[0], plan.device);
  const at::Tensor *weight = x ? check_tensor(args[1], plan.layout[1], plan.device) : nullptr;
  if (!weight) return not_served();
  at::Tensor out = allocate(plan.layout[2], plan.device);
  at::Tensor inv_rms = allocate(plan.layout[3], plan.device);
  const at::Tensor *tensors[] = {x, weight, &out, &inv_rms};
  if (!launch(plan, tensors, 4)) return nullptr;
  PyObject *first = THPVariable_Wrap(std::move(out));
  PyObject *second = THPVariable_Wrap(std::move(inv_rms));
  PyObject *result = PyTuple_New(2);
  PyTuple_SET_ITEM(result, 0, first);
  PyTuple_SET_ITEM(result, 1, second);
  return result;
}

// silu(x) -> out
PyObject *silu(PyObject *, PyObject *const *args, Py_ssize_t nargs) {
  const Plan &plan = silu_plan;
  if (nargs != 1) return not_served();
  const at::Tensor *x = check_tensor(args[0], plan.layout[0], plan.device);
  if (!x) return not_served();
  at::Tensor out = allocate(plan.layout[1], plan.device);
  const at::Tensor *tensors[] = {x, &out};
  if (!launch(plan, tensors, 2)) return nullptr;
  return THPVariable_Wrap(std::move(out));
}

// configure(name, cubin, kernel, grid, threads, shared, parameters, tensors, eps): cold, once per function.
// parameters: one entry per kernel parameter: an int (the tensor's index) or 8 bytes (an immediate).
// tensors: inputs then outputs of an example call; their layouts become the plan's constants.
PyObject *configure(PyObject *, PyObject *args) {
  const char *name, *kernel;
  Py_buffer cubin;
  unsigned gx, gy, gz, threads, shared;
  PyObject *parameters, *tensors;
  double eps;
  if (!PyArg_ParseTuple(args, "sy*s(III)IIO!O!d", &name, &cubin, &kernel, &gx, &gy, &gz, &threads, &shared,
                        &PyList_Type, &parameters, &PyList_Type, &tensors, &eps)) {
    return nullptr;
  }
  // The image is kept: the buffer must outlive cuModuleLoadData only, but one copy per process is no loss.
  auto *image = new std::string(static_cast<const char *>(cubin.buf), cubin.len);
  PyBuffer_Release(&cubin);
  Plan &plan = std::string(name) == "rms_norm" ? rms_norm_plan : silu_plan;
  const Py_ssize_t n_params = PyList_GET_SIZE(parameters), n_tensors = PyList_GET_SIZE(tensors);
  if (n_params > MAX_PARAMS || n_tensors > MAX_TENSORS || shared > 48 * 1024) {
    return PyErr_Format(PyExc_ValueError, "too many parameters or tensors, or more than 48 KB of shared memory");
  }
  // With a simulated driver loaded under the same name, this finds that one.
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!driver) return PyErr_Format(PyExc_RuntimeError, "no CUDA driver: %s", dlerror());
  auto load = reinterpret_cast<int (*)(void **, const void *)>(dlsym(driver, "cuModuleLoadData"));
  auto find = reinterpret_cast<int (*)(void **, void *, const char *)>(dlsym(driver, "cuModuleGetFunction"));
  launch_kernel = reinterpret_cast<LaunchFn>(dlsym(driver, "cuLaunchKernel"));
  if (!load || !find || !launch_kernel) return PyErr_Format(PyExc_RuntimeError, "the CUDA driver lacks a function");
  void *module = nullptr;
  int error = load(&module, image->data());
  if (!error) error = find(&plan.function, module, kernel);
  if (error) return PyErr_Format(PyExc_RuntimeError, "loading %s failed with CUDA error %d", kernel, error);

  plan.grid[0] = gx, plan.grid[1] = gy, plan.grid[2] = gz, plan.threads = threads, plan.shared = shared;
  plan.eps = eps;
  for (Py_ssize_t i = 0; i < n_params; i++) {
    PyObject *entry = PyList_GET_ITEM(parameters, i);
    plan.values[i] = 0;
    plan.params[i] = &plan.values[i];
    if (PyBytes_Check(entry) && PyBytes_GET_SIZE(entry) == 8) {
      std::memcpy(&plan.values[i], PyBytes_AS_STRING(entry), 8);
    } else {
      const long tensor = PyLong_AsLong(entry);
      if (tensor < 0 || tensor >= n_tensors) return PyErr_Format(PyExc_ValueError, "parameter %zd is neither", i);
      plan.pointer_slot[tensor] = static_cast<int>(i);
    }
  }
  for (Py_ssize_t t = 0; t < n_tensors; t++) {
    const at::Tensor &tensor = THPVariable_Unpack(PyList_GET_ITEM(tensors, t));
    Layout &layout = plan.layout[t];
    if (tensor.dim() > MAX_DIMS) return PyErr_Format(PyExc_ValueError, "tensor %zd has too many dimensions", t);
    layout.dims = static_cast<int>(tensor.dim());
    layout.dtype = tensor.scalar_type();
    for (int d = 0; d < layout.dims; d++) {
      layout.sizes[d] = tensor.size(d), layout.strides[d] = tensor.stride(d);
    }
    plan.device = tensor.device();
  }
#ifndef FLOOR_WITH_CUDA
  if (plan.device.is_cuda()) return PyErr_Format(PyExc_RuntimeError, "built against a PyTorch without CUDA");
#endif
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"configure", configure, METH_VARARGS, nullptr},
    {"rms_norm", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(rms_norm)), METH_FASTCALL, nullptr},
    {"silu", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(silu)), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "_floor", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__floor() {
  return PyModule_Create(&module);
}
