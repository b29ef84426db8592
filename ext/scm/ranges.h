// Named ranges of PyTorch's profiler around served calls; the Python side is trident_hook/profiling.py.
#ifndef TDH_LAUNCH_RANGES_H
#define TDH_LAUNCH_RANGES_H

#include <Python.h>

namespace trident_hook {

PyObject *py_scm_ranged(PyObject *, PyObject *args);

}  // namespace trident_hook

#endif
