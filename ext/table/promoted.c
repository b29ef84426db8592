/* The registry of promoted functions: an address -> entry map, kept true by one function watcher.
 *
 * Rejected: weak references (an allocation per re-created closure, and visible to weakref.getweakrefcount). The watcher
 * costs unrelated functions one comparison when they are created and destroyed, and exists only while it is needed. */
#include "table/promoted.h"

vectorcallfunc tdh_plain_vectorcall;

/* Reads the vectorcall of a function made for the purpose. -1 with an exception set. */
static int plain_vectorcall_read(void) {
  PyCodeObject *code = PyCode_NewEmpty("trident_hook", "plain", 1);
  PyObject *globals = code ? PyDict_New() : NULL;
  PyObject *func = globals ? PyFunction_New((PyObject *)code, globals) : NULL;
  if (func) tdh_plain_vectorcall = ((PyFunctionObject *)func)->vectorcall;
  Py_XDECREF(func);
  Py_XDECREF(globals);
  Py_XDECREF(code);
  return func ? 0 : -1;
}

#if TDH_HAS_CALL_DOOR

#define TDH_BIRTH_FUNCTIONS 3 /* this many functions of one code: it is a closure that is made anew per call */

typedef struct tdh_promoted {
  PyObject *func; /* borrowed: the watcher tells us before it dies */
  tdh_entry *entry;
} tdh_promoted;

static vectorcallfunc door_vectorcall;
static tdh_promoted *map; /* open addressing, linear probing; func == NULL is free */
static size_t map_size, map_used;
static Py_ssize_t n_at_birth;
static int watcher = -1;

static size_t map_home(PyObject *func) {
  return (((uintptr_t)func >> 4) * 0x9E3779B97F4A7C15u) >> 20 & (map_size - 1);
}

static tdh_promoted *map_find(PyObject *func) {
  if (map_used == 0) return NULL;
  for (size_t i = map_home(func); map[i].func; i = (i + 1) & (map_size - 1))
    if (map[i].func == func) return &map[i];
  return NULL;
}

static void map_place(PyObject *func, tdh_entry *e) {
  size_t i = map_home(func);
  while (map[i].func)
    i = (i + 1) & (map_size - 1);
  map[i] = (tdh_promoted){func, e};
}

static bool map_insert(PyObject *func, tdh_entry *e) {
  if (2 * (map_used + 1) > map_size) {
    size_t old_size = map_size;
    tdh_promoted *old = map, *new = PyMem_Calloc(old_size ? 2 * old_size : 32, sizeof *new);
    if (new == NULL) return false;
    map = new;
    map_size = old_size ? 2 * old_size : 32;
    for (size_t i = 0; i < old_size; i++)
      if (old[i].func) map_place(old[i].func, old[i].entry);
    PyMem_Free(old);
  }
  map_place(func, e);
  ++map_used;
  ++e->n_promoted;
  return true;
}

/* Removes a slot and closes the gap, so that no tombstones pile up while closures come and go. */
static void map_erase(tdh_promoted *slot) {
  TDH_ASSERT(slot->func != NULL && map_used > 0 && slot->entry->n_promoted > 0);
  --map_used;
  --slot->entry->n_promoted;
  size_t hole = (size_t)(slot - map), i = hole, mask = map_size - 1;
  for (;;) {
    i = (i + 1) & mask;
    if (map[i].func == NULL) break;
    if (((i - map_home(map[i].func)) & mask) >= ((i - hole) & mask)) {
      map[hole] = map[i];
      hole = i;
    }
  }
  map[hole].func = NULL;
}

static void vectorcall_restore(PyObject *func) {
  PyFunctionObject *f = (PyFunctionObject *)func;
  if (f->vectorcall == door_vectorcall) PyFunction_SetVectorcall(f, tdh_plain_vectorcall);
}

/* Watcher: runs for every function of the interpreter. No allocation unless the function is ours. Never fails. */
static int function_event(PyFunction_WatchEvent event, PyFunctionObject *f, PyObject *value) {
  PyObject *func = (PyObject *)f;
  switch (event) {
    case PyFunction_EVENT_CREATE:
      if (n_at_birth) {
        tdh_entry *e = tdh_entry_find((PyCodeObject *)f->func_code);
        if (e && e->at_birth && e->state == TDH_STATE_SERVE && map_insert(func, e))
          PyFunction_SetVectorcall(f, door_vectorcall);
      }
      break;
    case PyFunction_EVENT_DESTROY: {
      tdh_promoted *slot = map_find(func);
      if (slot) map_erase(slot);
      break;
    }
    case PyFunction_EVENT_MODIFY_CODE: {
      tdh_promoted *slot = map_find(func);
      if (slot == NULL || slot->entry->code == (PyCodeObject *)value) break;
      map_erase(slot); /* another program now: whoever serves that one promotes the function anew */
      vectorcall_restore(func);
      break;
    }
    default:
      break;
  }
  return 0;
}

