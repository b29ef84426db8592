// One launch of a kernel (x, y, n), again and again, timed here: bare, as a careful person writes it, and through the
// services that generated modules call, with the checks that they make. Both look at the alignment of both pointers and at
// n, find the current stream, fill the parameters and launch.
#include <Python.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/python_variable.h>

#include <chrono>
#include <cstring>

#include "tdh_rt.h"

#ifdef FLOOR_WITH_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

namespace {

using LaunchFn = int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                         void **);
LaunchFn launch_kernel = nullptr;
const tdh_rt_api *rt = nullptr;
tdh_kernel kernel;

inline void *current_stream(c10::Device device) {
#ifdef FLOOR_WITH_CUDA
  if (device.is_cuda()) {
    auto stream = c10::cuda::getCurrentCUDAStream(device.index());
    return stream.id() == 0 ? nullptr : stream.stream();
  }
#endif
  return nullptr;
}

inline bool aligned(const void *pointer) {
  return (reinterpret_cast<uintptr_t>(pointer) & 15) == 0;
}

// Each returns whether it launched. A separate function, so that nothing is carried from one launch to the next.
[[gnu::noinline]] bool bare(PyObject *x, PyObject *y, int64_t n, unsigned grid) {
  const at::Tensor &from = THPVariable_Unpack(x), &to = THPVariable_Unpack(y);
  void *p_x = from.mutable_data_ptr(), *p_y = to.mutable_data_ptr();
  uint64_t none = 0;
  int32_t k_n = static_cast<int32_t>(n);
  if (!aligned(p_x) || !aligned(p_y) || n == 1 || n != k_n || (n & 15) != 0) return false;
  void *params[] = {&p_x, &p_y, &k_n, &none, &none};
  return launch_kernel(kernel.function[0], grid, 1, 1, kernel.threads, 1, 1, kernel.shared,
                       current_stream(from.device()), params, nullptr) == 0;
}

[[gnu::noinline]] bool ours(PyObject *x, PyObject *y, int64_t n, int64_t grid) {
  tdh_launch_env env;
  if (rt->launch_env(&env) != 0 || env.device != 0) return false;
  void *p_x = rt->data_ptr(rt->unwrap(x)), *p_y = rt->data_ptr(rt->unwrap(y));
  static uint64_t none = 0;
  if (!aligned(p_x) || !aligned(p_y) || n == 1 || n < INT32_MIN || n > INT32_MAX || (n & 15) != 0) return false;
  int32_t k_n = static_cast<int32_t>(n);
  void *params[] = {&p_x, &p_y, &k_n, &none, &none};
  return rt->launch(&kernel, &env, grid, 1, 1, params) == 0;
}

// configure(function, name, threads, shared): a CUfunction on device 0.
PyObject *configure(PyObject *, PyObject *args) {
  unsigned long long function;
  const char *name;
  static std::string kept;
  if (!PyArg_ParseTuple(args, "KsII", &function, &name, &kernel.threads, &kernel.shared)) return nullptr;
  kept = name;
  kernel.name = kept.c_str();
  kernel.num_ctas = 1;
  kernel.function[0] = reinterpret_cast<void *>(function);
  rt = static_cast<const tdh_rt_api *>(PyCapsule_Import(TDH_RT_CAPSULE, 0));
  if (rt == nullptr) return nullptr;
  if (rt->abi != TDH_ABI_VERSION) return PyErr_Format(PyExc_RuntimeError, "built for another ABI than the library's");
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  launch_kernel = driver ? reinterpret_cast<LaunchFn>(dlsym(driver, "cuLaunchKernel")) : nullptr;
  if (launch_kernel == nullptr) return PyErr_Format(PyExc_RuntimeError, "no CUDA driver");
  Py_RETURN_NONE;
}

// run(ours, x, y, n, grid, count) -> nanoseconds of so many launches, none of which waits for the device.
PyObject *run(PyObject *, PyObject *args) {
  int through_services, count;
  PyObject *x, *y;
  long long n;
  unsigned grid;
  if (!PyArg_ParseTuple(args, "pOOLIi", &through_services, &x, &y, &n, &grid, &count)) return nullptr;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; i++) {
    if (through_services ? ours(x, y, n, grid) : bare(x, y, n, grid)) continue;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "not launched");
    return nullptr;
  }
  const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - start;
  return PyLong_FromLongLong(taken.count());
}

PyMethodDef methods[] = {
    {"configure", configure, METH_VARARGS, nullptr},
    {"run", run, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "_launch_loop", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__launch_loop() {
  return PyModule_Create(&module);
}
