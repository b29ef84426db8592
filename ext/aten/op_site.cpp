// Calls of PyTorch operators through the dispatcher, boxed, with whatever keys are active: autograd, autocast and
// overrides that libraries register see the call exactly as they see one from Python.
//
// A site holds the operator and a template of its arguments. Constants are converted once, by the function that
// torch.ops uses, and owned by the site. Operators that a program deregisters (torch.library) are noticed: every
// deregistration anywhere advances a generation, and a site with an old one looks its operator up before it calls.
//
// The operators that wrappers use most have shorter ways: see direct.h.
#include "aten/op_site.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/Exceptions.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aten/direct.h"
#include "common/gil.h"
#include "common/handle.h"
#include "aten/template.h"
#include "common/services.h"

namespace trident_hook {
namespace {

std::atomic<uint64_t> deregistrations{0};

// Called by the dispatcher with its lock held.
class watcher final : public c10::OpRegistrationListener {
  void onOperatorRegistered(const c10::OperatorHandle &) override {}
  void onOperatorDeregistered(const c10::OperatorHandle &) override { deregistrations++; }
};

// Never taken down: the dispatcher outlives this module.
void watch_deregistrations() {
  static auto *registration = new c10::RegistrationHandleRAII(
      c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<watcher>()));
  (void)registration;
}

enum class result : uint8_t { tensor, tensor_list, integer, boolean, floating, scalar };

struct site {
  c10::OperatorHandle op;
  c10::FunctionSchema schema;
  std::vector<argument> arguments;
  std::vector<result> results;
  site_shape shape;
  uint64_t generation;
  bool is_factory;
  std::unique_ptr<direct_call> view, unboxed;  // tried in this order, before the boxed call
  torch::jit::Stack spare;  // an empty vector with capacity, taken by the call that runs; a nested call makes its own
};

std::string name_of(const c10::FunctionSchema &schema) {
  return c10::toString(schema.operator_name());
}

result result_kind(const c10::FunctionSchema &schema, const c10::TypePtr &declared) {
  c10::TypePtr type = declared;
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return result::tensor;
    case c10::TypeKind::ListType:
      if (type->containedType(0)->kind() == c10::TypeKind::TensorType) return result::tensor_list;
      break;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return result::integer;
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
      return result::boolean;
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
      return result::floating;
    case c10::TypeKind::NumberType:
      return result::scalar;
    default:
      break;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "op_site: ", name_of(schema), " returns ", declared->str(),
                              ", which is not supported");
}

// torch.zeros and its like: PyTorch calls those of Python below autograd, so that what fills the new tensor is no change of it. Their
// relatives that take a tensor (zeros_like, new_zeros) are called as any operator is.
bool is_factory(const c10::FunctionSchema &schema) {
  if (schema.name().rfind("aten::", 0) != 0 || schema.name().find("_like") != std::string::npos) return false;
  bool options = false;
  for (const auto &argument : schema.arguments()) {
    if (argument.type()->kind() == c10::TypeKind::TensorType) return false;
    options |= argument.name() == "layout";
  }
  return options;
}

void find_shorter(site *at) {
  if (at->results.size() != 1 || at->results[0] != result::tensor) return;
  at->view = view_call(at->op, at->arguments);
  at->unboxed = unboxed_call(at->op, at->arguments);
}

