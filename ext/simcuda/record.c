/* The log of launches: a queue that Python drains. Bounded, so that a long run that nobody reads cannot eat memory. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define MAX_LOGGED 65536

typedef struct entry {
  struct entry *next;
  sim_launch launch;
} entry;

_Atomic int sim_recording;
_Atomic(sim_callback) sim_the_callback;

static entry *first, *last;
static int n_logged;
static uint64_t n_dropped;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void sim_record(int on) {
  atomic_store(&sim_recording, on != 0);
}
void sim_set_callback(sim_callback callback) {
  atomic_store(&sim_the_callback, callback);
}

static entry *entry_of(sim_launch *launch) {
  return (entry *)((char *)launch - offsetof(entry, launch));
}

/* A copy in one block: entry, offsets, sizes, parameter bytes, name. */
sim_launch *sim_copy_launch(const sim_launch *launch) {
  size_t words = (size_t)launch->n_params * sizeof(uint32_t), name = strlen(launch->name) + 1;
  entry *it = malloc(sizeof *it + 2 * words + launch->blob_size + name);
  if (it == NULL) return NULL;
  unsigned char *at = (unsigned char *)(it + 1);
  it->next = NULL;
  it->launch = *launch;
  it->launch.param_offset = memcpy(at, launch->param_offset, words);
  it->launch.param_size = memcpy(at + words, launch->param_size, words);
  it->launch.blob = memcpy(at + 2 * words, launch->blob, launch->blob_size);
  it->launch.name = memcpy(at + 2 * words + launch->blob_size, launch->name, name);
  return &it->launch;
}

void sim_log_launch(sim_launch *launch) {
  entry *it = entry_of(launch);
  pthread_mutex_lock(&lock);
  bool full = n_logged == MAX_LOGGED;
  if (full) {
    n_dropped++;
  } else {
    if (last != NULL)
      last->next = it;
    else
      first = it;
    last = it;
    n_logged++;
  }
  pthread_mutex_unlock(&lock);
  if (full) free(it);
}

sim_launch *sim_take_launch(void) {
  pthread_mutex_lock(&lock);
  entry *it = first;
  if (it != NULL) {
    first = it->next;
    if (first == NULL) last = NULL;
    n_logged--;
  }
  pthread_mutex_unlock(&lock);
  return it != NULL ? &it->launch : NULL;
}

void sim_free_launch(sim_launch *launch) {
  if (launch != NULL) free(entry_of(launch));
}

uint64_t sim_dropped_launches(void) {
  pthread_mutex_lock(&lock);
  uint64_t dropped = n_dropped;
  pthread_mutex_unlock(&lock);
  return dropped;
}

void sim_clear_launches(void) {
  pthread_mutex_lock(&lock);
  entry *it = first;
  first = last = NULL;
  n_logged = 0;
  n_dropped = 0;
  pthread_mutex_unlock(&lock);
  while (it != NULL) {
    entry *next = it->next;
    free(it);
    it = next;
  }
}
