/* Calls back into Python from wherever a launch happens. The launching thread may or may not hold the GIL, and may have
 * an exception pending (Triton 3.6 launches first and reports an fp16 overflow after): Python code must not run then, so
 * the exception is set aside. CPython is looked up, not linked: without an interpreter the callback is called plainly. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>

#include "internal.h"

static int (*gil_ensure)(void);
static void (*gil_release)(int);
static void (*err_fetch)(void **, void **, void **);
static void (*err_restore)(void *, void *, void *);
static int (*is_initialized)(void);
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_python(void) {
  *(void **)&is_initialized = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  *(void **)&gil_ensure = dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
  *(void **)&gil_release = dlsym(RTLD_DEFAULT, "PyGILState_Release");
  *(void **)&err_fetch = dlsym(RTLD_DEFAULT, "PyErr_Fetch");
  *(void **)&err_restore = dlsym(RTLD_DEFAULT, "PyErr_Restore");
}

int sim_call_guarded(sim_callback callback, const sim_launch *launch) {
  pthread_once(&once, find_python);
  if (!is_initialized || !gil_ensure || !gil_release || !err_fetch || !err_restore || !is_initialized())
    return callback(launch);
  int state = gil_ensure();
  void *type, *value, *traceback;
  err_fetch(&type, &value, &traceback);
  int result = callback(launch);
  err_restore(type, value, traceback);
  gil_release(state);
  return result;
}
