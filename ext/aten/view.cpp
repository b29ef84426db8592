// Views by arithmetic: size, strides and offset are computed, and the view is made as PyTorch's kernels make it, without
// three passes through the dispatcher. Only for calls that PyTorch's own kernels would serve: the tensor's keys are those
// of a plain CPU or CUDA tensor, the thread's keys are the default ones, nobody records operators, nothing requires grad,
// and each kernel on the way is the one that was seen to be PyTorch's. Anything else, mistakes of the caller among it, is
// left to the operator.
#include "aten/direct.h"

#include <ATen/EmptyTensor.h>
#include <ATen/TensorUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/record_function.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>

#include <array>
#include <map>
#include <optional>
#include <string>

#include "aten/entry.h"
#include "common/handle.h"

namespace trident_hook {

namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

constexpr int n_backends = 2;
constexpr DispatchKeySet plain_keys[n_backends] = {
    DispatchKeySet(
        {DispatchKey::CPU, DispatchKey::ADInplaceOrView, DispatchKey::AutogradCPU, DispatchKey::AutocastCPU}),
    DispatchKeySet(
        {DispatchKey::CUDA, DispatchKey::ADInplaceOrView, DispatchKey::AutogradCUDA, DispatchKey::AutocastCUDA})};
constexpr DispatchKey on_the_way[n_backends][3] = {
    {DispatchKey::CPU, DispatchKey::ADInplaceOrView, DispatchKey::AutogradCPU},
    {DispatchKey::CUDA, DispatchKey::ADInplaceOrView, DispatchKey::AutogradCUDA}};

// The kernels of one operator that were seen to be PyTorch's own.
struct own_kernels {
  c10::OperatorHandle op;
  std::array<std::array<c10::KernelFunction, 3>, n_backends> kernels;

  explicit own_kernels(const c10::OperatorHandle &handle) : op(handle) {
    for (int b = 0; b < n_backends; b++) {
      for (int k = 0; k < 3; k++)
        kernels[b][k] = operator_entry(op).lookup(DispatchKeySet(on_the_way[b][k]));
    }
  }
  bool in_place(int backend) const {
    for (int k = 0; k < 3; k++) {
      const auto &now = operator_entry(op).lookup(DispatchKeySet(on_the_way[backend][k]));
      if (!now._equalsBoxedAndUnboxed(kernels[backend][k])) return false;
    }
    return true;
  }
};

// Never taken down: sites point into it, and aten's operators never go away.
std::map<std::string, own_kernels> &trusted() {
  static auto *all = new std::map<std::string, own_kernels>();
  return *all;
}
const own_kernels *own_kernels_of(const std::string &name) {
  const auto found = trusted().find(name);
  return found == trusted().end() ? nullptr : &found->second;
}

// The backend of a plain tensor in a plain moment; -1 otherwise.
int backend_of(const c10::TensorImpl *impl) {
  const DispatchKeySet keys = impl->key_set();
  const int backend = keys == plain_keys[0] ? 0 : keys == plain_keys[1] ? 1 : -1;
  if (backend < 0) return -1;
  const auto thread = c10::impl::tls_local_dispatch_key_set();
  if (thread.included_ != c10::default_included_set || thread.excluded_ != c10::default_excluded_set) return -1;
  if (impl->has_symbolic_sizes_strides() || impl->is_python_dispatch()) return -1;
  if (impl->requires_grad() && c10::GradMode::is_enabled()) return -1;
  if (c10::AutogradState::get_tls_state().get_view_replay_enabled()) return -1;
  return at::hasGlobalCallbacks() || at::hasThreadLocalCallbacks() ? -1 : backend;
}

uint64_t made_so_far = 0;  // with the GIL

struct geometry {
  at::DimVector sizes, strides;
  int64_t offset = 0;

  explicit geometry(const c10::TensorImpl *impl)
      : sizes(impl->sizes()), strides(impl->strides()), offset(impl->storage_offset()) {}
  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
  void erase(int64_t dim) {
    sizes.erase(sizes.begin() + dim);
    strides.erase(strides.begin() + dim);
  }
};

bool wrap_dim(int64_t *dim, int64_t rank) {
  if (*dim < -rank || *dim >= rank) return false;
  if (*dim < 0) *dim += rank;
  return true;
}

struct call_values {
  const std::vector<argument> &arguments;
  const int64_t *ints;

