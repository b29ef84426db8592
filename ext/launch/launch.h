// What the module's Python face needs of launching besides the services of tdh_rt.h.
#ifndef TDH_LAUNCH_LAUNCH_H
#define TDH_LAUNCH_LAUNCH_H

#include <Python.h>

#include <cstdint>

#include "abi/tdh_rt.h"

namespace trident_hook {

// One piece of scratch memory for one launch.
struct scratch_buffer {
  PyObject *owner = nullptr;  // new reference: what the allocator returned, which has to outlive the launch
  void *address = nullptr;
};

// Calls Triton's allocator of that kind (TDH_SCRATCH_*), as Triton's own launcher does, for `programs` programs. 0, or -1
// with an exception. Runs Python code; *out is to be cleared by the caller either way.
int scratch_allocate(const tdh_kernel *kernel, int kind, int64_t programs, void *stream, scratch_buffer *out);

// Addresses of `int (void)` and `uint64_t (int device)` of a simulated driver, or 0, 0 to go back to CUDA.
void simulated_set(uintptr_t current_device, uintptr_t current_stream);

PyObject *py_launch_callbacks(PyObject *, PyObject *args);

}  // namespace trident_hook

#endif
