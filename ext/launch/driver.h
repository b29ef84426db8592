// The CUDA driver functions that launching needs, found in libcuda.so.1 at first use: importing this module touches no
// driver. No cuda.h: the few types are declared here, with the values that the driver API has fixed.
#ifndef TDH_LAUNCH_DRIVER_H
#define TDH_LAUNCH_DRIVER_H

#include <cstdint>

namespace trident_hook::driver {

using result = int;  // CUresult
using context = void *;
using stream = void *;
using function = void *;

enum : result {
  success = 0,
  invalid_value = 1,
  invalid_context = 201,
  invalid_handle = 400,
  library_absent = -1,   // ours: no libcuda.so.1
  function_absent = -2,  // ours: this libcuda.so.1 is too old for the call
};

enum : int {
  pointer_attribute_device_pointer = 3,
  attribute_cooperative = 2,
  attribute_cluster_dimension = 4,
  attribute_cluster_scheduling = 5,
  attribute_programmatic_stream_serialization = 6,
  cluster_scheduling_spread = 1,
  function_nonportable_cluster_size = 14,
  tensor_map_no_interleave = 0,
  tensor_map_l2_promotion_128b = 2,
};

// CUlaunchAttribute: the value is a union of 64 bytes.
struct alignas(8) launch_attribute {
  int id;
  uint32_t value_pad_;
  uint32_t value[16];
};
static_assert(sizeof(launch_attribute) == 72);

// CUlaunchConfig.
struct launch_config {
  unsigned grid[3], block[3], shared;
  stream on;
  launch_attribute *attributes;
  unsigned n_attributes;
};
static_assert(sizeof(launch_config) == 56);

// Each function once: name, parameters, the CUDA version that brought it.
#define TDH_DRIVER_FUNCTIONS(X)                                                                                        \
  X(cuLaunchKernel, 4.0, function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, stream,       \
    void **, void **)                                                                                                  \
  X(cuLaunchKernelEx, 11.8, const launch_config *, function, void **, void **)                                         \
  X(cuGetErrorName, 6.0, result, const char **)                                                                        \
  X(cuGetErrorString, 6.0, result, const char **)                                                                      \
  X(cuCtxGetCurrent, 4.0, context *)                                                                                   \
  X(cuCtxSetCurrent, 4.0, context)                                                                                     \
  X(cuDevicePrimaryCtxRetain, 7.0, context *, int)                                                                     \
  X(cuFuncSetAttribute, 9.0, function, int, int)                                                                       \
  X(cuPointerGetAttribute, 4.0, void *, int, uint64_t)                                                                 \
  X(cuStreamIsCapturing, 10.0, stream, int *)                                                                          \
  X(cuTensorMapEncodeTiled, 12.0, void *, int, unsigned, void *, const uint64_t *, const uint64_t *, const uint32_t *, \
    const uint32_t *, int, int, int, int)

// Calls: any thread, with or without the GIL. Each returns CUresult, or library_absent or function_absent.
#define TDH_DECLARE(name, since, ...) extern result (*name)(__VA_ARGS__);
TDH_DRIVER_FUNCTIONS(TDH_DECLARE)
#undef TDH_DECLARE

// Text of an error, our own included. Static storage.
const char *error_name(result code);
const char *error_text(result code);

}  // namespace trident_hook::driver

#endif