  bool is_none(size_t at) const { return arguments[at].from == source::constant && arguments[at].constant.isNone(); }
  int64_t number(size_t at) const {
    const argument &a = arguments[at];
    return a.from == source::constant ? a.constant.toInt() : ints[a.slot];
  }
  at::DimVector list(size_t at) const {
    const argument &a = arguments[at];
    if (a.from == source::constant) return at::DimVector(a.constant.toDimVector());
    at::DimVector made;
    for (const list_element &element : a.elements)
      made.push_back(element.slot < 0 ? element.value : ints[element.slot]);
    return made;
  }
};

// Each changes the geometry to that of the result, or returns false: not for us.
using transform = bool (*)(geometry *g, const call_values &values);

bool view(geometry *g, const call_values &values) {
  at::DimVector wanted = values.list(1);
  int64_t total = 1, known = 1, open = -1;
  for (int64_t size : g->sizes)
    total *= size;
  for (size_t d = 0; d < wanted.size(); d++) {
    if (wanted[d] == -1 && open < 0) {
      open = static_cast<int64_t>(d);
    } else if (wanted[d] < 0 || __builtin_mul_overflow(known, wanted[d], &known)) {
      return false;
    }
  }
  if (open >= 0) {
    if (known == 0 || total % known != 0) return false;
    wanted[open] = total / known;
  } else if (known != total) {
    return false;
  }
  const auto strides = at::detail::computeStride(g->sizes, g->strides, wanted);
  if (!strides.has_value()) return false;
  g->sizes = std::move(wanted);
  g->strides = *strides;
  return true;
}

bool transpose(geometry *g, const call_values &values) {
  int64_t a = values.number(1), b = values.number(2);
  if (!wrap_dim(&a, g->rank()) || !wrap_dim(&b, g->rank())) return false;
  std::swap(g->sizes[a], g->sizes[b]);
  std::swap(g->strides[a], g->strides[b]);
  return true;
}

bool t(geometry *g, const call_values &) {
  if (g->rank() != 2) return false;
  std::swap(g->sizes[0], g->sizes[1]);
  std::swap(g->strides[0], g->strides[1]);
  return true;
}

bool permute(geometry *g, const call_values &values) {
  const at::DimVector order = values.list(1);
  if (static_cast<int64_t>(order.size()) != g->rank() || g->rank() > 64) return false;
  const geometry before = *g;
  uint64_t seen = 0;
  for (int64_t d = 0; d < g->rank(); d++) {
    int64_t from = order[d];
    if (!wrap_dim(&from, g->rank()) || (seen >> from & 1)) return false;
    seen |= uint64_t{1} << from;
    g->sizes[d] = before.sizes[from];
    g->strides[d] = before.strides[from];
  }
  return true;
}

bool expand(geometry *g, const call_values &values) {
  const at::DimVector wanted = values.list(1);
  const int64_t more = static_cast<int64_t>(wanted.size()) - g->rank();
  if (more < 0) return false;
  if (g->rank() == 0) return false;
  at::DimVector sizes(wanted.size()), strides(wanted.size());
  for (int64_t d = static_cast<int64_t>(wanted.size()) - 1; d >= 0; d--) {
    // As inferExpandGeometry: a new dimension steps over all that is behind it.
    const bool is_new = d < more;
    const int64_t size = is_new ? 1 : g->sizes[d - more];
    int64_t stride = is_new ? sizes[d + 1] * strides[d + 1] : g->strides[d - more];
    int64_t target = wanted[d];
    if (target == -1) {
      if (is_new) return false;
      target = size;
    }
    if (target < 0) return false;
    if (size != target) {
      if (size != 1) return false;
      stride = 0;
    }
    sizes[d] = target;
    strides[d] = stride;
  }
  g->sizes = std::move(sizes);
  g->strides = std::move(strides);
  return true;
}

bool select(geometry *g, const call_values &values) {
  int64_t dim = values.number(1), index = values.number(2);
  if (!wrap_dim(&dim, g->rank())) return false;
  const int64_t size = g->sizes[dim];
  if (index < -size || index >= size) return false;
  g->offset += (index < 0 ? index + size : index) * g->strides[dim];
  g->erase(dim);
  return true;
}

bool slice(geometry *g, const call_values &values) {
  int64_t dim = values.number(1);
  const int64_t step = values.number(4);
  if (!wrap_dim(&dim, g->rank()) || step <= 0) return false;
  const int64_t size = g->sizes[dim];
  const auto inside = [size](int64_t at, int64_t lowest) {
    if (at < 0) at += size;
    return at < lowest ? lowest : at > size ? size : at;
  };
  const int64_t begin = inside(values.is_none(2) ? 0 : values.number(2), 0);
  const int64_t end = inside(values.is_none(3) ? size : values.number(3), begin);
  g->offset += begin * g->strides[dim];
  g->sizes[dim] = (end - begin + step - 1) / step;
  return !__builtin_mul_overflow(g->strides[dim], step, &g->strides[dim]);
}

bool unsqueeze(geometry *g, const call_values &values) {
  int64_t dim = values.number(1);
  if (!wrap_dim(&dim, g->rank() + 1)) return false;
  const int64_t stride = dim >= g->rank() ? 1 : g->sizes[dim] * g->strides[dim];
  g->sizes.insert(g->sizes.begin() + dim, 1);
  g->strides.insert(g->strides.begin() + dim, stride);
  return true;
}

bool squeeze(geometry *g, const call_values &values) {
  int64_t dim = values.number(1);
  if (!wrap_dim(&dim, g->rank())) return false;
  if (g->sizes[dim] == 1) g->erase(dim);
  return true;
}

bool alias(geometry *, const call_values &) {
  return true;
}

const std::map<std::string, transform> transforms = {
    {"aten::view", view},          {"aten::transpose.int", transpose}, {"aten::t", t},
    {"aten::permute", permute},    {"aten::expand", expand},           {"aten::select.int", select},
    {"aten::slice.Tensor", slice}, {"aten::unsqueeze", unsqueeze},     {"aten::squeeze.dim", squeeze},
    {"aten::alias", alias}};

bool is_given(const argument &a) {
  return a.from == source::integer || a.from == source::boolean || a.from == source::int_list ||
         (a.from == source::constant &&
          (a.constant.isNone() || a.constant.isInt() || a.constant.isBool() || a.constant.isIntList()));
}

class native_view final : public direct_call {
 public:
  native_view(transform compute, const std::vector<argument> &arguments, const own_kernels *own,
              const own_kernels *below)
      : compute_(compute), arguments_(arguments), own_(own), below_(below) {}

