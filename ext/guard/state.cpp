// Reads the thread's and the process's torch state: what TorchDynamo's GLOBAL_STATE guard compares, and a little more.
// Budget: 60 ns, no allocation, no attribute look-up. Nearly every mode that we do not serve under announces itself in
// the thread's included dispatch keys, so that one `and` finds them all.
#include "compat/torch.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/PyInterpreter.h>

#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/services.h"
#include "guard/state.h"

namespace at {
TORCH_API int get_num_threads();  // ATen/Parallel.h, which pulls in OpenMP's templates
}

namespace trident_hook {
namespace {

using c10::DispatchKey;

// torch-dispatch modes, functorch levels, functionalization, jit.trace, the Python dispatcher.
constexpr c10::DispatchKeySet refused_keys({
    DispatchKey::Python,
    DispatchKey::PythonTLSSnapshot,
    DispatchKey::PythonDispatcher,
    DispatchKey::PreDispatch,
    DispatchKey::FuncTorchDynamicLayerFrontMode,
    DispatchKey::FuncTorchDynamicLayerBackMode,
    DispatchKey::FuncTorchVmapMode,
    DispatchKey::VmapMode,
    DispatchKey::FuncTorchGradWrapper,
    DispatchKey::FuncTorchBatched,
    DispatchKey::Functionalize,
    DispatchKey::DeferredInit,
    DispatchKey::Tracer,
});

// Private fields of PyTorch's, which an explicit instantiation may name (see aten/alloc.cpp).
template <auto Disabled, auto Stack>
struct fields_of_functions {
  friend bool is_quiet(const at::impl::PythonTorchFunctionTLS &functions) {
    return functions.*Disabled == at::impl::ENABLED && (functions.*Stack).empty();
  }
};
template struct fields_of_functions<&at::impl::PythonTorchFunctionTLS::disabled_state_,
                                    &at::impl::PythonTorchFunctionTLS::stack_>;
bool is_quiet(const at::impl::PythonTorchFunctionTLS &functions);

// What a thread keeps for itself and is read on every call, found once: each of PyTorch's accessors is a call and a
// search for a thread-local variable. The variables live as long as their thread, and are assigned to in place.
struct thread_places {
  const at::impl::PythonTorchFunctionTLS *functions;
  const at::impl::SavedTensorDefaultHooksTLS *hooks;
  const c10::AutogradState *autograd;
};
thread_local thread_places places_here = {};

const thread_places &places() {
  if (C10_UNLIKELY(places_here.autograd == nullptr)) {
    places_here = {&at::impl::PythonTorchFunctionTLS::get_state(), &at::SavedTensorDefaultHooks::get_tls_state(),
                   &c10::AutogradState::get_tls_state()};
  }
  return places_here;
}

bool must_refuse(const c10::DispatchKeySet included, const thread_places &here) {
  if ((included.raw_repr() & refused_keys.raw_repr()) != 0) return true;
  return !is_quiet(*here.functions) || here.hooks->is_tracing;
}

// Saved-tensor hooks that are plain functions: a program that saves nothing never calls them. Of other hooks (traceable
// ones) Dynamo asks which they are, so they are not ours.
bool are_plain(const std::pair<c10::SafePyObject, c10::SafePyObject> &hooks) {
  const auto is_function = [](const c10::SafePyObject &hook) { return PyFunction_Check(hook.ptr(getPyInterpreter())); };
  return is_function(hooks.first) && is_function(hooks.second);
}

// The table behind float32Precision(), which looks up to three keys up for each question: a tenth of a hit. PyTorch keeps
// the field private; an explicit instantiation may name it (see aten/alloc.cpp). Nothing is ever taken out of the table,
// so its values stay where they are.
template <auto Field>
struct field_of_context {
  friend const auto &precision_table(const at::Context &context) { return context.*Field; }
};
template struct field_of_context<&at::Context::fp32_precision>;
const auto &precision_table(const at::Context &context);

class precision {
 public:
  explicit precision(at::Float32Op op)
      : own_(place(at::Float32Backend::CUDA, op)),
        backend_(place(at::Float32Backend::CUDA, at::Float32Op::ALL)),
        generic_(place(at::Float32Backend::GENERIC, at::Float32Op::ALL)) {}

