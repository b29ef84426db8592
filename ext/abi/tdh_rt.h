/* Services that a generated Specialization Cache Module (SCM) may use: a table of plain C functions, filled in by
 * trident_hook._rt. Generated modules include this header and nothing of PyTorch, so they compile in a fraction of
 * a second; their compiled form lives in users' disk caches, so every change here raises TDH_ABI_VERSION.
 *
 * Vocabulary. A *tensor handle* is a `void *` to a c10::TensorImpl. "borrowed" handles live as long as the Python
 * object or the other handle that they were read from; "owned" handles must be given to exactly one of release(),
 * wrap(), or kept. All functions need the GIL. Functions that can fail set a Python exception when they say so. */
#ifndef TDH_RT_H
#define TDH_RT_H

#include "tdh_scm.h"

#define TDH_RT_CAPSULE "trident_hook._rt.api"
#define TDH_OP_SITE_CAPSULE "trident_hook._rt.op_site"   /* of the prepared operator calls */
#define TDH_ENV_PLAN_CAPSULE "trident_hook._rt.env_plan" /* of what environment guards depend on */
#define TDH_MAX_DEVICES 64
#define TDH_STATE_WORDS 8
#define TDH_STATE_HOOKS 7 /* the word that is not 0 while saved-tensor hooks are active */

