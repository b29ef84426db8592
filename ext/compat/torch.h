/* The only home of PyTorch version checks, and of the few libtorch declarations that are repeated here instead of being
 * included: their headers (pybind_utils.h, ATen/autocast_mode.h) cost ten seconds a file. Parameters that no longer
 * match are an undefined symbol when the module is loaded, not a wrong call: the mangled name holds their types. Return
 * types are not in it; compare them with the headers named below when a new PyTorch is added. */
#ifndef TDH_COMPAT_TORCH_H
#define TDH_COMPAT_TORCH_H

#include <torch/headeronly/version.h>

#define TDH_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if !TDH_TORCH_AT_LEAST(2, 11)
#error "trident_hook needs PyTorch 2.11 or newer: tensors own their Python object differently before it."
#endif

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/macros/Export.h>
#include <torch/csrc/Export.h>

/* ATen/autocast_mode.h */
namespace at::autocast {
TORCH_API c10::ScalarType get_autocast_dtype(c10::DeviceType device_type);
TORCH_API bool is_autocast_cache_enabled();
}  // namespace at::autocast

/* torch/csrc/utils/device_lazy_init.h */
namespace torch::utils {
TORCH_PYTHON_API void device_lazy_init(c10::DeviceType device_type);
}

#endif
