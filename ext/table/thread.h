/* What the doors remember about the running thread. Plain data: no Python references, nothing to release. */
#ifndef TDH_TABLE_THREAD_H
#define TDH_TABLE_THREAD_H

#include "compat/py.h"

/* Beyond this many nested evaluations of ours CPython gets its own inlining back (hook/chain.c, door/call.c). */
#define TDH_DEPTH_LIMIT 300

typedef struct tdh_thread {
  PyCodeObject *pass_code;   /* the next frame of this code was already refused by the call door: run it as it is */
  PyCodeObject *discovering; /* the code object whose function the discoverer is looking at */
  tdh_frame *delegated;      /* the frame that Dynamo has now; it hands back the same one when it skips it */
  tdh_frame *forwarded;      /* the frame that an evaluator below ours has now; it may come back to us */
  int depth;                 /* nested evaluations that went through C because of us */
  int missing;               /* calls of this thread that are in a miss */
  int inside;                /* > 0 while the discoverer or a record runs: what they call is not discovered */
} tdh_thread;

/* initial-exec: one load instead of a call to __tls_get_addr on every frame. 48 bytes of static TLS are always left. */
extern __thread tdh_thread tdh_thread_here __attribute__((tls_model("initial-exec"), visibility("hidden")));

#endif
