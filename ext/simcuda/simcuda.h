/* The control side of the simulated libcuda.so.1: what tests and the Python driver use besides the `cu*` entry points.
 *
 * "Device" memory is host memory and nothing runs on its own: a launch is checked, recorded and handed to an optional
 * callback. Plain C types only, so that ctypes and native launch code can use it without cuda.h. All functions may be
 * called from any thread, with or without the GIL; none runs Python code except through the launch callback. */
#ifndef SIMCUDA_H
#define SIMCUDA_H

#include <stddef.h>
#include <stdint.h>

#define SIM_API __attribute__((visibility("default")))
#define SIM_MAX_DEVICES 16
#define SIM_MAX_ATTRS 8
#define SIM_ATTR_WORDS 4

/* One accepted launch. One heap block; everything it points to lives as long as it does (`image` names a CUBIN that is
 * never freed, see sim_image). Mirrored by trident_hook/testing/_simlib.py. */
typedef struct sim_launch {
  const char *name;
  uint64_t stream;
  uint64_t function;
  int32_t image;
  int32_t device;
  uint32_t grid[3], block[3];
  uint32_t shared;
  int32_t max_dynamic_shared;  /* the function's limit at the time of the launch */
  int32_t nonportable_cluster; /* the function's attribute at the time of the launch */
  int32_t via_ex;              /* 1: cuLaunchKernelEx */
  int32_t n_attrs;
  int32_t attr_id[SIM_MAX_ATTRS];
  uint32_t attr_value[SIM_MAX_ATTRS][SIM_ATTR_WORDS];
  int32_t n_params;
  uint32_t blob_size;
  const uint32_t *param_offset; /* n_params, as the CUBIN's KPARAM records say */
  const uint32_t *param_size;
  const unsigned char *blob;
} sim_launch;

/* Runs a launch. Nonzero makes the launch return CUDA_ERROR_LAUNCH_FAILED. Called with the GIL held and no exception
 * set when the process has an interpreter, on the launching thread. */
typedef int (*sim_callback)(const sim_launch *launch);

/* Machine: takes effect for contexts used from now on. `arch` is 10 * major + minor. */
SIM_API void sim_configure(int n_devices, int arch);
SIM_API int sim_device_count(void);

/* This thread's device and streams, as torch.cuda.set_device and torch.cuda.set_stream would leave them. Setting the
 * device makes its primary context current. A fresh thread is on device 0 without a context, all streams 0. */
SIM_API int sim_current_device(void);
SIM_API uint64_t sim_current_stream(int device);
SIM_API void sim_set_device(int device);
SIM_API void sim_set_stream(int device, uint64_t stream);
SIM_API int sim_has_context(void);
SIM_API void sim_clear_context(void);

/* Launches: record and run. */
SIM_API void sim_record(int on);
SIM_API void sim_set_callback(sim_callback callback);
SIM_API sim_launch *sim_take_launch(void); /* oldest recorded launch, owned by the caller; NULL when none */
SIM_API void sim_free_launch(sim_launch *launch);
SIM_API uint64_t sim_dropped_launches(void); /* recorded while the log was full, hence lost */
SIM_API void sim_clear_launches(void);

/* Loaded CUBINs, one id for each distinct content; the bytes stay for the life of the process. */
SIM_API const void *sim_image(int id, size_t *size);
SIM_API int sim_live_modules(void);

/* Calls: counters, and failures to inject. Names are those of the driver API; NULL or "" ends an iteration. */
SIM_API const char *sim_call_name(int index);
SIM_API uint64_t sim_call_count(int index);
SIM_API void sim_reset_counts(void);
/* After `skip` further calls, the next `times` calls (negative: all) of any call whose flag in `calls` (indexed like
 * sim_call_name) is set return `error` and do nothing. Returns an id, or -1 when the table is full. */
SIM_API int sim_inject(const unsigned char *calls, int n_calls, int error, int skip, int times);
SIM_API int sim_injected(int id); /* how often it fired */
SIM_API void sim_withdraw(int id);
SIM_API int sim_error_code(const char *name); /* CUresult of a name such as CUDA_ERROR_INVALID_VALUE, or -1 */

/* Pointers: in strict mode only registered ranges are device memory. */
SIM_API void sim_strict_pointers(int on);
SIM_API int sim_register_range(uint64_t address, uint64_t size, int device);
SIM_API int sim_unregister_range(uint64_t address);
SIM_API void sim_clear_ranges(void);

/* A tensor map made by the simulated encoder, decoded. Returns 0, or -1 for bytes that it did not write. */
typedef struct sim_tensor_map {
  uint64_t address;
  uint64_t dims[5], strides[5]; /* innermost first; strides[i] is that of dimension i + 1, in bytes */
  uint32_t box[5];
  int32_t rank, data_type, swizzle, oob_fill;
} sim_tensor_map;
SIM_API int sim_decode_tensor_map(const void *map, sim_tensor_map *out);

#endif
