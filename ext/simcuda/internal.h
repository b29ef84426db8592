/* Shared by the files of the simulated driver; nothing here is exported. */
#ifndef SIMCUDA_INTERNAL_H
#define SIMCUDA_INTERNAL_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simcuda.h"

#define SIM_CU SIM_API CUresult
#define SIM_MULTIPROCESSORS 132
#define SIM_MAX_PARAMS 1024
#define SIM_PARAM_BYTES 32764 /* the largest parameter space of any architecture */

/* ---- calls.c: one counter and one switch for each entry point that does something ---- */
/* clang-format off */
#define SIM_CALLS(X) \
  X(cuInit) X(cuCtxSetCurrent) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuModuleLoadData) \
  X(cuModuleUnload) X(cuModuleGetFunction) X(cuFuncGetAttribute) X(cuFuncSetAttribute) \
  X(cuFuncSetCacheConfig) X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuPointerGetAttribute) \
  X(cuTensorMapEncodeTiled) X(cuTensorMapReplaceAddress) X(cuMemAlloc) X(cuMemFree) X(cuStreamSynchronize) \
  X(cuCtxSynchronize) X(cuGetProcAddress)
/* clang-format on */

enum sim_call {
#define X(name) SIM_CALL_##name,
  SIM_CALLS(X)
#undef X
      SIM_CALL_COUNT
};

extern _Atomic uint64_t sim_counts[SIM_CALL_COUNT] __attribute__((visibility("hidden")));
extern _Atomic int sim_injections_armed __attribute__((visibility("hidden")));
CUresult sim_injected_result(enum sim_call call) __attribute__((visibility("hidden")));

static inline CUresult sim_enter(enum sim_call call) {
  atomic_fetch_add_explicit(&sim_counts[call], 1, memory_order_relaxed);
  if (__builtin_expect(atomic_load_explicit(&sim_injections_armed, memory_order_relaxed) != 0, 0))
    return sim_injected_result(call);
  return CUDA_SUCCESS;
}

/* First statement of an entry point: counts the call and returns an injected failure. */
#define SIM_ENTER(name)                                  \
  do {                                                   \
    CUresult sim_result_ = sim_enter(SIM_CALL_##name);   \
    if (sim_result_ != CUDA_SUCCESS) return sim_result_; \
  } while (0)

/* ---- device.c: the machine, contexts, per-thread state ---- */
#pragma GCC visibility push(hidden)

struct CUctx_st {
  int device;
  _Atomic int retained;
};

typedef struct {
  int arch; /* 10 * major + minor */
  int shared_default, shared_optin, shared_per_sm;
} sim_machine;

extern sim_machine sim_the_machine;
bool sim_initialized(void);
CUcontext sim_thread_context(void);
int sim_device_of(CUcontext context);

/* ---- elf.c: what a CUBIN says about itself and its kernels ---- */
typedef struct {
  uint32_t offset, size;
} sim_param;

typedef struct {
  int n_params;
  sim_param params[SIM_MAX_PARAMS];
  int static_shared, registers, local_bytes;
  uint32_t required_block[3]; /* .reqntid; zeros when absent */
  uint32_t max_threads;       /* that a block can have with the kernel's registers, whatever .reqntid says */
  uint32_t cluster[3];        /* .reqnctapercluster; zeros when absent */
} sim_kernel_info;

size_t sim_elf_size(const void *image);           /* 0: not a CUBIN */
int sim_elf_arch(const void *image, bool *exact); /* 10 * major + minor; *exact: runs on that one only ("90a") */
bool sim_elf_kernel(const unsigned char *image, const char *name, sim_kernel_info *info);

/* ---- module.c ---- */
struct CUmod_st;
struct CUfunc_st {
  _Atomic(struct CUmod_st *) module; /* NULL once the module was unloaded: the handle is dead, its memory is not */
  struct CUfunc_st *next;
  CUcontext context;
  int image;
  const char *name;
  int max_dynamic_shared, nonportable_cluster, cache_config;
  uint32_t *offsets, *sizes; /* n_params each */
  uint32_t blob_size;
  sim_kernel_info info;
};

/* ---- record.c ---- */
extern _Atomic int sim_recording;
extern _Atomic(sim_callback) sim_the_callback;
sim_launch *sim_copy_launch(const sim_launch *launch);
void sim_log_launch(sim_launch *launch); /* takes ownership */

/* ---- pyguard.c ---- */
int sim_call_guarded(sim_callback callback, const sim_launch *launch);

/* ---- pointer.c ---- */
int sim_add_range(uint64_t address, uint64_t size, int device);

#pragma GCC visibility pop
#endif