  bool run(void *const *tensors, const int64_t *ints, const double *, at::Tensor *result) const override {
    c10::TensorImpl *impl = impl_of(tensors[arguments_[0].slot]);
    const int backend = backend_of(impl);
    if (backend < 0 || !own_->in_place(backend) || !below_->in_place(backend)) return false;
    geometry g(impl);
    if (!compute_(&g, {arguments_, ints})) return false;
    const at::Tensor base{share(impl)};
    if (torch::autograd::isFwGradDefined(base)) return false;
    at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()),
                                                               impl->key_set(), impl->dtype());
    made.unsafeGetTensorImpl()->set_sizes_and_strides(c10::IntArrayRef(g.sizes), c10::IntArrayRef(g.strides), g.offset);
    using torch::autograd::CreationMeta;
    const auto mode = c10::GradMode::is_enabled() ? CreationMeta::DEFAULT : CreationMeta::NO_GRAD_MODE;
    made_so_far++;
    *result = torch::autograd::as_view(base, made, true, true, nullptr, nullptr, mode);
    return true;
  }

 private:
  transform compute_;
  std::vector<argument> arguments_;
  const own_kernels *own_, *below_;  // of the operator, and of the one that most of these kernels call
};

}  // namespace

std::unique_ptr<direct_call> view_call(const c10::OperatorHandle &op, const std::vector<argument> &arguments) {
  const std::string name = c10::toString(op.operator_name());
  const auto compute = transforms.find(name);
  const own_kernels *own = own_kernels_of(name), *below = own_kernels_of("aten::as_strided");
  if (compute == transforms.end() || own == nullptr || below == nullptr) return nullptr;
  if (arguments[0].from != source::tensor) return nullptr;
  for (size_t i = 1; i < arguments.size(); i++) {
    if (!is_given(arguments[i])) return nullptr;
  }
  return std::make_unique<native_view>(compute->second, arguments, own, below);
}

PyObject *py_views_made(PyObject *, PyObject *) {
  return PyLong_FromUnsignedLongLong(made_so_far);
}

PyObject *py_view_trust(PyObject *, PyObject *args) {
  const char *name, *overload;
  if (!PyArg_ParseTuple(args, "ss:view_trust", &name, &overload)) return nullptr;
  const auto op = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!op.has_value()) Py_RETURN_FALSE;
  trusted().try_emplace(c10::toString(op->operator_name()), *op);
  Py_RETURN_TRUE;
}

}  // namespace trident_hook
