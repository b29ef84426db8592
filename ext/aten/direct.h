// Ways to call an operator that are shorter than the boxed call, with the same effect. A site has at most one of each;
// where there is none, or it does not apply to a call, the boxed call is made.
#ifndef TDH_ATEN_DIRECT_H
#define TDH_ATEN_DIRECT_H

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <vector>

#include "aten/template.h"

namespace trident_hook {

class direct_call {
 public:
  virtual ~direct_call() = default;
  // With the GIL. True: *result is what the operator returned, its one tensor. False: it does not apply to this call, and
  // nothing has happened. Throws what the operator throws.
  virtual bool run(void *const *tensors, const int64_t *ints, const double *doubles, at::Tensor *result) const = 0;
};

// The operator's C++ signature is one of those that unboxed.cpp knows: the call goes through the dispatcher without a
// stack. NULL if not.
std::unique_ptr<direct_call> unboxed_call(const c10::OperatorHandle &op, const std::vector<argument> &arguments);

// The operator makes a view by arithmetic alone: see view.cpp. NULL if not.
std::unique_ptr<direct_call> view_call(const c10::OperatorHandle &op, const std::vector<argument> &arguments);

// view_trust(name, overload): the kernels that are registered for this operator now are PyTorch's own (the caller has read
// the registrations).
PyObject *py_view_trust(PyObject *, PyObject *args);
PyObject *py_views_made(PyObject *, PyObject *);  // views_made() -> how many calls were such views, for tests

}  // namespace trident_hook

#endif