std::unique_ptr<site> make_site(const std::string &name, const std::string &overload, PyObject *entries, int n_outs) {
  watch_deregistrations();
  const uint64_t generation = deregistrations.load();
  auto op = c10::Dispatcher::singleton().findSchema({name, overload});
  TORCH_CHECK(op.has_value(), "op_site: no operator ", name, overload.empty() ? "" : ".", overload, " is registered");
  const c10::FunctionSchema &schema = op->schema();
  const auto n_arguments = static_cast<Py_ssize_t>(schema.arguments().size());
  TORCH_CHECK_VALUE(!schema.is_vararg() && !schema.is_varret(), "op_site: ", name_of(schema),
                    " takes or returns any number");
  TORCH_CHECK_VALUE(PyTuple_GET_SIZE(entries) == n_arguments, "op_site: ", name_of(schema), " takes ", n_arguments,
                    " arguments, the template has ", PyTuple_GET_SIZE(entries));

  auto made =
      std::make_unique<site>(site{*op, schema, {}, {}, {}, generation, is_factory(schema), nullptr, nullptr, {}});
  for (Py_ssize_t i = 0; i < n_arguments; i++) {
    made->arguments.push_back(template_entry(schema, schema.arguments()[i], PyTuple_GET_ITEM(entries, i)));
  }
  template_shape(made->arguments, &made->shape);
  made->shape.n_outs = n_outs;
  int n_tensors = 0;
  bool lists = false;
  for (const auto &returned : schema.returns()) {
    const result kind = result_kind(schema, returned.type());
    made->results.push_back(kind);
    n_tensors += kind == result::tensor;
    lists |= kind == result::tensor_list;
    made->shape.n_out_ints += kind == result::integer || kind == result::boolean || kind == result::scalar;
    made->shape.n_out_doubles += kind == result::floating || kind == result::scalar;
  }
  TORCH_CHECK_VALUE(lists ? n_outs >= n_tensors : n_outs == n_tensors, "op_site: ", name_of(schema), " returns ",
                    n_tensors, lists ? " tensors and lists of them" : " tensors", ", not ", n_outs);
  find_shorter(made.get());
  return made;
}

// Some operator went away since the last call. Is it ours, and is what has its name now the same operator?
C10_NOINLINE void revalidate(site *at) {
  const uint64_t generation = deregistrations.load();
  auto op = c10::Dispatcher::singleton().findSchema(at->schema.operator_name());
  TORCH_CHECK(op.has_value(), "trident_hook: operator ", name_of(at->schema), " was deregistered");
  TORCH_CHECK(op->schema() == at->schema, "trident_hook: operator ", name_of(at->schema),
              " was registered anew with another schema: ", op->schema());
  if (!(at->op == *op)) {  // the shorter ways hold the old handle; this happens to operators of Python libraries only
    at->view = nullptr;
    at->unboxed = nullptr;
  }
  at->op = *op;
  at->generation = generation;
}

[[noreturn]] C10_NOINLINE void wrong_count(const site &at, size_t seen) {
  TORCH_CHECK(false, "trident_hook: operator ", name_of(at.schema), " returned ", seen, " tensors, ", at.shape.n_outs,
              " were expected");
}

[[noreturn]] C10_NOINLINE void wrong_kind(const site &at, size_t index) {
  TORCH_CHECK(false, "trident_hook: operator ", name_of(at.schema),
              " returned something else than its schema says, as result ", index);
}

bool has_kind(const c10::IValue &value, result kind) {
  switch (kind) {
    case result::tensor:
      return value.isTensor() || value.isNone();
    case result::tensor_list:
      return value.isList() || value.isNone();
    case result::integer:
      return value.isInt();
    case result::boolean:
      return value.isBool();
    case result::floating:
      return value.isDouble();
    case result::scalar:
      return value.isInt() || value.isBool() || value.isDouble();
  }
  return false;
}

// Everything that can go wrong with results, before any of them is given out.
void check_results(const site &at, const torch::jit::Stack &stack) {
  if (C10_UNLIKELY(stack.size() != at.results.size())) wrong_count(at, stack.size());
  size_t n = 0;
  for (size_t i = 0; i < stack.size(); i++) {
    if (C10_UNLIKELY(!has_kind(stack[i], at.results[i]))) wrong_kind(at, i);
    if (at.results[i] == result::tensor) {
      n++;
    } else if (at.results[i] == result::tensor_list && !stack[i].isNone()) {
      n += stack[i].toListRef().size();
    }
  }
  if (C10_UNLIKELY(n != static_cast<size_t>(at.shape.n_outs))) wrong_count(at, n);
}

void take_results(const site &at, torch::jit::Stack &stack, void **outs, int64_t *ints, double *doubles) {
  for (size_t i = 0; i < stack.size(); i++) {
    c10::IValue &value = stack[i];
    switch (at.results[i]) {
      case result::tensor:
        *outs++ = value.isNone() ? nullptr : give(std::move(value).toTensor());
        break;
      case result::tensor_list:
        if (value.isNone()) break;
        for (const c10::IValue &element : value.toListRef()) {
          *outs++ = element.isNone() ? nullptr : give(at::TensorBase(element.toTensor()));
        }
        break;
      case result::integer:
        *ints++ = value.toInt();
        break;
      case result::boolean:
        *ints++ = value.toBool();
        break;
      case result::floating:
        *doubles++ = value.toDouble();
        break;
      case result::scalar:
        *ints++ = value.isInt() ? value.toInt() : value.isBool() ? value.toBool() : 0;
        *doubles++ = value.isDouble() ? value.toDouble() : static_cast<double>(ints[-1]);
        break;
    }
  }
}

