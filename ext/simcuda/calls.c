/* Counters of driver calls, and failures injected into them. */
#include <pthread.h>
#include <string.h>

#include "internal.h"

#define MAX_INJECTIONS 32

typedef struct {
  bool used;
  unsigned char calls[SIM_CALL_COUNT];
  CUresult error;
  int skip, times, fired;
} injection;

_Atomic uint64_t sim_counts[SIM_CALL_COUNT];
_Atomic int sim_injections_armed;
static injection injections[MAX_INJECTIONS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const call_names[] = {
#define X(name) #name,
    SIM_CALLS(X)
#undef X
};

const char *sim_call_name(int index) {
  return index >= 0 && index < SIM_CALL_COUNT ? call_names[index] : NULL;
}

uint64_t sim_call_count(int index) {
  return index >= 0 && index < SIM_CALL_COUNT ? atomic_load(&sim_counts[index]) : 0;
}

void sim_reset_counts(void) {
  for (int i = 0; i < SIM_CALL_COUNT; i++)
    atomic_store(&sim_counts[i], 0);
}

int sim_inject(const unsigned char *calls, int n_calls, int error, int skip, int times) {
  int id = -1;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_INJECTIONS && id < 0; i++)
    if (!injections[i].used) id = i;
  if (id >= 0) {
    injection *it = &injections[id];
    *it = (injection){.used = true, .error = (CUresult)error, .skip = skip, .times = times};
    memcpy(it->calls, calls, n_calls < SIM_CALL_COUNT ? n_calls : SIM_CALL_COUNT);
    atomic_fetch_add(&sim_injections_armed, 1);
  }
  pthread_mutex_unlock(&lock);
  return id;
}

int sim_injected(int id) {
  pthread_mutex_lock(&lock);
  int fired = id >= 0 && id < MAX_INJECTIONS ? injections[id].fired : 0;
  pthread_mutex_unlock(&lock);
  return fired;
}

void sim_withdraw(int id) {
  pthread_mutex_lock(&lock);
  if (id >= 0 && id < MAX_INJECTIONS && injections[id].used) {
    injections[id].used = false;
    atomic_fetch_sub(&sim_injections_armed, 1);
  }
  pthread_mutex_unlock(&lock);
}

/* The slow path of sim_enter: the oldest injection that names the call decides. */
CUresult sim_injected_result(enum sim_call call) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_INJECTIONS; i++) {
    injection *it = &injections[i];
    if (!it->used || !it->calls[call] || it->times == 0) continue;
    if (it->skip > 0) {
      it->skip--;
      continue;
    }
    if (it->times > 0) it->times--;
    it->fired++;
    result = it->error;
    break;
  }
  pthread_mutex_unlock(&lock);
  return result;
}
