// Hits that are verified against the plain function; the Python side is trident_hook/verification.
#ifndef TDH_SCM_VERIFIED_H
#define TDH_SCM_VERIFIED_H

#include <Python.h>

namespace trident_hook {

PyObject *py_scm_verified(PyObject *, PyObject *args);
PyObject *py_scm_ask(PyObject *, PyObject *args);

}  // namespace trident_hook

#endif
