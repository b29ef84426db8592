/* The contract between the doors (trident_hook._core) and a generated Specialization Cache Module (SCM).
 *
 * Plain C, no PyTorch headers. A change that an already compiled SCM could notice raises TDH_ABI_VERSION,
 * which is part of every cache key, so an old module on disk is never loaded by a new library. */
#ifndef TDH_SCM_H
#define TDH_SCM_H

#include <Python.h>
#include <stdint.h>

#define TDH_ABI_VERSION 7

/* Outcomes of one dispatch. */
enum {
  TDH_HIT = 0,    /* *result holds a new reference */
  TDH_MISS = 1,   /* no specialization's guards hold; nothing has happened; no exception is set */
  TDH_ERROR = 2,  /* the program's own error: a Python exception is set */
  TDH_BYPASS = 3, /* the ambient state (a torch-function mode, a launch hook, ...) is not ours to serve: run the plain
                     function, do not specialize; no exception is set */
};

/* One call. Everything but the two `out` fields is filled in by the door and borrowed for the length of the call. */
typedef struct tdh_call {
  PyObject *const *locals; /* the arguments in localsplus order: positional, keyword-only, *args tuple, **kwargs dict.
                              Defaults are filled in. Entries after the arguments must not be read. */
  PyObject *func;          /* the PyFunctionObject that is called (free variables: its func_closure) */
  int32_t spec;            /* out: on a hit the specialization that served, on a miss the last one tried, -1 none */
  int32_t guard;           /* out: on a miss the index of the guard that failed in `spec`, -1 unknown */
} tdh_call;

/* Holds the GIL; may run Python code. On TDH_HIT stores a new reference in *result. With result NULL it only says whether
 * it would hit: the guards are evaluated, and nothing else happens. */
typedef int (*tdh_entry_fn)(tdh_call *call, PyObject **result);

/* What a loaded SCM hands to its door: attribute `__tdh_scm__` of the module, a PyCapsule named TDH_SCM_CAPSULE. */
#define TDH_SCM_CAPSULE "trident_hook.scm"
typedef struct tdh_scm {
  uint32_t abi;     /* TDH_ABI_VERSION of the headers it was compiled with */
  uint32_t n_specs; /* how many specializations it holds */
  tdh_entry_fn entry;
} tdh_scm;

#endif
