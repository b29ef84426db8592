/* The machine (devices of one architecture), primary contexts, and what CUDA keeps for each thread: the current context
 * and, as PyTorch does, a current stream for each device. */
#include <string.h>

#include "internal.h"

sim_machine sim_the_machine = {.arch = 90, .shared_default = 49152, .shared_optin = 232448, .shared_per_sm = 233472};

static int n_devices = 1;
static _Atomic bool initialized;
static struct CUctx_st primary[SIM_MAX_DEVICES];
static _Thread_local CUcontext current;
static _Thread_local uint64_t streams[SIM_MAX_DEVICES];

#define MAX_STACK 32
static _Thread_local CUcontext stack[MAX_STACK];
static _Thread_local int stack_depth;

/* Shared memory in bytes: what one block may opt in to, and what a multiprocessor has (CUDA C++ Programming Guide). */
static const struct {
  int arch, optin, per_sm;
} shared_sizes[] = {
    {70, 98304, 98304},    {72, 98304, 98304},    {75, 65536, 65536},    {80, 166912, 167936},
    {86, 101376, 102400},  {87, 166912, 167936},  {89, 101376, 102400},  {90, 232448, 233472},
    {100, 232448, 233472}, {103, 232448, 233472}, {120, 101376, 102400},
};

void sim_configure(int devices, int arch) {
  n_devices = devices < 1 ? 1 : devices > SIM_MAX_DEVICES ? SIM_MAX_DEVICES : devices;
  sim_the_machine.arch = arch;
  for (size_t i = 0; i < sizeof shared_sizes / sizeof shared_sizes[0]; i++)
    if (shared_sizes[i].arch == arch) {
      sim_the_machine.shared_optin = shared_sizes[i].optin;
      sim_the_machine.shared_per_sm = shared_sizes[i].per_sm;
    }
}

int sim_device_count(void) {
  return n_devices;
}
bool sim_initialized(void) {
  return atomic_load_explicit(&initialized, memory_order_relaxed);
}
CUcontext sim_thread_context(void) {
  return current;
}
int sim_device_of(CUcontext context) {
  return context != NULL ? context->device : 0;
}

static CUcontext primary_context(int device) {
  primary[device].device = device;
  return &primary[device];
}

static bool is_device(int device) {
  return device >= 0 && device < n_devices;
}

/* ---- control ---- */

int sim_current_device(void) {
  return sim_device_of(current);
}

uint64_t sim_current_stream(int device) {
  return device >= 0 && device < SIM_MAX_DEVICES ? streams[device] : 0;
}

void sim_set_device(int device) {
  if (is_device(device)) current = primary_context(device);
}

void sim_set_stream(int device, uint64_t stream) {
  if (device >= 0 && device < SIM_MAX_DEVICES) streams[device] = stream;
}

int sim_has_context(void) {
  return current != NULL;
}
void sim_clear_context(void) {
  current = NULL;
}

/* ---- driver: devices ---- */

SIM_CU cuInit(unsigned flags) {
  SIM_ENTER(cuInit);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  atomic_store(&initialized, true);
  return CUDA_SUCCESS;
}

SIM_CU cuDriverGetVersion(int *version) {
  *version = 13000;
  return CUDA_SUCCESS;
}

SIM_CU cuDeviceGet(CUdevice *device, int ordinal) {
  if (!sim_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

SIM_CU cuDeviceGetCount(int *count) {
  if (!sim_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  *count = n_devices;
  return CUDA_SUCCESS;
}

SIM_CU cuDeviceGetName(char *name, int size, CUdevice device) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (size > 0) {
    strncpy(name, "simulated CUDA device", size - 1);
    name[size - 1] = 0;
  }
  return CUDA_SUCCESS;
}

#undef cuDeviceTotalMem
SIM_CU cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = (size_t)64 << 30;
  return CUDA_SUCCESS;
}

SIM_CU cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  int hopper = sim_the_machine.arch >= 90;
  switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      *value = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      *value = 64;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      *value = 0x7fffffff;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      *value = 65535;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      *value = sim_the_machine.shared_default;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = sim_the_machine.shared_optin;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = sim_the_machine.shared_per_sm;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      *value = 65536;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = SIM_MULTIPROCESSORS;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      *value = 2048;
      break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      *value = 1980000;
      break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      *value = 3201000;
      break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      *value = 6016;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = sim_the_machine.arch / 10;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = sim_the_machine.arch % 10;
      break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
      *value = hopper;
      break;
    default:
      *value = 0;
      break;
  }
  return CUDA_SUCCESS;
}

/* ---- driver: contexts ---- */

SIM_CU cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  SIM_ENTER(cuDevicePrimaryCtxRetain);
  if (!sim_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *context = primary_context(device);
  atomic_fetch_add(&primary[device].retained, 1);
  return CUDA_SUCCESS;
}

#undef cuDevicePrimaryCtxRelease
SIM_CU cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  SIM_ENTER(cuDevicePrimaryCtxRelease);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (atomic_load(&primary[device].retained) == 0) return CUDA_ERROR_INVALID_CONTEXT;
  atomic_fetch_sub(&primary[device].retained, 1);
  return CUDA_SUCCESS;
}

SIM_CU cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = atomic_load(&primary[device].retained) > 0;
  return CUDA_SUCCESS;
}

SIM_CU cuCtxGetCurrent(CUcontext *context) {
  if (!sim_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  *context = current;
  return CUDA_SUCCESS;
}

SIM_CU cuCtxSetCurrent(CUcontext context) {
  SIM_ENTER(cuCtxSetCurrent);
  if (!sim_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  current = context;
  return CUDA_SUCCESS;
}

#undef cuCtxPushCurrent
SIM_CU cuCtxPushCurrent_v2(CUcontext context) {
  if (context == NULL) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack_depth == MAX_STACK) return CUDA_ERROR_OUT_OF_MEMORY;
  stack[stack_depth++] = current;
  current = context;
  return CUDA_SUCCESS;
}

#undef cuCtxPopCurrent
SIM_CU cuCtxPopCurrent_v2(CUcontext *context) {
  if (stack_depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != NULL) *context = current;
  current = stack[--stack_depth];
  return CUDA_SUCCESS;
}

SIM_CU cuCtxGetDevice(CUdevice *device) {
  if (current == NULL) return CUDA_ERROR_INVALID_CONTEXT;
  *device = current->device;
  return CUDA_SUCCESS;
}

SIM_CU cuCtxGetApiVersion(CUcontext context, unsigned *version) {
  (void)context;
  *version = 3020;
  return CUDA_SUCCESS;
}

SIM_CU cuCtxSynchronize(void) {
  SIM_ENTER(cuCtxSynchronize);
  return current != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_CU cuCtxGetLimit(size_t *value, CUlimit limit) {
  (void)limit;
  *value = 0;
  return current != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_CU cuCtxSetLimit(CUlimit limit, size_t value) {
  (void)limit, (void)value;
  return current != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* ---- driver: streams. A stream is only a number; work is done when its launch returns. ---- */

SIM_CU cuStreamSynchronize(CUstream stream) {
  SIM_ENTER(cuStreamSynchronize);
  (void)stream;
  return current != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_CU cuStreamQuery(CUstream stream) {
  (void)stream;
  return current != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_CU cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  (void)stream;
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
