// Scratch memory of a launch. Triton's allocators are Python callables that the user may set at any time, the global one for
// each context (of contextvars): both are looked up anew for every launch, where Triton's own launcher looks.
#include <Python.h>

#include "launch/driver.h"
#include "launch/launch.h"

namespace trident_hook {
namespace {

constexpr const char *holder_names[] = {"_allocator", "_profile_allocator"};

// What `holder.get()` gives now. New reference, or NULL with an exception.
PyObject *allocator_of(int kind) {
  static PyObject *module = nullptr;  // for the life of the process
  if (module == nullptr) module = PyImport_ImportModule("triton.runtime._allocation");
  if (module == nullptr) return nullptr;
  PyObject *holder = PyObject_GetAttrString(module, holder_names[kind]);
  if (holder == nullptr) return nullptr;
  PyObject *allocator = PyObject_CallMethod(holder, "get", nullptr);
  Py_DECREF(holder);
  return allocator;
}

// A number, None, or an object with data_ptr(). Whether that was understood; an exception is set where it was not.
bool read_address(PyObject *buffer, uint64_t *out) {
  *out = 0;
  if (buffer == Py_None) return true;
  PyObject *number = PyLong_Check(buffer) ? Py_NewRef(buffer) : PyObject_CallMethod(buffer, "data_ptr", nullptr);
  if (number == nullptr || !PyLong_Check(number)) {
    Py_XDECREF(number);
    PyErr_Format(PyExc_TypeError,
                 "the allocator gave a %s, which is neither an address nor has a data_ptr() that is one",
                 Py_TYPE(buffer)->tp_name);
    return false;
  }
  *out = PyLong_AsUnsignedLongLong(number);
  Py_DECREF(number);
  return !PyErr_Occurred();
}

}  // namespace

int scratch_allocate(const tdh_kernel *kernel, int kind, int64_t programs, void *stream, scratch_buffer *out) {
  if (kernel->scratch_size[kind] == 0) return 0;
  PyObject *allocator = allocator_of(kind);
  if (allocator == nullptr) return -1;
  out->owner = PyObject_CallFunction(allocator, "LIK", static_cast<long long>(programs * kernel->scratch_size[kind]),
                                     static_cast<unsigned>(kernel->scratch_align[kind]),
                                     static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(stream)));
  Py_DECREF(allocator);
  uint64_t address = 0;
  if (out->owner == nullptr || !read_address(out->owner, &address)) return -1;
  if (address == 0 || PyLong_Check(out->owner)) {  // an address that is given as a number is not looked at by Triton
    out->address = reinterpret_cast<void *>(address);
    return 0;
  }
  uint64_t on_device = address;
  const auto code = driver::cuPointerGetAttribute(&on_device, driver::pointer_attribute_device_pointer, address);
  if (code == driver::invalid_value) {
    PyErr_Format(PyExc_ValueError, "%s: the allocator gave memory that the GPU cannot reach (a CPU tensor?)",
                 kernel->name);
    return -1;
  }
  if (code != driver::success &&
      code != driver::invalid_context) {  // a thread without a context gets one at the launch
    PyErr_Format(PyExc_RuntimeError, "Triton Error [CUDA]: %s (cuPointerGetAttribute returned %s; kernel %s)",
                 driver::error_text(code), driver::error_name(code), kernel->name);
    return -1;
  }
  out->address = reinterpret_cast<void *>(code == driver::success ? on_device : address);
  return 0;
}

}  // namespace trident_hook
