/* Python object to IValue, as torch.ops converts its arguments. Declared here because the header that has it,
 * torch/csrc/jit/python/pybind_utils.h, costs ten seconds to include; torch.h says why that is safe. */
#ifndef TDH_COMPAT_TORCH_IVALUE_H
#define TDH_COMPAT_TORCH_IVALUE_H

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type_base.h>
#include <pybind11/pytypes.h>
#include <torch/csrc/Export.h>

#include <optional>

namespace torch::jit {
TORCH_PYTHON_API c10::IValue toIValue(pybind11::handle obj, const c10::TypePtr &type, std::optional<int32_t> N);
}

#endif
