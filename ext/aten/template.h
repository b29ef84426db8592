// The argument template of an operator site: one entry per schema argument, either a constant or how to build the value
// from the placeholders of a call. The Python form is described at template_entry.
#ifndef TDH_ATEN_TEMPLATE_H
#define TDH_ATEN_TEMPLATE_H

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <vector>

namespace trident_hook {

// How many entries of each array a site reads and writes at most.
struct site_shape {
  int n_tensors = 0, n_ints = 0, n_doubles = 0;
  int n_outs = 0, n_out_ints = 0, n_out_doubles = 0;
};

enum class source : uint8_t { constant, tensor, optional_tensor, integer, floating, boolean, int_list, tensor_list };
enum class target : uint8_t { as_is, integer, floating, boolean, optional_elements, wrapped };

struct list_element {
  int32_t slot;  // -1: the constant (int lists), or None (tensor lists)
  int64_t value;
};

struct argument {
  source from = source::constant;
  target to = target::as_is;
  int32_t slot = -1;
  c10::IValue constant;
  std::vector<list_element> elements;
};

// Parses ("t", slot), ("t?", slot or None), ("i" | "d" | "b", slot), ("il", [("i", slot) | ("c", int)...]),
// ("tl", [slot or None...]), ("c", constant). Throws: TypeError when the schema cannot take it.
argument template_entry(const c10::FunctionSchema &schema, const c10::Argument &declared, PyObject *entry);

// Fills in how many placeholders of each kind the arguments read.
void template_shape(const std::vector<argument> &arguments, site_shape *shape);

// Appends the argument's value. No Python code, one allocation for a list.
void template_push(const argument &entry, void *const *tensors, const int64_t *ints, const double *doubles,
                   torch::jit::Stack *stack);

}  // namespace trident_hook

#endif
