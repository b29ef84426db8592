// Operators of the dispatcher as global functions of TVM FFI, `trident.<namespace>.<name>[.<overload>]`, made from the
// schemas that are registered: nothing is written per operator.
//
// A call gives the schema's arguments in order, keyword-only ones too; trailing ones that have a default may be left out,
// and None stands for the default of what cannot be None. Several results come as an array. The operator is looked up in
// every call: one that was deregistered is an error that names it.
#include "ffi/aten.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/Exceptions.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <memory>
#include <optional>
#include <string>

#include "ffi/convert.h"

namespace ffi = tvm::ffi;

namespace trident_hook {
namespace {

// Other Python threads run during the operator, where the caller holds the GIL at all.
class let_others_run {
 public:
  let_others_run() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~let_others_run() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  let_others_run(const let_others_run &) = delete;
  let_others_run &operator=(const let_others_run &) = delete;

 private:
  PyThreadState *state_;
};

void call(const c10::OperatorName &name, ffi::PackedArgs args, ffi::Any *result) {
  auto op = c10::Dispatcher::singleton().findSchema(name);
  TORCH_CHECK(op.has_value(), "operator ", c10::toString(name), " is not registered");
  const c10::FunctionSchema &schema = op->schema();
  const size_t wanted = schema.arguments().size(), given = args.size();
  TORCH_CHECK_TYPE(given <= wanted, c10::toString(name), " takes ", wanted, " arguments, ", given, " were given; ",
                   schema);
  torch::jit::Stack stack;
  stack.reserve(wanted + schema.returns().size());
  crossing crossed;
  for (size_t i = 0; i < wanted; i++) {
    const c10::Argument &declared = schema.arguments()[i];
    const bool absent = i >= given || (args[i].type_index() == kTVMFFINone && declared.default_value().has_value() &&
                                       declared.type()->kind() != c10::TypeKind::OptionalType);
    if (!absent) {
      stack.push_back(to_ivalue(args[i], declared, &crossed));
    } else {
      TORCH_CHECK_TYPE(declared.default_value().has_value(), c10::toString(name), " misses argument '", declared.name(),
                       "'; ", schema);
      stack.push_back(*declared.default_value());
    }
  }
  {
    let_others_run no_gil;
    op->callBoxed(&stack);
  }
  if (stack.size() == 1) {
    *result = to_any(stack[0], crossed);
  } else if (!stack.empty()) {
    ffi::Array<ffi::Any> several;
    for (const c10::IValue &value : stack)
      several.push_back(to_any(value, crossed));
    *result = std::move(several);
  }
}

bool whole_is_expressible(const c10::FunctionSchema &schema) {
  for (const c10::Argument &argument : schema.arguments()) {
    if (argument.default_value().has_value() && !argument.default_value()->isNone()) continue;  // may be left out
    if (!trident_hook::is_expressible(argument.real_type())) return false;
  }
  for (const c10::Argument &argument : schema.returns()) {
    if (!trident_hook::is_expressible(argument.real_type())) return false;
  }
  return !schema.is_vararg() && !schema.is_varret();
}

}  // namespace

PyObject *py_register(PyObject *, PyObject *args) {
  const char *name, *overload, *global;
  if (!PyArg_ParseTuple(args, "sss:register", &name, &overload, &global)) return nullptr;
  HANDLE_TH_ERRORS
  const c10::OperatorName operator_name(name, overload);
  auto op = c10::Dispatcher::singleton().findSchema(operator_name);
  if (!op.has_value() || !whole_is_expressible(op->schema())) Py_RETURN_FALSE;
  ffi::Function::SetGlobal(global, ffi::Function::FromPacked([operator_name](ffi::PackedArgs given, ffi::Any *result) {
                             try {
                               call(operator_name, given, result);
                             } catch (...) {
                               rethrow_as_ffi();
                             }
                           }),
                           true);
  Py_RETURN_TRUE;
  END_HANDLE_TH_ERRORS
}

void register_handles() {
  ffi::Function::SetGlobal("trident.handle.release",
                           ffi::Function::FromTyped([](void *handle) { release_handle(handle); }), true);
  ffi::Function::SetGlobal("trident.handle.live", ffi::Function::FromTyped([]() { return live_handles; }), true);
}

}  // namespace trident_hook
