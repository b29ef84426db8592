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

#include "services.h"

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

bool must_refuse(const c10::DispatchKeySet included) {
  if ((included.raw_repr() & refused_keys.raw_repr()) != 0) return true;
  using at::impl::PythonTorchFunctionTLS;
  if (PythonTorchFunctionTLS::get_disabled_state() != at::impl::ENABLED) return true;
  if (PythonTorchFunctionTLS::stack_len() != 0) return true;
  const auto &hooks = at::SavedTensorDefaultHooks::get_tls_state();
  return !hooks.stack.empty() || hooks.is_tracing;
}

uint64_t flags_read(const at::Context &context) {
  const c10::AutogradState &autograd = c10::AutogradState::get_tls_state();
  uint64_t flags = 0;
  int position = 0;
  const auto put = [&](uint64_t value, int bits) {
    flags |= value << position;
    position += bits;
  };
  put(autograd.get_grad_mode(), 1);
  put(autograd.get_fw_grad_mode(), 1);
  put(autograd.get_inference_mode(), 1);
  put(at::autocast::is_autocast_cache_enabled(), 1);
  put(context.deterministicAlgorithms(), 1);
  put(context.deterministicAlgorithmsWarnOnly(), 1);
  put(context.deterministicFillUninitializedMemory(), 1);
  // float32Precision and not allowTF32CuBLAS: the latter raises when a program mixes the old and the new API.
  const auto tf32 = [&](at::Float32Op op) {
    return context.float32Precision(at::Float32Backend::CUDA, op) == at::Float32Precision::TF32;
  };
  put(tf32(at::Float32Op::MATMUL), 1);
  put(tf32(at::Float32Op::CONV), 1);
  put(static_cast<uint64_t>(context.allowFP16ReductionCuBLAS()), 2);
  put(static_cast<uint64_t>(context.allowBF16ReductionCuBLAS()), 2);
  return flags;
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

}  // namespace

int state_read(tdh_state *out) {
  static_assert(c10::COMPILE_TIME_MAX_DEVICE_TYPES <= 24, "the autocast dtypes no longer fit words 4 to 6");
  try {
    const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    if (C10_UNLIKELY(must_refuse(keys.included_))) return 0;
    out->word[0] = keys.included_.raw_repr();
    out->word[1] = keys.excluded_.raw_repr();
    out->word[2] = flags_read(at::globalContext());
    out->word[3] = static_cast<uint64_t>(static_cast<uint8_t>(c10::get_default_dtype_as_scalartype())) |
                   static_cast<uint64_t>(static_cast<uint32_t>(at::get_num_threads())) << 32;
    out->word[4] = out->word[5] = out->word[6] = out->word[7] = 0;
    autocast_read(keys.excluded_, out->word + 4);
    return 1;
  } catch (...) {
    if (PyErr_Occurred()) PyErr_Clear();
    return 0;
  }
}

}  // namespace trident_hook