/* -1: every watcher of the interpreter is taken. No exception is left behind. */
static int watcher_arm(void) {
  if (watcher < 0) watcher = PyFunction_AddWatcher(function_event);
  if (watcher < 0) PyErr_Clear();
  return watcher;
}

static void watcher_settle(void) {
  if (watcher < 0 || map_used || n_at_birth) return;
  if (PyFunction_ClearWatcher(watcher) < 0) PyErr_Clear();
  watcher = -1;
}

static void birth_start(tdh_entry *e) {
  if (e->at_birth || e->n_functions < TDH_BIRTH_FUNCTIONS || e->code == NULL) return;
  e->at_birth = true;
  e->code_version = tdh_code_version_exchange(e->code, 0);
  ++n_at_birth;
}

static void birth_stop(tdh_entry *e) {
  if (!e->at_birth) return;
  e->at_birth = false;
  e->n_functions = 0;
  if (e->code) tdh_code_version_exchange(e->code, e->code_version);
  --n_at_birth;
}

int tdh_promoted_init(vectorcallfunc door) {
  door_vectorcall = door;
  tdh_entry_call_doors_end = tdh_promoted_entry_gone;
  return tdh_plain_vectorcall ? 0 : plain_vectorcall_read();
}

bool tdh_promoted_has(PyObject *func) {
  return map_find(func) != NULL;
}

/* Gives `func` (of `e`'s code) the call door. False without an exception when that is not possible: somebody else's
 * vectorcall sits there, or no watcher is left. Runs no Python code. */
bool tdh_promoted_add(PyObject *func, tdh_entry *e) {
  PyFunctionObject *f = (PyFunctionObject *)func;
  if (map_find(func)) return true;
  if (f->vectorcall != tdh_plain_vectorcall || watcher_arm() < 0) return false;
  if (!map_insert(func, e)) {
    watcher_settle();
    return false;
  }
  PyFunction_SetVectorcall(f, door_vectorcall);
  ++e->n_functions;
  birth_start(e);
  return true;
}

bool tdh_promoted_remove(PyObject *func) {
  tdh_promoted *slot = map_find(func);
  if (slot == NULL) return false;
  map_erase(slot);
  vectorcall_restore(func);
  watcher_settle();
  return true;
}

/* Takes the call door from every function of `e`, also from those still to be born. Runs no Python code. */
void tdh_promoted_entry_gone(tdh_entry *e) {
  birth_stop(e);
  while (e->n_promoted) { /* erasing may move an element behind the scan: go by the entry's own count */
    for (size_t i = 0; i < map_size; i++) {
      if (map[i].func == NULL || map[i].entry != e) continue;
      PyObject *func = map[i].func;
      map_erase(&map[i]);
      vectorcall_restore(func);
    }
  }
  watcher_settle();
}

/* Gives every call door back. How many there were. */
Py_ssize_t tdh_promoted_remove_all(void) {
  Py_ssize_t n = tdh_promoted_count();
  for (tdh_entry *e = tdh_entry_first(); e; e = e->next)
    tdh_promoted_entry_gone(e);
  return n;
}

Py_ssize_t tdh_promoted_count(void) {
  return (Py_ssize_t)map_used;
}

/* Deep recursion: lets CPython inline calls of `func` for a while; the function stays in the registry. */
void tdh_promoted_lift(PyObject *func) {
  vectorcall_restore(func);
}
void tdh_promoted_lower(PyObject *func) {
  PyFunctionObject *f = (PyFunctionObject *)func;
  if (map_find(func) && f->vectorcall == tdh_plain_vectorcall) PyFunction_SetVectorcall(f, door_vectorcall);
}

#else /* 3.11: Python call sites do not look at vectorcall */

int tdh_promoted_init(vectorcallfunc door) {
  (void)door;
  return tdh_plain_vectorcall ? 0 : plain_vectorcall_read();
}
bool tdh_promoted_has(PyObject *func) {
  return (void)func, false;
}
bool tdh_promoted_add(PyObject *func, tdh_entry *e) {
  return (void)func, (void)e, false;
}
bool tdh_promoted_remove(PyObject *func) {
  return (void)func, false;
}
void tdh_promoted_entry_gone(tdh_entry *e) {
  (void)e;
}
Py_ssize_t tdh_promoted_remove_all(void) {
  return 0;
}
Py_ssize_t tdh_promoted_count(void) {
  return 0;
}
void tdh_promoted_lift(PyObject *func) {
  (void)func;
}
void tdh_promoted_lower(PyObject *func) {
  (void)func;
}

#endif
