/* What becomes of an exception where nothing may be raised. One that is an Exception is a fault of ours, or of a comparison
 * that then counts as failed. Any other (KeyboardInterrupt, SystemExit, what a time limit raises) was sent to the program
 * and only happened to arrive while we ran: it must reach the caller. Where it cannot be passed on at once it is put off:
 * the running thread raises it at the next place where CPython looks for such things, which is the next call or jump back.
 * Needs the GIL. Cold. */
#ifndef TDH_INTERRUPT_H
#define TDH_INTERRUPT_H

#include <Python.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Whether the pending exception is one. False where none is pending. */
static inline int tdh_is_interrupt(void) {
  return PyErr_Occurred() != NULL && !PyErr_ExceptionMatches(PyExc_Exception);
}

static inline int tdh_interrupt_raise(void *exception) {
  PyErr_SetObject((PyObject *)Py_TYPE((PyObject *)exception), (PyObject *)exception);
  Py_DECREF((PyObject *)exception);
  return -1;
}

/* Signals arrive in the main thread, which can be given the very object. Another thread is interrupted by
 * PyThreadState_SetAsyncExc, which knows classes only. */
static inline void tdh_interrupt_put_off(void) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (syscall(SYS_gettid) == getpid() && value != NULL && Py_AddPendingCall(tdh_interrupt_raise, value) == 0)
    value = NULL; /* its reference is the call's now */
  else
    PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), type);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

/* In the place of PyErr_Clear wherever Python code may have run. */
static inline void tdh_error_drop(void) {
  if (tdh_is_interrupt())
    tdh_interrupt_put_off();
  else
    PyErr_Clear();
}

/* Whether the pending exception is dropped, so that the plain function can run. An interrupt stays pending. */
static inline int tdh_error_left(void) {
  if (tdh_is_interrupt()) return 0;
  PyErr_Clear();
  return 1;
}

#endif
