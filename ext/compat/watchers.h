/* Dict and type watchers came with CPython 3.12 (gh-91052, gh-91053); below that nothing can be watched. */
#ifndef TDH_COMPAT_WATCHERS_H
#define TDH_COMPAT_WATCHERS_H

#include <Python.h>

#define TDH_HAS_WATCHERS (PY_VERSION_HEX >= 0x030C0000)

/* 0, or -1 with an exception when `on` is true; never an exception when it is false. */
static inline int watch_dict(int watcher, PyObject *dict, bool on) {
#if TDH_HAS_WATCHERS
  int rc = on ? PyDict_Watch(watcher, dict) : PyDict_Unwatch(watcher, dict);
  if (rc < 0 && !on) PyErr_Clear();
  return rc;
#else
  (void)watcher, (void)dict, (void)on;
  return -1;
#endif
}

static inline int watch_type(int watcher, PyObject *type, bool on) {
#if TDH_HAS_WATCHERS
  int rc = on ? PyType_Watch(watcher, type) : PyType_Unwatch(watcher, type);
  if (rc < 0 && !on) PyErr_Clear();
  return rc;
#else
  (void)watcher, (void)type, (void)on;
  return -1;
#endif
}

#endif
