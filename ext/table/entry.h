/* Code object -> entry. An entry says how calls of one function are routed; the code object owns it through its extra
 * slot. All of it is guarded by the GIL. */
#ifndef TDH_TABLE_ENTRY_H
#define TDH_TABLE_ENTRY_H

#include "common/assert.h"
#include "compat/py.h"
#include "table/thread.h"
#include "abi/tdh_scm.h"

enum { TDH_DOOR_FRAME = 1, TDH_DOOR_CALL = 2 };
enum { TDH_STATE_OFF = 0, TDH_STATE_SERVE = 1, TDH_STATE_REFUSED = 2 };

typedef struct tdh_counts {
  uint64_t misses, errors, bypasses, delegated, python, frame_hits, call_hits;
} tdh_counts;

typedef struct tdh_entry {
  tdh_entry_fn serve; /* NULL while no SCM is loaded */
  PyObject *module;   /* owned: the SCM that `serve` belongs to, NULL while none is loaded */
  PyObject *record;   /* owned: answers before_miss and after_miss; None wants no misses */
  PyCodeObject *code; /* borrowed: it owns us; NULL once dropped */
  uint32_t refs;      /* the code object and every call in flight */
  uint32_t n_missing; /* calls that are in a miss now: between the record's two questions */
  uint8_t state, doors;
  bool routable;         /* false for generators, coroutines, class and module bodies */
  bool at_birth;         /* new functions of this code get the call door when they are created */
  uint32_t code_version; /* the code's own version while `at_birth` */
  uint32_t n_functions;  /* how many functions were ever promoted */
  uint32_t n_promoted;   /* how many of them carry the call door now */
  tdh_counts counts;
  struct tdh_entry *next, *previous; /* all entries */
} tdh_entry;

/* What a code object's slot holds: NULL (never seen), a mark (seen, not ours), or its entry. Marks are odd numbers; one
 * of an older generation than `tdh_slot_seen` was left for another discoverer, and counts as not seen. */
extern void *tdh_slot_seen;
void tdh_slot_generation_new(void);
extern Py_ssize_t tdh_extra_index;

/* Bits of the monitoring tools that are our own sentinel's. */
extern uint8_t tdh_own_tools;

static inline void *tdh_slot_get(PyCodeObject *code) {
  return tdh_code_extra(code, tdh_extra_index);
}

static inline bool tdh_slot_is_mark(void *slot) {
  return ((uintptr_t)slot & 1) != 0;
}
static inline bool tdh_slot_is_new(void *slot) {
  return slot == NULL || (tdh_slot_is_mark(slot) && slot != tdh_slot_seen);
}

/* Borrowed, or NULL. No allocation, no error. */
static inline tdh_entry *tdh_entry_find(PyCodeObject *code) {
  void *slot = tdh_slot_get(code);
  return tdh_slot_is_mark(slot) ? NULL : slot;
}

/* Whether a call through `door` has to ask the SCM or the record. Two bytes and a pointer to read. */
static inline bool tdh_entry_wants(const tdh_entry *e, int door) {
  return e->state == TDH_STATE_SERVE && (e->doors & door) && e->routable && (e->serve || e->record != Py_None);
}

static inline void tdh_entry_hold(tdh_entry *e) {
  ++e->refs;
}
void tdh_entry_free(tdh_entry *e); /* may run Python code */
static inline void tdh_entry_release(tdh_entry *e) {
  TDH_ASSERT(e->refs > 0);
  if (TDH_UNLIKELY(--e->refs == 0)) tdh_entry_free(e);
}

/* Calls the SCM. The caller holds the entry. TDH_MISS while no SCM is loaded. The module outlives the call even when
 * another one is swapped in meanwhile. Budget: no allocation, no look-up. */
static inline int tdh_entry_ask(PyThreadState *ts, tdh_entry *e, tdh_call *call, PyObject **result) {
  if (TDH_UNLIKELY(e->serve == NULL)) return TDH_MISS;
  if (TDH_UNLIKELY(tdh_recursion_enter(ts))) return TDH_ERROR;
  TDH_ASSERT(e->module != NULL && e->refs > 1);
  PyObject *module = Py_NewRef(e->module);
  int outcome = e->serve(call, result);
  TDH_ASSERT(outcome == TDH_ERROR || !PyErr_Occurred());
  Py_DECREF(module);
  tdh_recursion_leave(ts);
  return outcome;
}

int tdh_entry_init(void);
bool tdh_code_is_routable(PyCodeObject *code);
void tdh_slot_mark(PyCodeObject *code);
void tdh_slot_unmark(PyCodeObject *code);
tdh_entry *tdh_entry_create(PyCodeObject *code, PyObject *record, int doors);
int tdh_entry_drop(PyCodeObject *code);
int tdh_entry_scm_set(tdh_entry *e, PyObject *module);
void tdh_entry_state_set(tdh_entry *e, int state);
void tdh_entry_doors_set(tdh_entry *e, int doors);
void tdh_entry_forked(void);
/* Called, if set, when the functions of an entry are to lose the call door. Runs no Python code. */
extern void (*tdh_entry_call_doors_end)(tdh_entry *e);
tdh_entry *tdh_entry_first(void); /* the others by `next` */
PyObject *tdh_entry_stats(const tdh_entry *e);
bool tdh_entry_any_needs_frames(void);
Py_ssize_t tdh_entry_count(void);
Py_ssize_t tdh_entry_scm_count(void);

#endif
