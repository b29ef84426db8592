/* Entries: creation, the SCM behind them, states, death with their code object.
 * Must never run Python code between reading a slot and writing it. */
#include "table/entry.h"

Py_ssize_t tdh_extra_index = -1;
uint8_t tdh_own_tools = 0;
__thread tdh_thread tdh_thread_here;

static tdh_entry *all_entries;
static Py_ssize_t n_entries, n_scms;

void (*tdh_entry_call_doors_end)(tdh_entry *);

static void call_doors_end(tdh_entry *e) {
  if (tdh_entry_call_doors_end) tdh_entry_call_doors_end(e);
}

/* Takes the entry out of everything that could find it. Runs no Python code. */
static void entry_detach(tdh_entry *e) {
  if (e->code == NULL) return;
  call_doors_end(e);
  e->code = NULL;
  e->state = TDH_STATE_OFF;
  if (e->next) e->next->previous = e->previous;
  if (e->previous)
    e->previous->next = e->next;
  else
    all_entries = e->next;
  --n_entries;
}

/* CPython calls this when the code object dies, and when the slot is overwritten. */
static void slot_free(void *slot) {
  if (slot == NULL || tdh_slot_is_mark(slot)) return;
  entry_detach(slot);
  tdh_entry_release(slot);
}

int tdh_entry_init(void) {
  if (tdh_extra_index >= 0) return 0;
  tdh_extra_index = tdh_code_extra_request(slot_free);
  if (tdh_extra_index >= 0) return 0;
  PyErr_SetString(PyExc_ImportError, "trident_hook: all co_extra slots of this interpreter are taken");
  return -1;
}

/* The last reference is gone. Drops the record and the SCM, which may run Python code. */
TDH_COLD void tdh_entry_free(tdh_entry *e) {
  tdh_error pending = tdh_error_save();
  TDH_ASSERT(e->refs == 0 && e->code == NULL && e->n_promoted == 0 && n_scms >= (e->module != NULL));
  if (e->module) --n_scms;
  Py_XDECREF(e->module);
  Py_XDECREF(e->record);
  PyMem_Free(e);
  tdh_error_restore(pending);
}

/* Plain functions only: generators hand out frames that outlive the call, class and module bodies have no arguments. */
bool tdh_code_is_routable(PyCodeObject *code) {
  const int generators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  const int function = CO_OPTIMIZED | CO_NEWLOCALS;
  return (code->co_flags & generators) == 0 && (code->co_flags & function) == function;
}

void *tdh_slot_seen = (void *)1;

/* What was seen may be seen once more. */
void tdh_slot_generation_new(void) {
  tdh_slot_seen = (void *)((uintptr_t)tdh_slot_seen + 2);
}

/* Notes that `code` was seen. Keeps an entry that is already there. Out of memory is not an error: it is seen again. */
void tdh_slot_mark(PyCodeObject *code) {
  if (tdh_slot_is_new(tdh_slot_get(code)) && tdh_code_extra_set(code, tdh_extra_index, tdh_slot_seen) < 0)
    PyErr_Clear();
}

/* As if `code` had not been seen. Keeps an entry, and the pending exception. */
void tdh_slot_unmark(PyCodeObject *code) {
  if (!tdh_slot_is_mark(tdh_slot_get(code))) return;
  tdh_error pending = tdh_error_save();
  if (tdh_code_extra_set(code, tdh_extra_index, NULL) < 0) PyErr_Clear();
  tdh_error_restore(pending);
}

/* The entry of `code`, borrowed; made with a new reference to `record` if there is none, else only gains doors.
 * NULL with an exception set. */
