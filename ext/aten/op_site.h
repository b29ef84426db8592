// Prepared calls of operators. A site is made once from Python, when a generated module is loaded, and called from
// there with placeholders filled in; see op_site.cpp.
#ifndef TDH_ATEN_OP_SITE_H
#define TDH_ATEN_OP_SITE_H

#include <Python.h>

#include "aten/template.h"

#define TDH_OP_SITE_CAPSULE "trident_hook._rt.op_site"

namespace trident_hook {

// op_site(name, overload, template, n_tensor_outs) -> PyCapsule. New reference, or NULL with an exception.
PyObject *op_site_new(PyObject *module, PyObject *args);
const site_shape &op_site_shape(void *site);

}  // namespace trident_hook

#endif
