// See context.cpp.
#ifndef TDH_GUARD_CONTEXT_H
#define TDH_GUARD_CONTEXT_H

#include <Python.h>

namespace trident_hook {

PyObject *py_context_is_plain(PyObject *, PyObject *obj);

}  // namespace trident_hook

#endif
