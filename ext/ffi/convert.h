// Values of TVM FFI on one side, PyTorch's on the other. Tensors cross by DLPack or as opaque handles (a `void *` to the
// TensorImpl), never by a copy.
#ifndef TDH_FFI_CONVERT_H
#define TDH_FFI_CONVERT_H

#include <Python.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <tvm/ffi/any.h>

#include <utility>
#include <vector>

namespace trident_hook {

// What one call has to remember of its tensor arguments.
struct crossing {
  bool handles = false;  // some tensor came as an opaque handle: tensors go back as owned handles
  // A returned argument is the caller's object. The tensors are kept: a result could get the address of one that is gone.
  std::vector<std::pair<at::Tensor, tvm::ffi::Any>> given;
};

// Whether `type` can be expressed at all.
bool is_expressible(const c10::TypePtr &type);

// Throws c10::TypeError. Takes the GIL for opaque Python objects only.
c10::IValue to_ivalue(const tvm::ffi::AnyView &value, const c10::Argument &declared, crossing *crossed);
// Throws c10::Error for what DLPack cannot carry.
tvm::ffi::Any to_any(const c10::IValue &value, const crossing &crossed);

// With the GIL; a new reference or NULL with an exception.
PyObject *to_python(const tvm::ffi::AnyView &value);
// With the GIL; throws c10::Error.
tvm::ffi::Any from_python(PyObject *value, const crossing &crossed);

// Reports the C++ exception being handled, or a pending Python one, as a TVM FFI error: the kind is the Python class.
[[noreturn]] void rethrow_as_ffi();
[[noreturn]] void throw_python_error();

// Owned handles that were given out and have not come back.
extern int64_t live_handles;
at::Tensor take_handle(void *handle);
void release_handle(void *handle);

}  // namespace trident_hook

#endif
