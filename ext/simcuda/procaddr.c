/* cuGetProcAddress: how cuda-python, cudart and modern callers find the driver's functions. Looks for the newest
 * version of a name in this very library; an unknown name is reported as the driver does, with a null pointer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

static void *self;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_self(void) {
  Dl_info info;
  if (dladdr((void *)(uintptr_t)open_self, &info) != 0) self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

static void *find(const char *symbol) {
  static const char *const suffixes[] = {"_v3", "_v2", ""};
  char name[128];
  pthread_once(&once, open_self);
  if (self == NULL || strncmp(symbol, "cu", 2) != 0 || strlen(symbol) > sizeof name - 4) return NULL;
  for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
    snprintf(name, sizeof name, "%s%s", symbol, suffixes[i]);
    void *found = dlsym(self, name);
    if (found != NULL) return found;
  }
  return NULL;
}

#undef cuGetProcAddress
SIM_CU cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
                           CUdriverProcAddressQueryResult *status) {
  SIM_ENTER(cuGetProcAddress);
  (void)version, (void)flags;
  if (symbol == NULL || out == NULL) return CUDA_ERROR_INVALID_VALUE;
  *out = find(symbol);
  if (status != NULL) *status = *out != NULL ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *out != NULL || status != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

SIM_CU cuGetProcAddress(const char *symbol, void **out, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, out, version, flags, NULL);
}

SIM_CU cuGetExportTable(const void **table, const CUuuid *id) {
  (void)id;
  *table = NULL;
  return CUDA_ERROR_NOT_FOUND;
}
