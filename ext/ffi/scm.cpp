// A function's specialization cache module as a TVM FFI function. It is asked without any fallback: the answer is the
// result, the one miss object (type key "trident.Miss"), or the program's own error. Callable from any thread; takes the
// GIL. Tensors that come as opaque handles keep their autograd history, and results are then owned handles.
#include "ffi/scm.h"

#include <torch/csrc/Exceptions.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/reflection/registry.h>

#include <memory>
#include <string>

#include "ffi/convert.h"

namespace ffi = tvm::ffi;

namespace trident_hook {
namespace {

class miss_object : public ffi::Object {
 public:
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("trident.Miss", miss_object, ffi::Object);
};

const ffi::Any &miss() {
  static const ffi::Any one{ffi::ObjectRef(ffi::make_object<miss_object>())};
  return one;
}

class held_gil {
 public:
  held_gil() : state_(PyGILState_Ensure()) {}
  ~held_gil() { PyGILState_Release(state_); }
  held_gil(const held_gil &) = delete;
  held_gil &operator=(const held_gil &) = delete;

 private:
  PyGILState_STATE state_;
};

struct dropped {
  void operator()(PyObject *object) const { Py_XDECREF(object); }
};
using owned = std::unique_ptr<PyObject, dropped>;

void note_handles(const ffi::AnyView &value, crossing *crossed) {
  crossed->handles |= value.type_index() == kTVMFFIOpaquePtr;
}

ffi::Any call(PyObject *ask, ffi::PackedArgs args) {
  held_gil gil;
  crossing crossed;
  owned tuple(PyTuple_New(args.size()));
  if (tuple == nullptr) throw_python_error();
  for (int i = 0; i < args.size(); i++) {
    PyObject *item = to_python(args[i]);
    if (item == nullptr) throw_python_error();
    PyTuple_SET_ITEM(tuple.get(), i, item);
    note_handles(args[i], &crossed);
  }
  owned answer(PyObject_CallOneArg(ask, tuple.get()));
  if (answer == nullptr) throw_python_error();
  PyObject *hit, *result;
  if (!PyArg_ParseTuple(answer.get(), "OO", &hit, &result)) throw_python_error();
  if (hit != Py_True) return miss();
  return from_python(result, crossed);
}

}  // namespace

PyObject *py_scm_function(PyObject *, PyObject *args) {
  PyObject *ask;
  const char *global;
  if (!PyArg_ParseTuple(args, "Os:scm_function", &ask, &global)) return nullptr;
  HANDLE_TH_ERRORS
  // The function may be dropped by any thread, and after the interpreter has gone.
  std::shared_ptr<PyObject> kept(Py_NewRef(ask), [](PyObject *object) {
    if (!Py_IsInitialized()) return;
    held_gil gil;
    Py_DECREF(object);
  });
  ffi::Function::SetGlobal(global, ffi::Function::FromPacked([kept](ffi::PackedArgs given, ffi::Any *result) {
                             try {
                               *result = call(kept.get(), given);
                             } catch (...) {
                               rethrow_as_ffi();
                             }
                           }),
                           true);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

void register_miss() {
  ffi::reflection::ObjectDef<miss_object>();
  ffi::Function::SetGlobal(
      "trident.miss", ffi::Function::FromPacked([](ffi::PackedArgs, ffi::Any *result) { *result = miss(); }), true);
}

}  // namespace trident_hook
