/* Modules and functions. A CUBIN's bytes are kept once for each distinct content and never freed, so that a recorded
 * launch can name its image after the module is gone; a function handle outlives its module as a dead handle. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

typedef struct {
  unsigned char *bytes;
  size_t size;
} image;

struct CUmod_st {
  CUcontext context;
  int image;
  CUfunction functions;
};

static image *images;
static int n_images;
static _Atomic int live_modules;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int intern_image(const void *bytes, size_t size) {
  for (int i = 0; i < n_images; i++)
    if (images[i].size == size && memcmp(images[i].bytes, bytes, size) == 0) return i;
  image *grown = realloc(images, (n_images + 1) * sizeof *images);
  unsigned char *copy = malloc(size);
  if (grown == NULL || copy == NULL) {
    free(copy);
    return -1;
  }
  images = grown;
  memcpy(copy, bytes, size);
  images[n_images] = (image){copy, size};
  return n_images++;
}

const void *sim_image(int id, size_t *size) {
  const void *bytes = NULL;
  pthread_mutex_lock(&lock);
  if (id >= 0 && id < n_images) {
    bytes = images[id].bytes;
    *size = images[id].size;
  }
  pthread_mutex_unlock(&lock);
  return bytes;
}

int sim_live_modules(void) {
  return atomic_load(&live_modules);
}

/* A CUBIN runs on its own major architecture and any minor from its own up; an "a" CUBIN on its own only. */
static bool runs_here(const void *bytes) {
  bool exact;
  int arch = sim_elf_arch(bytes, &exact), here = sim_the_machine.arch;
  return exact ? arch == here : arch / 10 == here / 10 && arch % 10 <= here % 10;
}

SIM_CU cuModuleLoadData(CUmodule *out, const void *bytes) {
  SIM_ENTER(cuModuleLoadData);
  if (!sim_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  CUcontext context = sim_thread_context();
  if (context == NULL) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == NULL || bytes == NULL) return CUDA_ERROR_INVALID_VALUE;
  size_t size = sim_elf_size(bytes);
  if (size == 0) return CUDA_ERROR_INVALID_IMAGE;
  if (!runs_here(bytes)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  CUmodule module = calloc(1, sizeof *module);
  if (module == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  module->context = context;
  pthread_mutex_lock(&lock);
  module->image = intern_image(bytes, size);
  pthread_mutex_unlock(&lock);
  if (module->image < 0) {
    free(module);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  atomic_fetch_add(&live_modules, 1);
  *out = module;
  return CUDA_SUCCESS;
}

SIM_CU cuModuleLoadDataEx(CUmodule *out, const void *bytes, unsigned n, CUjit_option *options, void **values) {
  (void)n, (void)options, (void)values;
  return cuModuleLoadData(out, bytes);
}

SIM_CU cuModuleUnload(CUmodule module) {
  SIM_ENTER(cuModuleUnload);
  if (module == NULL) return CUDA_ERROR_INVALID_HANDLE;
  pthread_mutex_lock(&lock);
  for (CUfunction it = module->functions; it != NULL; it = it->next)
    atomic_store(&it->module, NULL);
  pthread_mutex_unlock(&lock);
  free(module);
  atomic_fetch_sub(&live_modules, 1);
  return CUDA_SUCCESS;
}

static CUfunction make_function(CUmodule module, const char *name, const sim_kernel_info *info) {
  CUfunction function = calloc(1, sizeof *function);
  uint32_t *layout = malloc((2 * info->n_params + 1) * sizeof *layout);
  char *copy = strdup(name);
  if (function == NULL || layout == NULL || copy == NULL) {
    free(function);
    free(layout);
    free(copy);
    return NULL;
  }
  function->module = module;
  function->context = module->context;
  function->image = module->image;
  function->name = copy;
  function->info = *info;
  function->max_dynamic_shared = sim_the_machine.shared_default - info->static_shared;
  function->offsets = layout;
  function->sizes = layout + info->n_params;
  for (int i = 0; i < info->n_params; i++) {
    function->offsets[i] = info->params[i].offset;
    function->sizes[i] = info->params[i].size;
    if (info->params[i].offset + info->params[i].size > function->blob_size)
      function->blob_size = info->params[i].offset + info->params[i].size;
  }
  return function;
}

SIM_CU cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name) {
  SIM_ENTER(cuModuleGetFunction);
  if (module == NULL) return CUDA_ERROR_INVALID_HANDLE;
  if (out == NULL || name == NULL) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  CUfunction found = module->functions;
  while (found != NULL && strcmp(found->name, name) != 0)
    found = found->next;
  CUresult result = CUDA_SUCCESS;
  if (found == NULL) {
    static sim_kernel_info info; /* large; guarded by the lock */
    if (!sim_elf_kernel(images[module->image].bytes, name, &info))
      result = CUDA_ERROR_NOT_FOUND;
    else if ((found = make_function(module, name, &info)) == NULL)
      result = CUDA_ERROR_OUT_OF_MEMORY;
    else {
      found->next = module->functions;
      module->functions = found;
    }
  }
  pthread_mutex_unlock(&lock);
  if (result == CUDA_SUCCESS) *out = found;
  return result;
}

static bool is_alive(CUfunction function) {
  return function != NULL && atomic_load(&function->module) != NULL;
}

SIM_CU cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  SIM_ENTER(cuFuncGetAttribute);
  if (!is_alive(function)) return CUDA_ERROR_INVALID_HANDLE;
  const sim_kernel_info *info = &function->info;
  switch ((int)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = info->max_threads;
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = info->static_shared;
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = info->local_bytes;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = info->registers;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = sim_the_machine.arch;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = function->max_dynamic_shared;
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = function->nonportable_cluster;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = -1;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      *value = info->cluster[0];
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      *value = info->cluster[1];
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      *value = info->cluster[2];
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      *value = info->cluster[0] != 0;
      break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      *value = 0;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SIM_CU cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  SIM_ENTER(cuFuncSetAttribute);
  if (!is_alive(function)) return CUDA_ERROR_INVALID_HANDLE;
  switch ((int)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || value > sim_the_machine.shared_optin - function->info.static_shared)
        return CUDA_ERROR_INVALID_VALUE;
      function->max_dynamic_shared = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      function->nonportable_cluster = value != 0;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE; /* among them 17, the shared memory mode of drivers after 13.0 */
  }
}

SIM_CU cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
  SIM_ENTER(cuFuncSetCacheConfig);
  if (!is_alive(function)) return CUDA_ERROR_INVALID_HANDLE;
  function->cache_config = config;
  return CUDA_SUCCESS;
}

SIM_CU cuFuncGetModule(CUmodule *out, CUfunction function) {
  if (!is_alive(function)) return CUDA_ERROR_INVALID_HANDLE;
  *out = atomic_load(&function->module);
  return CUDA_SUCCESS;
}

SIM_CU cuFuncGetName(const char **name, CUfunction function) {
  if (!is_alive(function)) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->name;
  return CUDA_SUCCESS;
}

SIM_CU cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
  if (!is_alive(function)) return CUDA_ERROR_INVALID_HANDLE;
  if (index >= (size_t)function->info.n_params) return CUDA_ERROR_INVALID_VALUE;
  *offset = function->offsets[index];
  if (size != NULL) *size = function->sizes[index];
  return CUDA_SUCCESS;
}

SIM_CU cuOccupancyMaxActiveClusters(int *n, CUfunction function, const CUlaunchConfig *config) {
  (void)config;
  if (!is_alive(function)) return CUDA_ERROR_INVALID_HANDLE;
  *n = 1;
  return CUDA_SUCCESS;
}
