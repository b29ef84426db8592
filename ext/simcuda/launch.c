/* cuLaunchKernel and cuLaunchKernelEx: refuses what the driver refuses, slices the parameters with the CUBIN's own
 * layout, records, and hands the launch to the callback. With recording off and no callback: no lock, no allocation. */
#include <string.h>

#include "internal.h"

#define MAX_GRID_X 0x7fffffffu
#define MAX_GRID_YZ 65535u
#define MAX_BLOCK_Z 64u
#define MAX_THREADS 1024u
#define MAX_THREADS_PER_SM 2048u
#define MAX_BLOCKS_PER_SM 32u
#define LAST_KNOWN_ATTRIBUTE 16 /* of driver 13.0 */
#define MAX_PORTABLE_CLUSTER 8u
#define MAX_CLUSTER 16u

static CUresult check_cluster(CUfunction function, const sim_launch *launch) {
  uint32_t cluster[3] = {1, 1, 1};
  if (function->info.cluster[0] != 0) memcpy(cluster, function->info.cluster, sizeof cluster);
  for (int i = 0; i < launch->n_attrs; i++)
    if (launch->attr_id[i] == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const uint32_t *asked = launch->attr_value[i];
      if (function->info.cluster[0] != 0 && memcmp(asked, cluster, sizeof cluster) != 0)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
      memcpy(cluster, asked, sizeof cluster);
    }
  uint64_t size = 1;
  for (int i = 0; i < 3; i++) {
    if (cluster[i] == 0 || launch->grid[i] % cluster[i] != 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    size *= cluster[i];
  }
  if (size > MAX_CLUSTER || (size > MAX_PORTABLE_CLUSTER && !function->nonportable_cluster))
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  return CUDA_SUCCESS;
}

/* How many blocks the device holds at a time, roughly: by threads, registers and shared memory. */
static uint64_t resident_blocks(CUfunction function, uint64_t threads, uint32_t shared) {
  uint64_t blocks = MAX_THREADS_PER_SM / threads, other;
  if (blocks > MAX_BLOCKS_PER_SM) blocks = MAX_BLOCKS_PER_SM;
  if (function->info.registers > 0 && (other = 65536 / (function->info.registers * threads)) < blocks) blocks = other;
  uint64_t of_a_block = (uint64_t)shared + function->info.static_shared;
  if (of_a_block > 0 && (other = sim_the_machine.shared_per_sm / of_a_block) < blocks) blocks = other;
  return blocks * SIM_MULTIPROCESSORS;
}

static CUresult check_launch(CUfunction function, const sim_launch *launch) {
  const uint32_t *grid = launch->grid, *block = launch->block, *required = function->info.required_block;
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || block[0] == 0 || block[1] == 0 || block[2] == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (grid[0] > MAX_GRID_X || grid[1] > MAX_GRID_YZ || grid[2] > MAX_GRID_YZ) return CUDA_ERROR_INVALID_VALUE;
  uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
  if (block[2] > MAX_BLOCK_Z || threads > MAX_THREADS) return CUDA_ERROR_INVALID_VALUE;
  if (required[0] != 0 && (block[0] != required[0] || block[1] != required[1] || block[2] != required[2]))
    return CUDA_ERROR_INVALID_VALUE;
  if ((int64_t)launch->shared > function->max_dynamic_shared) return CUDA_ERROR_INVALID_VALUE;
  if (threads > function->info.max_threads) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  for (int i = 0; i < launch->n_attrs; i++)
    if (launch->attr_id[i] < 0 || launch->attr_id[i] > LAST_KNOWN_ATTRIBUTE)
      return CUDA_ERROR_INVALID_VALUE;
    else if (launch->attr_id[i] == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && launch->attr_value[i][0] &&
             (uint64_t)grid[0] * grid[1] * grid[2] > resident_blocks(function, threads, launch->shared))
      return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  if (launch->n_attrs > 0 || function->info.cluster[0] != 0) return check_cluster(function, launch);
  return CUDA_SUCCESS;
}

/* The caller's parameters as one buffer. Returns NULL when there are none to read. `scratch` holds blob_size bytes. */
static const unsigned char *gather(CUfunction function, void **params, void **extra, unsigned char *scratch) {
  if (params != NULL) {
    memset(scratch, 0, function->blob_size);
    for (int i = 0; i < function->info.n_params; i++)
      memcpy(scratch + function->offsets[i], params[i], function->sizes[i]);
    return scratch;
  }
  const void *buffer = NULL;
  size_t size = 0;
  for (; extra != NULL && extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[1];
    else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
      size = *(size_t *)extra[1];
  }
  if (function->info.n_params == 0) return scratch;
  return buffer != NULL && size >= function->blob_size ? buffer : NULL;
}

static CUresult launch_checked(sim_launch *launch, CUfunction function, void **params, void **extra) {
  if (function == NULL || atomic_load_explicit(&function->module, memory_order_relaxed) == NULL)
    return CUDA_ERROR_INVALID_HANDLE;
  CUcontext context = sim_thread_context();
  if (context == NULL) return CUDA_ERROR_INVALID_CONTEXT;
  if (function->context != context) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = check_launch(function, launch);
  if (result != CUDA_SUCCESS) return result;
  if (function->blob_size > SIM_PARAM_BYTES) return CUDA_ERROR_INVALID_VALUE;
  unsigned char scratch[function->blob_size + 1];
  launch->blob = gather(function, params, extra, scratch);
  if (launch->blob == NULL) return CUDA_ERROR_INVALID_VALUE;

  int recording = atomic_load_explicit(&sim_recording, memory_order_relaxed);
  sim_callback callback = atomic_load_explicit(&sim_the_callback, memory_order_relaxed);
  if (!recording && callback == NULL) return CUDA_SUCCESS;

  launch->name = function->name;
  launch->function = (uint64_t)(uintptr_t)function;
  launch->image = function->image;
  launch->device = sim_device_of(context);
  launch->max_dynamic_shared = function->max_dynamic_shared;
  launch->nonportable_cluster = function->nonportable_cluster;
  launch->n_params = function->info.n_params;
  launch->blob_size = function->blob_size;
  launch->param_offset = function->offsets;
  launch->param_size = function->sizes;
  if (recording) {
    sim_launch *copy = sim_copy_launch(launch);
    if (copy == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_log_launch(copy);
  }
  if (callback != NULL && sim_call_guarded(callback, launch) != 0) return CUDA_ERROR_LAUNCH_FAILED;
  return CUDA_SUCCESS;
}

SIM_CU cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **params,
                      void **extra) {
  SIM_ENTER(cuLaunchKernel);
  sim_launch launch;
  launch.grid[0] = grid_x, launch.grid[1] = grid_y, launch.grid[2] = grid_z;
  launch.block[0] = block_x, launch.block[1] = block_y, launch.block[2] = block_z;
  launch.shared = shared;
  launch.stream = (uint64_t)(uintptr_t)stream;
  launch.via_ex = 0;
  launch.n_attrs = 0;
  return launch_checked(&launch, function, params, extra);
}

/* How many 32-bit words of an attribute's value mean something; the rest of the union may be uninitialised. */
static int attribute_words(CUlaunchAttributeID id) {
  switch ((int)id) {
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      return 3;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      return 1;
    default:
      return SIM_ATTR_WORDS;
  }
}

SIM_CU cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
  SIM_ENTER(cuLaunchKernelEx);
  if (config == NULL || config->numAttrs > SIM_MAX_ATTRS) return CUDA_ERROR_INVALID_VALUE;
  sim_launch launch;
  launch.grid[0] = config->gridDimX, launch.grid[1] = config->gridDimY, launch.grid[2] = config->gridDimZ;
  launch.block[0] = config->blockDimX, launch.block[1] = config->blockDimY, launch.block[2] = config->blockDimZ;
  launch.shared = config->sharedMemBytes;
  launch.stream = (uint64_t)(uintptr_t)config->hStream;
  launch.via_ex = 1;
  launch.n_attrs = 0;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    CUlaunchAttributeID id = config->attrs[i].id;
    if (id == CU_LAUNCH_ATTRIBUTE_IGNORE) continue;
    int n = launch.n_attrs++;
    launch.attr_id[n] = id;
    memset(launch.attr_value[n], 0, sizeof launch.attr_value[n]);
    memcpy(launch.attr_value[n], &config->attrs[i].value, attribute_words(id) * sizeof(uint32_t));
  }
  return launch_checked(&launch, function, params, extra);
}
