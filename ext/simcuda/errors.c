/* Names and texts of CUresult codes, worded as the real driver words them. */
#include <string.h>

#include "internal.h"

#define ERRORS(X)                                                                                       \
  X(CUDA_SUCCESS, "no error")                                                                           \
  X(CUDA_ERROR_INVALID_VALUE, "invalid argument")                                                       \
  X(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                                          \
  X(CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                                 \
  X(CUDA_ERROR_DEINITIALIZED, "driver shutting down")                                                   \
  X(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library")                                           \
  X(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable")                 \
  X(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                         \
  X(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                                \
  X(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")                                         \
  X(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                                               \
  X(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device")           \
  X(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered")                                \
  X(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed")                                             \
  X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "PTX JIT compiler library not found")                            \
  X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain.") \
  X(CUDA_ERROR_INVALID_SOURCE, "device kernel image is invalid")                                        \
  X(CUDA_ERROR_FILE_NOT_FOUND, "file not found")                                                        \
  X(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "shared object initialization failed")                        \
  X(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS")                \
  X(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                                               \
  X(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state")                 \
  X(CUDA_ERROR_NOT_FOUND, "named symbol not found")                                                     \
  X(CUDA_ERROR_NOT_READY, "device not ready")                                                           \
  X(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                             \
  X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch")                      \
  X(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated")                               \
  X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process")             \
  X(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")                                            \
  X(CUDA_ERROR_ASSERT, "device-side assert triggered")                                                  \
  X(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error")                                            \
  X(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered")                           \
  X(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address")                                                \
  X(CUDA_ERROR_INVALID_ADDRESS_SPACE, "operation not supported on global/shared address space")         \
  X(CUDA_ERROR_INVALID_PC, "invalid program counter")                                                   \
  X(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")                                             \
  X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch")                   \
  X(CUDA_ERROR_NOT_PERMITTED, "operation not permitted")                                                \
  X(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                                                \
  X(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized")                                          \
  X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")          \
  X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture")   \
  X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,                                                                 \
    "operation would make the legacy stream depend on a capturing blocking stream")                     \
  X(CUDA_ERROR_TIMEOUT, "wait operation timed out")                                                     \
  X(CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster misconfiguration")                                        \
  X(CUDA_ERROR_FUNCTION_NOT_LOADED, "the function is not loaded")                                       \
  X(CUDA_ERROR_UNKNOWN, "unknown error")

static const struct {
  CUresult code;
  const char *name, *text;
} errors[] = {
#define X(code, text) {code, #code, text},
    ERRORS(X)
#undef X
};

#define N_ERRORS (sizeof errors / sizeof errors[0])

SIM_CU cuGetErrorName(CUresult error, const char **name) {
  for (size_t i = 0; i < N_ERRORS; i++)
    if (errors[i].code == error) {
      *name = errors[i].name;
      return CUDA_SUCCESS;
    }
  *name = NULL;
  return CUDA_ERROR_INVALID_VALUE;
}

SIM_CU cuGetErrorString(CUresult error, const char **text) {
  for (size_t i = 0; i < N_ERRORS; i++)
    if (errors[i].code == error) {
      *text = errors[i].text;
      return CUDA_SUCCESS;
    }
  *text = NULL;
  return CUDA_ERROR_INVALID_VALUE;
}

int sim_error_code(const char *name) {
  for (size_t i = 0; i < N_ERRORS; i++)
    if (strcmp(errors[i].name, name) == 0) return errors[i].code;
  return -1;
}