tdh_entry *tdh_entry_create(PyCodeObject *code, PyObject *record, int doors) {
  tdh_entry *e = tdh_entry_find(code);
  if (e != NULL) {
    tdh_entry_doors_set(e, e->doors | doors);
    return e;
  }
  e = PyMem_Calloc(1, sizeof *e);
  if (e == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  if (tdh_code_extra_set(code, tdh_extra_index, e) < 0) { /* the old slot is NULL or the mark: nothing to free */
    PyMem_Free(e);
    return NULL;
  }
  e->record = Py_NewRef(record);
  e->code = code;
  e->refs = 1;
  e->doors = (uint8_t)doors;
  e->state = TDH_STATE_SERVE;
  e->routable = tdh_code_is_routable(code);
  e->next = all_entries;
  if (all_entries) all_entries->previous = e;
  all_entries = e;
  ++n_entries;
  return e;
}

/* 1 if there was an entry, 0 if not. Calls in flight finish with what they have. May run Python code. */
int tdh_entry_drop(PyCodeObject *code) {
  tdh_entry *e = tdh_entry_find(code);
  if (e == NULL) return 0;
  /* Held across the write: SetExtra frees the old value before it stores the new one, and a record's finalizer that
   * came back for this code object would find the slot half written. */
  tdh_entry_hold(e);
  int failed = tdh_code_extra_set(code, tdh_extra_index, tdh_slot_seen) < 0;
  tdh_entry_release(e);
  return failed ? -1 : 1;
}

/* Swaps the SCM; None unloads it. Takes a new reference to `module`. -1 with ValueError or TypeError, nothing changed. */
int tdh_entry_scm_set(tdh_entry *e, PyObject *module) {
  tdh_entry_fn serve = NULL;
  if (module == Py_None) {
    module = NULL;
  } else {
    PyObject *capsule = PyObject_GetAttrString(module, "__tdh_scm__");
    if (capsule == NULL) {
      if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
      PyErr_Clear();
      PyErr_Format(PyExc_ValueError, "%R is no specialization cache module: it has no attribute __tdh_scm__", module);
      return -1;
    }
    if (!PyCapsule_IsValid(capsule, TDH_SCM_CAPSULE)) {
      PyErr_Format(PyExc_ValueError, "__tdh_scm__ of %R: seen %R, expected a capsule named \"%s\"", module, capsule,
                   TDH_SCM_CAPSULE);
      Py_DECREF(capsule);
      return -1;
    }
    const tdh_scm *scm = PyCapsule_GetPointer(capsule, TDH_SCM_CAPSULE);
    Py_DECREF(capsule); /* the struct is static data of the module, which we keep */
    if (scm->abi != TDH_ABI_VERSION || scm->entry == NULL) {
      PyErr_Format(PyExc_ValueError, "specialization cache module %R: ABI version seen %u, expected %u%s", module,
                   (unsigned)scm->abi, (unsigned)TDH_ABI_VERSION, scm->entry ? "" : " (and it has no entry function)");
      return -1;
    }
    serve = scm->entry;
  }
  PyObject *old = e->module;
  n_scms += (module != NULL) - (old != NULL);
  e->module = Py_XNewRef(module);
  e->serve = serve;
  TDH_ASSERT((e->serve != NULL) == (e->module != NULL));
  Py_XDECREF(old);
  return 0;
}

/* REFUSED gives the call door back: the function is inlined by CPython again. */
void tdh_entry_state_set(tdh_entry *e, int state) {
  e->state = (uint8_t)state;
  if (state == TDH_STATE_REFUSED) call_doors_end(e);
}

void tdh_entry_doors_set(tdh_entry *e, int doors) {
  e->doors = (uint8_t)doors;
  if (!(doors & TDH_DOOR_CALL)) call_doors_end(e);
}

/* In the child of a fork: calls of other threads are not here. Those of this thread are not told apart from them, so while
 * it has one the counts stay, which only keeps what they protect. */
void tdh_entry_forked(void) {
  if (tdh_thread_here.missing) return;
  for (tdh_entry *e = all_entries; e; e = e->next)
    e->n_missing = 0;
}

/* New reference. */
PyObject *tdh_entry_stats(const tdh_entry *e) {
  const tdh_counts *c = &e->counts;
  return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "hits", (unsigned long long)(c->frame_hits + c->call_hits),
                       "misses", (unsigned long long)c->misses, "errors", (unsigned long long)c->errors, "bypasses",
                       (unsigned long long)c->bypasses, "delegated", (unsigned long long)c->delegated, "python",
                       (unsigned long long)c->python, "frame_hits", (unsigned long long)c->frame_hits, "call_hits",
                       (unsigned long long)c->call_hits);
}

/* Whether some function can be served through the frame door only. */
bool tdh_entry_any_needs_frames(void) {
  for (tdh_entry *e = all_entries; e; e = e->next)
    if (e->state == TDH_STATE_SERVE && e->routable && e->doors == TDH_DOOR_FRAME) return true;
  return false;
}

tdh_entry *tdh_entry_first(void) {
  return all_entries;
}

Py_ssize_t tdh_entry_count(void) {
  return n_entries;
}
Py_ssize_t tdh_entry_scm_count(void) {
  return n_scms;
}
