/* What the driver knows of pointers. By default every address is device memory; in strict mode only registered ranges
 * are (tests register their tensors, cuMemAlloc registers itself), as for a process that mixes host and device tensors. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

typedef struct {
  uint64_t start, end;
  int device;
} range;

static range *ranges;
static int n_ranges, capacity;
static _Atomic int strict;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void sim_strict_pointers(int on) {
  atomic_store(&strict, on != 0);
}

int sim_add_range(uint64_t address, uint64_t size, int device) {
  int result = 0;
  pthread_mutex_lock(&lock);
  if (n_ranges == capacity) {
    range *grown = realloc(ranges, (capacity ? 2 * capacity : 64) * sizeof *ranges);
    if (grown != NULL) {
      ranges = grown;
      capacity = capacity ? 2 * capacity : 64;
    } else {
      result = -1;
    }
  }
  if (result == 0) ranges[n_ranges++] = (range){address, address + size, device};
  pthread_mutex_unlock(&lock);
  return result;
}

int sim_register_range(uint64_t address, uint64_t size, int device) {
  return sim_add_range(address, size, device);
}

int sim_unregister_range(uint64_t address) {
  int result = -1;
  pthread_mutex_lock(&lock);
  for (int i = n_ranges - 1; i >= 0 && result != 0; i--)
    if (ranges[i].start == address) {
      ranges[i] = ranges[--n_ranges];
      result = 0;
    }
  pthread_mutex_unlock(&lock);
  return result;
}

void sim_clear_ranges(void) {
  pthread_mutex_lock(&lock);
  n_ranges = 0;
  pthread_mutex_unlock(&lock);
}

static bool find_range(uint64_t address, range *out) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (int i = n_ranges - 1; i >= 0 && !found; i--)
    if (address >= ranges[i].start && address < ranges[i].end) {
      *out = ranges[i];
      found = true;
    }
  pthread_mutex_unlock(&lock);
  return found;
}

SIM_CU cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr pointer) {
  SIM_ENTER(cuPointerGetAttribute);
  CUcontext context = sim_thread_context(); /* may be NULL: addresses are unified, no context is needed */
  range it = {pointer, pointer + 1, sim_device_of(context)};
  bool only_address = attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER && !atomic_load(&strict);
  if (!only_address && !find_range(pointer, &it) && atomic_load(&strict)) return CUDA_ERROR_INVALID_VALUE;
  switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *(CUdeviceptr *)out = pointer;
      break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return CUDA_ERROR_INVALID_VALUE; /* device memory has none */
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *(CUcontext *)out = context;
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *(unsigned *)out = CU_MEMORYTYPE_DEVICE;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *(int *)out = it.device;
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *(unsigned char *)out = 0;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *(CUdeviceptr *)out = it.start;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *(size_t *)out = it.end - it.start;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

#undef cuMemAlloc
SIM_CU cuMemAlloc_v2(CUdeviceptr *out, size_t size) {
  SIM_ENTER(cuMemAlloc);
  CUcontext context = sim_thread_context();
  if (context == NULL) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == NULL || size == 0) return CUDA_ERROR_INVALID_VALUE;
  void *memory = aligned_alloc(512, (size + 511) / 512 * 512);
  if (memory == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = (CUdeviceptr)(uintptr_t)memory;
  return sim_add_range(*out, size, sim_device_of(context)) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

#undef cuMemFree
SIM_CU cuMemFree_v2(CUdeviceptr pointer) {
  SIM_ENTER(cuMemFree);
  if (pointer == 0) return CUDA_SUCCESS;
  if (sim_unregister_range(pointer) != 0) return CUDA_ERROR_INVALID_VALUE;
  free((void *)(uintptr_t)pointer);
  return CUDA_SUCCESS;
}

#undef cuMemcpyHtoD
SIM_CU cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) {
  memcpy((void *)(uintptr_t)to, from, size);
  return CUDA_SUCCESS;
}

#undef cuMemcpyDtoH
SIM_CU cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) {
  memcpy(to, (const void *)(uintptr_t)from, size);
  return CUDA_SUCCESS;
}
