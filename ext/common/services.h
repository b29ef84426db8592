// The C++ side of tdh_rt_api: every function that the table points to, by folder, and the counters that they share.
// Contracts (ownership, failure) are those of tdh_rt.h and are not repeated here. All functions need the GIL.
#ifndef TDH_RT_SERVICES_H
#define TDH_RT_SERVICES_H

#include <Python.h>

#include "abi/tdh_rt.h"

namespace trident_hook {

extern uint64_t counters[TDH_COUNT_N];
extern const tdh_rt_api api;

// ext/guard/tensor.cpp
int tensor_read(PyObject *obj, tdh_tensor *out);
int handle_read(void *handle, tdh_tensor *out);
uint64_t keys_apply(uint64_t keys, const tdh_state *state);
void *unwrap(PyObject *tensor);

// ext/guard/state.cpp
int state_read(tdh_state *out);
PyObject *py_registrations_watch(PyObject *, PyObject *set);

// ext/guard/watch.cpp
int env_check(void *plan);
void env_stale(void *plan);

// ext/guard/recheck.cpp
int env_recheck(void *plan, PyObject *arm, tdh_call *call, const tdh_step *steps, int32_t n, PyObject *const *objects,
                uint64_t *versions);

// ext/guard/identity.cpp
int all_distinct(PyObject *const *objects, int32_t n);
int env_has(void *plan, PyObject *const *objects, int32_t n);

// ext/aten/alloc.cpp
void *empty_strided(int32_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int32_t device_type,
                    int32_t device_index);
void *data_ptr(void *handle);
void retain(void *handle);
void release(void *handle);
PyObject *wrap(void *handle);
PyObject *py_alloc_trust(PyObject *, PyObject *device_type);

// ext/aten/noted_memory.cpp
PyObject *py_note_memory(PyObject *, PyObject *on);
PyObject *py_noted_memory(PyObject *, PyObject *address);

// ext/aten/op_site.cpp
int op_call(void *site, void *const *tensors, const int64_t *ints, const double *doubles, void **outs,
            int64_t *out_ints, double *out_doubles);

// ext/launch/launch.cpp
int launch_env(tdh_launch_env *out);
void *kernel_function(tdh_kernel *kernel, int32_t device);
int launch(tdh_kernel *kernel, const tdh_launch_env *env, int64_t gx, int64_t gy, int64_t gz, void **params);
int launch_scratch(tdh_kernel *kernel, const tdh_launch_env *env, int64_t gx, int64_t gy, int64_t gz, void **params,
                   void **scratch);
int launch_python(PyObject *callable, void *const *tensors, int32_t n_tensors, const int64_t *ints, int32_t n_ints);

// ext/launch/tensormap.cpp
int tensor_map(const tdh_tensor_map *want, void *out);

// ext/modules/rt.cpp
int attr_find(PyObject *obj, PyObject *name, PyObject **out);
PyObject *dict_of(PyObject *obj);
PyObject *space_of(PyObject *obj);
PyObject *attr_stored(PyObject *obj, PyObject *name);

}  // namespace trident_hook

#endif
