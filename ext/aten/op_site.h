// Prepared calls of operators. A site is made once from Python, when a generated module is loaded, and called from
// there with placeholders filled in; see op_site.cpp.
#ifndef TDH_ATEN_OP_SITE_H
#define TDH_ATEN_OP_SITE_H

#include <Python.h>

#define TDH_OP_SITE_CAPSULE "trident_hook._rt.op_site"

namespace trident_hook {

// How many entries of each array a site reads and writes at most.
struct site_shape {
  int n_tensors = 0, n_ints = 0, n_doubles = 0;
  int n_outs = 0, n_out_ints = 0, n_out_doubles = 0;
};

// op_site(name, overload, template, n_tensor_outs) -> PyCapsule. New reference, or NULL with an exception.
PyObject *op_site_new(PyObject *module, PyObject *args);
const site_shape &op_site_shape(void *site);

}  // namespace trident_hook

#endif