void site_free(PyObject *capsule) {
  delete static_cast<site *>(PyCapsule_GetPointer(capsule, TDH_OP_SITE_CAPSULE));
}

}  // namespace

PyObject *op_site_new(PyObject *, PyObject *args) {
  const char *name, *overload;
  PyObject *entries;
  int n_outs;
  if (!PyArg_ParseTuple(args, "ssO!i:op_site", &name, &overload, &PyTuple_Type, &entries, &n_outs)) return nullptr;
  HANDLE_TH_ERRORS
  auto made = make_site(name, overload, entries, n_outs);
  PyObject *capsule = PyCapsule_New(made.get(), TDH_OP_SITE_CAPSULE, site_free);
  if (capsule != nullptr) made.release();
  return capsule;
  END_HANDLE_TH_ERRORS
}

const site_shape &op_site_shape(void *at) {
  return static_cast<site *>(at)->shape;
}

namespace {

// Leaves the results on the stack. Separate from op_call because a warning that the user turned into an exception is
// raised at the end of this function: nothing may have been given out by then.
int invoke(site *at, void *const *tensors, const int64_t *ints, const double *doubles, torch::jit::Stack *stack) {
  HANDLE_TH_ERRORS
  if (C10_UNLIKELY(at->generation != deregistrations.load(std::memory_order_relaxed))) revalidate(at);
  stack->reserve(at->arguments.size() + at->results.size());
  for (const argument &entry : at->arguments)
    template_push(entry, tensors, ints, doubles, stack);
  // One more reference to each input for the length of the call. A tensor whose only owner is its Python object has to
  // take the GIL whenever its count leaves 1 or comes back to it (intrusive_ptr.h, "PyObject preservation"), which
  // kernels would make happen several times in the scope without the GIL: 70 ns each, measured.
  c10::SmallVector<impl_ptr, 8> kept;
  for (int i = 0; i < at->shape.n_tensors; i++)
    kept.push_back(share(tensors[i]));
  {
    released_gil no_gil;
    at->op.callBoxed(stack);
  }
  check_results(*at, *stack);
  return 0;
  END_HANDLE_TH_ERRORS_RET(-1)
}

// 1: *made is the result; 0: neither way applies, and nothing has happened; -1 with an exception. Separate for the same
// reason as invoke().
int call_shorter(site *at, void *const *tensors, const int64_t *ints, const double *doubles, at::Tensor *made) {
  HANDLE_TH_ERRORS
  if (C10_UNLIKELY(at->generation != deregistrations.load(std::memory_order_relaxed))) revalidate(at);
  if (at->view && at->view->run(tensors, ints, doubles, made)) return 1;
  return at->unboxed && at->unboxed->run(tensors, ints, doubles, made);
  END_HANDLE_TH_ERRORS_RET(-1)
}

}  // namespace

int op_call(void *opaque, void *const *tensors, const int64_t *ints, const double *doubles, void **outs,
            int64_t *out_ints, double *out_doubles) {
  site *at = static_cast<site *>(opaque);
  counters[TDH_COUNT_OP_CALL]++;
  std::optional<at::AutoDispatchBelowADInplaceOrView> below;
  if (at->is_factory) below.emplace();
  if (at->unboxed || at->view) {
    at::Tensor made;
    const int done = call_shorter(at, tensors, ints, doubles, &made);
    if (done < 0) return -1;
    if (done > 0) {
      outs[0] = give(std::move(made));
      return 0;
    }
  }
  torch::jit::Stack stack = std::move(at->spare);
  at->spare = torch::jit::Stack();
  if (invoke(at, tensors, ints, doubles, &stack) < 0) return -1;
  take_results(*at, stack, outs, out_ints, out_doubles);
  stack.clear();
  at->spare = std::move(stack);
  return 0;
}

}  // namespace trident_hook