  // As float32Precision(CUDA, op) == TF32: the most particular setting that there is decides.
  bool is_tf32() const {
    constexpr auto none = at::Float32Precision::NONE;
    return (*own_ != none ? *own_ : *backend_ != none ? *backend_ : *generic_) == at::Float32Precision::TF32;
  }

 private:
  static const at::Float32Precision *place(at::Float32Backend backend, at::Float32Op op) {
    return &precision_table(at::globalContext()).at({backend, op});
  }
  const at::Float32Precision *own_, *backend_, *generic_;
};

constexpr size_t n_flags = sizeof(state_flags) / sizeof(state_flags[0]);

constexpr int position_of(size_t flag) {
  int position = 0;
  for (size_t i = 0; i < flag; i++)
    position += state_flags[i].bits;
  return position;
}

template <size_t... I, class... V>
uint64_t flags_of(std::index_sequence<I...>, V... values) {
  static_assert(sizeof...(V) == n_flags);
  return ((static_cast<uint64_t>(values) << std::integral_constant<int, position_of(I)>::value) | ...);
}

uint64_t flags_read(const at::Context &context, const c10::AutogradState &autograd) {
  static const precision matmul(at::Float32Op::MATMUL), conv(at::Float32Op::CONV);
  // Not allowTF32CuBLAS: it raises when a program mixes the old and the new API.
  // In the order of state_flags; written out, so that no loop is left of it.
  return flags_of(std::make_index_sequence<n_flags>(), autograd.get_grad_mode(), autograd.get_fw_grad_mode(),
                  autograd.get_inference_mode(), at::autocast::is_autocast_cache_enabled(),
                  context.deterministicAlgorithms(), context.deterministicAlgorithmsWarnOnly(),
                  context.deterministicFillUninitializedMemory(), matmul.is_tf32(), conv.is_tf32(),
                  static_cast<uint64_t>(context.allowFP16ReductionCuBLAS()),
                  static_cast<uint64_t>(context.allowBF16ReductionCuBLAS()));
}

// One byte per device type: 1 + the autocast dtype. Autocast of a device is on when its key is not excluded (word 1);
// where it is off the byte is 0, except for CPU and CUDA: torch.autocast(device) without a dtype reads those.
void autocast_read(const c10::DispatchKeySet excluded, uint64_t *words) {
  const auto put = [&](c10::DeviceType device) {
    const uint64_t value = 1 + static_cast<uint64_t>(at::autocast::get_autocast_dtype(device));
    const int slot = static_cast<int>(device);
    words[slot / 8] |= value << (8 * (slot % 8));
  };
  put(c10::DeviceType::CPU);
  put(c10::DeviceType::CUDA);
  if (C10_LIKELY((c10::autocast_dispatch_keyset - excluded).empty())) return;
  static constexpr struct {
    DispatchKey key;
    c10::DeviceType device;
  } others[] = {
      {DispatchKey::AutocastMPS, c10::DeviceType::MPS},
      {DispatchKey::AutocastXPU, c10::DeviceType::XPU},
      {DispatchKey::AutocastIPU, c10::DeviceType::IPU},
      {DispatchKey::AutocastHPU, c10::DeviceType::HPU},
      {DispatchKey::AutocastXLA, c10::DeviceType::XLA},
      {DispatchKey::AutocastMTIA, c10::DeviceType::MTIA},
      {DispatchKey::AutocastMAIA, c10::DeviceType::MAIA},
      {DispatchKey::AutocastPrivateUse1, c10::DeviceType::PrivateUse1},
  };
  for (const auto &other : others) {
    if (!excluded.has(other.key)) put(other.device);
  }
}

// Operators that make tensors without the dispatcher's help in a served call (see aten/alloc.cpp); one bit for each.
constexpr const char *allocations[] = {"empty.memory_format", "empty_strided", "empty_like", "new_empty",
                                       "new_empty_strided"};

// What Python has registered in the dispatcher: torch.library's set of "namespace/operator/key". A set has no version, but within one
// table what was added shows in `fill`, what was removed in `used`, and a table that grows is another one.
PySetObject *registrations = nullptr;
struct fingerprint {
  Py_ssize_t fill, used, mask;
  const setentry *table;
} seen = {-1, -1, -1, nullptr};
uint64_t replaced = 0;

// Bits of `allocations` for which there is a kernel written in Python, of whatever dispatch key but Meta.
C10_NOINLINE uint64_t replaced_now() {
  uint64_t found = 0;
  PyObject *each = PyObject_GetIter(reinterpret_cast<PyObject *>(registrations));
  while (PyObject *key = each == nullptr ? nullptr : PyIter_Next(each)) {
    const char *text = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : nullptr;
    std::string_view name(text == nullptr ? "" : text);
    const size_t end = name.rfind('/');
    if (name.rfind("aten/", 0) == 0 && end > 5 && name.substr(end) != "/Meta") {
      for (size_t i = 0; i < std::size(allocations); i++)
        if (name.substr(5, end - 5) == allocations[i]) found |= uint64_t{1} << i;
    }
    Py_DECREF(key);
  }
  Py_XDECREF(each);
  if (PyErr_Occurred()) PyErr_Clear();
  return found;
}

uint64_t replaced_allocations() {
  if (registrations == nullptr) return 0;
  const fingerprint now = {registrations->fill, registrations->used, registrations->mask, registrations->table};
  if (C10_UNLIKELY(now.fill != seen.fill || now.used != seen.used || now.mask != seen.mask ||
                   now.table != seen.table)) {
    replaced = replaced_now();
    seen = now;
  }
  return replaced;
}

}  // namespace

// registrations_watch(set): torch.library's set of what Python has registered, from here on
PyObject *py_registrations_watch(PyObject *, PyObject *set) {
  if (!PySet_CheckExact(set)) return PyErr_Format(PyExc_TypeError, "registrations_watch: a set, not %R", Py_TYPE(set));
  Py_INCREF(set);
  Py_XDECREF(registrations);
  registrations = reinterpret_cast<PySetObject *>(set);
  seen.table = nullptr;
  Py_RETURN_NONE;
}

int state_read(tdh_state *out) {
  static_assert(c10::COMPILE_TIME_MAX_DEVICE_TYPES <= 24, "the autocast dtypes no longer fit words 4 to 6");
  try {
    const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    const thread_places &here = places();
    if (C10_UNLIKELY(must_refuse(keys.included_, here))) return 0;
    const bool hooks = !here.hooks->stack.empty();
    if (C10_UNLIKELY(hooks) && !are_plain(here.hooks->stack.top())) return 0;
    out->word[0] = keys.included_.raw_repr();
    out->word[1] = keys.excluded_.raw_repr();
    out->word[2] = flags_read(at::globalContext(), *here.autograd);
    out->word[3] = static_cast<uint64_t>(static_cast<uint8_t>(c10::get_default_dtype_as_scalartype())) |
                   replaced_allocations() << 8 |
                   static_cast<uint64_t>(static_cast<uint32_t>(at::get_num_threads())) << 32;
    out->word[4] = out->word[5] = out->word[6] = 0;
    out->word[TDH_STATE_HOOKS] = hooks;
    autocast_read(keys.excluded_, out->word + 4);
    return 1;
  } catch (...) {
    if (PyErr_Occurred()) PyErr_Clear();
    return 0;
  }
}

}  // namespace trident_hook