/* Embeds a file (found through the assembler's -I) as the bytes symbol[] .. symbol_end[]. */
#define TDH_EMBED(symbol, file)                                                                               \
  __asm__(".section .rodata\n.balign 64\n" #symbol ":\n.incbin \"" file "\"\n" #symbol "_end:\n.previous\n"); \
  extern __attribute__((visibility("hidden"))) const unsigned char symbol[], symbol##_end[]

/* What the units of a module share (trident_hook/codegen/unit.py). TDH_SHARED data is defined by each of them, as long as
 * it needs to be: the linker keeps one, as long as the longest. */
#define TDH_HIDDEN __attribute__((visibility("hidden")))
#define TDH_SHARED __attribute__((common, visibility("hidden")))

/* One read of a tensor argument; everything borrowed. */
typedef struct tdh_tensor {
  void *impl;
  const int64_t *sizes;
  const int64_t *strides;
  int64_t storage_offset;
  uint64_t keys; /* raw dispatch key set of the tensor itself; never has the Python key */
  int32_t ndim;
  int16_t dtype; /* c10::ScalarType */
  int8_t device_type;
  int8_t device_index; /* -1 where the device has none (CPU) */
  uint8_t requires_grad;
  uint8_t layout; /* c10::Layout */
  uint8_t flags;  /* TDH_TENSOR_* */
} tdh_tensor;
enum { TDH_TENSOR_CONJ = 1, TDH_TENSOR_NEG = 2, TDH_TENSOR_INFERENCE = 4 };

/* The thread's and the process's torch state, as words that are compared with those read at capture.
 * 0 TLS included keys, 1 TLS excluded keys, 2 flags, 3 default dtype | replaced allocations << 8 | thread count << 32,
 * 4..6 one byte per device type: 1 + its autocast dtype (0 where autocast is off, but CPU and CUDA always have it), 7 (TDH_STATE_HOOKS) not 0
 * while saved-tensor hooks are active. */
typedef struct tdh_state {
  uint64_t word[TDH_STATE_WORDS];
} tdh_state;

/* One specialization: TDH_HIT, TDH_MISS, ... as tdh_entry_fn. */
typedef int (*tdh_specialization_fn)(tdh_call *call, const tdh_state *state, PyObject **result);
#define TDH_SPECIALIZATION(name) TDH_HIDDEN int name(tdh_call *, const tdh_state *, PyObject **)

/* A CUBIN embedded in the module, and its function per device once loaded. */
typedef struct tdh_kernel {
  const unsigned char *cubin;
  uint64_t cubin_size;
  const char *name;         /* entry point in the CUBIN */
  uint32_t shared;          /* dynamic shared memory, bytes */
  uint32_t threads;         /* block size in x */
  uint32_t num_ctas;        /* cluster size in x */
  uint32_t flags;           /* TDH_KERNEL_* */
  uint32_t scratch_size[2]; /* bytes of memory that each program wants: global, profile (TDH_SCRATCH_*) */
  uint32_t scratch_align[2];
  void *function[TDH_MAX_DEVICES]; /* CUfunction, NULL until loaded */
} tdh_kernel;
enum { TDH_KERNEL_PDL = 1, TDH_KERNEL_COOPERATIVE = 2 };
enum { TDH_SCRATCH_GLOBAL = 0, TDH_SCRATCH_PROFILE = 1 };

/* Where launches go at this moment. */
typedef struct tdh_launch_env {
  void *stream; /* CUstream: the current stream of the current device */
  int32_t device;
  int32_t device_type; /* of tensors that kernels accept: CUDA, or CPU on the simulated driver */
} tdh_launch_env;

/* A tensor descriptor that the host made, as the driver encodes it. Outermost dimension first, strides in elements. */
enum { TDH_MAP_RANK = 5, TDH_MAP_BYTES = 128 };
typedef struct tdh_tensor_map {
  void *address; /* divisible by 16 */
  int64_t sizes[TDH_MAP_RANK], strides[TDH_MAP_RANK];
  uint32_t box[TDH_MAP_RANK];                               /* the block that is copied at once */
  uint8_t rank, data_type, swizzle, element_size, nan_fill; /* data_type, swizzle: the driver's numbers */
} tdh_tensor_map;

/* One step of the check of environment guards. Reads append a value; questions end the check with their guard's number
 * where the answer is no, as reads do that find nothing. An operand is a value by its number, or -1 - the index of an
 * object of the module. */
typedef struct tdh_step {
  uint32_t what; /* TDH_READ_*, TDH_ASK_* */
  int32_t guard; /* the number of the guard it is made for */
  int32_t of, with;
  int32_t n; /* a place in a container, a length, 1 or 0 for `in` and `not in`, a class's place among the versions */
} tdh_step;
enum {
  TDH_READ_GLOBALS = 0, /* of the function that is called */
  TDH_READ_ATTR,        /* getattr(of, with) */
  TDH_READ_DICT,        /* of.__dict__, as dict_of gives it */
  TDH_READ_DICT_ITEM,   /* of[with] */
  TDH_READ_TUPLE_ITEM,  /* of[n] */
  TDH_READ_KEY_AT,      /* list(of)[n], of a dict */
  TDH_READ_VALUE_AT,    /* list(of.values())[n] */
  TDH_READ_TYPE,        /* type(of) */
  TDH_READ_MRO,         /* of.__mro__ */
  TDH_READ_CODE,        /* of.__code__ and so on; None where the function has none */
  TDH_READ_CLOSURE,
  TDH_READ_DEFAULTS,
  TDH_READ_KWDEFAULTS,
  TDH_ASK_IS = 32, /* of is with */
  TDH_ASK_IS_NOT,
  TDH_ASK_TYPE,        /* type(of) is with */
  TDH_ASK_EQUALS,      /* tdh_equals(of, with) */
  TDH_ASK_DIFFERS,     /* not that */
  TDH_ASK_CONTAINS,    /* (with in of) == n */
  TDH_ASK_DICT_LENGTH, /* len(of) == n */
  TDH_ASK_EMPTY_LIST,
  TDH_ASK_CLASS_FACTS, /* with(of), asked anew when the class or its metaclass has another version */
  TDH_ASK_NOTED,       /* always: notes the object, for the next */
  TDH_ASK_APART        /* the noted objects are distinct; the plan keeps them, for env_has */
};

typedef struct tdh_rt_api {
  uint32_t abi;
  uint32_t size; /* sizeof(tdh_rt_api) of the library */

  /* 0 and fills *out; -1 (no exception) when obj is not a tensor, dispatches to Python, or is one whose sizes and
   * strides cannot be read plainly (symbolic, nested, sparse). Any subclass passes: the Python type is the caller's to
   * check. Runs no Python code. */
  int (*tensor_read)(PyObject *obj, tdh_tensor *out);
  /* ((keys | included) - excluded) - {Python, PythonTLSSnapshot, PythonDispatcher}, as Dynamo's LocalState does. */
  uint64_t (*keys_apply)(uint64_t keys, const tdh_state *state);

  /* Reads the torch state. Returns 1 when calls may be served at all; 0 (and *out is not to be read) when something is
   * active that we do not serve under: torch-function or torch-dispatch mode, functorch level, traceable saved-tensor
   * hooks, functionalization, jit.trace, ... Two states are the same when all words are (memcmp); a specialization that
   * saves no tensor need not ask for the word TDH_STATE_HOOKS. No exception. */
  int (*state_read)(tdh_state *out);

  /* New owned handle, or NULL with an exception. The backend's registered kernel is called (an override is
   * honoured); only to be used under a state in which no mode is active. */
  void *(*empty_strided)(int32_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int32_t device_type,
                         int32_t device_index);
  /* Mutable data pointer as Tensor.data_ptr() gives it (copy-on-write storage is materialised). NULL if empty; NULL
   * and an exception when the tensor has no storage or the copy failed (never for what tensor_read accepted and whose
   * storage is ordinary). */
  void *(*data_ptr)(void *handle);
  void (*retain)(void *handle);      /* makes one more owned handle of it */
  void (*release)(void *handle);     /* NULL is allowed */
  PyObject *(*wrap)(void *handle);   /* steals an owned handle; NULL gives None; new reference or NULL+exception */
  void *(*unwrap)(PyObject *tensor); /* borrowed handle of a tensor object */
  int (*handle_read)(void *handle, tdh_tensor *out); /* like tensor_read, for a handle */

  /* One prepared call of an operator (a PyCapsule made by trident_hook._rt.op_site). `tensors`, `ints`, `doubles`
   * fill the placeholders of its template by index. Tensor results go to outs[] as owned handles (NULL for an
   * undefined tensor; the elements of a tensor list one by one), int and bool results to out_ints[], float results to
   * out_doubles[], each in schema order. A Scalar result takes a place in both: the int (0 for a float) and the value
   * as a double. `site` is the pointer inside the capsule. Returns 0, or -1 with an exception (outs[] then holds
   * nothing). Releases the GIL around the call, so other threads run, and so may Python code. */
  int (*op_call)(void *site, void *const *tensors, const int64_t *ints, const double *doubles, void **outs,
                 int64_t *out_ints, double *out_doubles);

  /* Current device and stream. Returns 0, or -1 with an exception. */
  int (*launch_env)(tdh_launch_env *out);
  /* Loads the kernel for a device if needed (imports and runs Python then). CUfunction, or NULL with an exception. */
  void *(*kernel_function)(tdh_kernel *kernel, int32_t device);
  /* One launch. params: array of pointers to the parameter values, in order, the two scratch pointers included. Returns
   *  0 launched, or a dimension of the grid is 0 and there is nothing to launch;
   *  1 nothing was launched, no exception: a grid that stock Triton treats in its own way (a dimension outside
   *    [1, 2^31-1], more than 2^31-1 programs); the caller goes on with launch_python;
   * -1 with an exception that names call, error, kernel, grid and device.
   * The grid is in programs: x is multiplied by num_ctas here. Releases the GIL. */
  int (*launch)(tdh_kernel *kernel, const tdh_launch_env *env, int64_t gx, int64_t gy, int64_t gz, void **params);
  /* Calls a Python launcher instead: callable(tensors tuple, ints tuple). 0, or -1 with an exception. */
  int (*launch_python)(PyObject *callable, void *const *tensors, int32_t n_tensors, const int64_t *ints,
                       int32_t n_ints);

  /* Attribute look-up without an exception: 1 and a new reference, 0 when absent, -1 with an exception. */
  int (*attr_find)(PyObject *obj, PyObject *name, PyObject **out);
  /* A module's, class's or instance's dict; borrowed, NULL (no exception) when it has none. An instance that keeps its
   * attributes inline gets a dict by this. */
  PyObject *(*dict_of)(PyObject *obj);
  /* A plan of environment guards (a PyCapsule made by trident_hook._rt.env_plan): 1 nothing they depend on has changed;
   * 0 arm the plan, then evaluate them; -1 evaluate them, the plan cannot be armed. */
  int (*env_check)(void *plan);
  void (*env_stale)(void *plan); /* the guards did not hold: ask again next time */
  /* Counts one use of each thing that the tests want to see: see trident_hook._rt.counters(). */
  uint64_t *counters;
  /* Fills out[TDH_MAP_BYTES]. 0; 1 where the driver refuses (no exception): the caller goes on with launch_python. */
  int (*tensor_map)(const tdh_tensor_map *want, void *out);
  /* A launch of a kernel that wants scratch memory: like launch, but Triton's allocators of this moment are called first
   * (Python code; also for an empty grid, as from Triton), and what they gave lives until the launch is made.
   * scratch[2]: where two entries of params point to; filled here. */
  int (*launch_scratch)(tdh_kernel *kernel, const tdh_launch_env *env, int64_t gx, int64_t gy, int64_t gz,
                        void **params, void **scratch);
  /* Where env_check did not say 1: arms the plan if that is asked for (`arm` is called with the function; Python code),
   * then goes through the n steps. -1: the guards hold. Else the number of the first that does not; the plan is stale
   * then. No exception. `versions`: the module's, of classes that were found as they were, 0 at first. */
  int (*env_recheck)(void *plan, PyObject *arm, tdh_call *call, const tdh_step *steps, int32_t n,
                     PyObject *const *objects, uint64_t *versions);
  /* Whether the n objects, of which some may be NULL, are different ones, in a time that grows with n. No exception. */
  int (*all_distinct)(PyObject *const *objects, int32_t n);
  /* Whether one of the n objects is among those that the plan's last check found to be apart (TDH_ASK_APART). */
  int (*env_has)(void *plan, PyObject *const *objects, int32_t n);
  /* An instance's __dict__, borrowed; NULL where it has none, or none yet. */
  PyObject *(*space_of)(PyObject *obj);
  /* An attribute that is stored as it is (in a dict, a slot, a cell): borrowed, NULL (no exception) for any other. Runs no
   * Python code: for what may be asked of any object. */
  PyObject *(*attr_stored)(PyObject *obj, PyObject *name);
} tdh_rt_api;

/* What a generated module shows of itself before it is bound: attribute `__tdh_module__`, a PyCapsule. Everything is
 * static data of the module. */
#define TDH_MODULE_CAPSULE "trident_hook.module"
typedef struct tdh_module {
  uint32_t abi, n_objects, n_sites, n_plans, n_specs;
  const tdh_rt_api **rt;
  PyObject **objects; /* borrowed once bound, as arms */
  void **sites;
  void **plans;    /* of watched environment guards */
  PyObject **arms; /* what arms each plan: callable(function) */
  tdh_scm *scm;
  tdh_entry_fn entry;
} tdh_module;

/* What CPython imports: a module with two attributes. Written out here, as Cython's own would be most of what the C compiler
 * has to do. TDH_MODULE stands behind the arrays that it names; `dispatch` is the entry, `name` that of PyInit_. */
static inline int tdh_module_fill(PyObject *self, tdh_module *module, int *failed) {
  PyObject *capsule = PyCapsule_New(module, TDH_MODULE_CAPSULE, NULL);
  PyObject *view = PyMemoryView_FromMemory((char *)failed, (Py_ssize_t)(module->n_specs * sizeof *failed), PyBUF_READ);
  int made = capsule != NULL && view != NULL && PyModule_AddObjectRef(self, "__tdh_module__", capsule) == 0 &&
             PyModule_AddObjectRef(self, "__tdh_failed__", view) == 0;
  Py_XDECREF(capsule);
  Py_XDECREF(view);
  return made ? 0 : -1;
}
#define TDH_MODULE(name, dispatch, specs, n_obj, n_site, n_plan)                                                 \
  TDH_HIDDEN int dispatch(tdh_call *, PyObject **);                                                              \
  static tdh_scm name##_scm;                                                                                     \
  static tdh_module name##_module = {TDH_ABI_VERSION, n_obj,    n_site,   n_plan,  specs,       &tdh_rt,         \
                                     tdh_obj,         tdh_site, tdh_plan, tdh_arm, &name##_scm, dispatch};       \
  static int name##_exec(PyObject *self) {                                                                       \
    return tdh_module_fill(self, &name##_module, tdh_failed);                                                    \
  }                                                                                                              \
  static PyModuleDef_Slot name##_slots[] = {{Py_mod_exec, (void *)name##_exec}, {0, NULL}};                      \
  static PyModuleDef name##_def = {PyModuleDef_HEAD_INIT, #name, NULL, 0, NULL, name##_slots, NULL, NULL, NULL}; \
  PyMODINIT_FUNC PyInit_##name(void) {                                                                           \
    return PyModuleDef_Init(&name##_def);                                                                        \
  }

enum {
  TDH_COUNT_LAUNCH = 0,
  TDH_COUNT_OP_CALL,
  TDH_COUNT_ALLOC,
  TDH_COUNT_LAUNCH_PYTHON,
  TDH_COUNT_MODULE_LOAD,
  TDH_COUNT_HANDLES_LIVE,
  TDH_COUNT_N
};

#endif
