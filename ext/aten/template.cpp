// Parsing and filling of argument templates, see template.h. Parsing is cold and strict: what the schema would refuse
// is refused here, when the site is made, because at call time there is no way back.
#include "aten/template.h"

#include "compat/torch_ivalue.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <string>

#include "common/handle.h"

namespace trident_hook {
namespace {

// A Python number in a tensor's place (`x * 2`): a 0-dim tensor whose dtype does not take part in type promotion. Below
// autograd and outside inference mode, as PyTorch's own argument parser makes it.
at::Tensor wrapped_number(const at::Scalar &value) {
  c10::InferenceMode ordinary(false);
  at::AutoDispatchBelowADInplaceOrView below;
  at::Tensor tensor = c10::scalar_to_tensor(value);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

struct parser {
  const c10::FunctionSchema &schema;
  const c10::Argument &declared;
  c10::TypePtr type;  // the declared type without its Optional
  bool optional = false;

  parser(const c10::FunctionSchema &s, const c10::Argument &d) : schema(s), declared(d), type(d.real_type()) {
    if (auto inner = type->cast<c10::OptionalType>()) {
      optional = true;
      type = inner->getElementType();
    }
  }

  [[noreturn]] void fail(const std::string &what) const {
    TORCH_CHECK_TYPE(false, "op_site: ", c10::toString(schema.operator_name()), ", argument '", declared.name(), "' (",
                     declared.real_type()->str(), "): ", what);
  }

  void require(bool holds, const char *what) const {
    if (!holds) fail(what);
  }

  bool is_list_of(c10::TypeKind kind) const {
    return type->kind() == c10::TypeKind::ListType && type->containedType(0)->kind() == kind;
  }

  int64_t integer(PyObject *value) const {
    const long long read = PyLong_CheckExact(value) ? PyLong_AsLongLong(value) : -1;
    if (!PyLong_CheckExact(value) || (read == -1 && PyErr_Occurred())) {
      PyErr_Clear();
      fail("a template number is not an int of 64 bits");
    }
    return read;
  }

  int32_t slot(PyObject *value) const {
    const int64_t read = integer(value);
    require(read >= 0 && read < 1 << 20, "a slot is out of range");
    return static_cast<int32_t>(read);
  }

  // Where a number goes. Dtypes, layouts and memory formats are ints to the dispatcher.
  target number(source from) const {
    switch (type->kind()) {
      case c10::TypeKind::NumberType:
        return from == source::integer    ? target::integer
               : from == source::floating ? target::floating
                                          : target::boolean;
      case c10::TypeKind::TensorType:
        return target::wrapped;
      case c10::TypeKind::IntType:
      case c10::TypeKind::SymIntType:
      case c10::TypeKind::ScalarTypeType:
      case c10::TypeKind::LayoutType:
      case c10::TypeKind::MemoryFormatType:
        if (from == source::integer) return target::integer;
        break;
      case c10::TypeKind::FloatType:
      case c10::TypeKind::SymFloatType:
        if (from != source::boolean) return target::floating;
        break;
      case c10::TypeKind::BoolType:
      case c10::TypeKind::SymBoolType:
        if (from != source::floating) return target::boolean;
        break;
      default:
        break;
    }
    fail("takes no number of this kind");
  }

  c10::IValue constant(PyObject *value) const {
    try {
      if (type->kind() == c10::TypeKind::TensorType) {
        if (PyBool_Check(value)) return wrapped_number(value == Py_True);
        if (PyLong_Check(value)) return wrapped_number(static_cast<int64_t>(integer(value)));
        if (PyFloat_Check(value)) return wrapped_number(PyFloat_AS_DOUBLE(value));
        if (PyComplex_Check(value)) {
          return wrapped_number(c10::complex<double>(PyComplex_RealAsDouble(value), PyComplex_ImagAsDouble(value)));
        }
      }
      return torch::jit::toIValue(value, declared.real_type(), declared.N());
    } catch (const std::exception &error) {
      if (PyErr_Occurred()) PyErr_Clear();
      fail(std::string("cannot take the constant: ") + error.what());
    }
  }

  void int_list(PyObject *values, argument *out) const {
    require(is_list_of(c10::TypeKind::IntType) || is_list_of(c10::TypeKind::SymIntType), "is no list of ints");
    each(values, [&](PyObject *element) {
      const char *kind = tag(element);
      PyObject *value = PyTuple_GET_ITEM(element, 1);
      if (std::string(kind) == "i") {
        out->elements.push_back({slot(value), 0});
      } else {
        require(std::string(kind) == "c", "an int list has elements ('i', slot) and ('c', int)");
        out->elements.push_back({-1, integer(value)});
      }
    });
  }

  void tensor_list(PyObject *values, argument *out) const {
    const bool plain = is_list_of(c10::TypeKind::TensorType);
    bool holes = false;
    if (!plain && type->kind() == c10::TypeKind::ListType) {
      const auto inner = type->containedType(0)->cast<c10::OptionalType>();
      holes = inner && inner->getElementType()->kind() == c10::TypeKind::TensorType;
    }
    require(plain || holes, "is no list of tensors");
    if (holes) out->to = target::optional_elements;
    each(values, [&](PyObject *element) {
      require(holes || element != Py_None, "has no None among its tensors");
      out->elements.push_back({element == Py_None ? -1 : slot(element), 0});
    });
  }

  template <typename F>
  void each(PyObject *values, F visit) const {
    require(PyList_Check(values) || PyTuple_Check(values), "its template is no list");
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(values); i++)
      visit(PySequence_Fast_GET_ITEM(values, i));
  }

  const char *tag(PyObject *entry) const {
    const bool pair =
        PyTuple_Check(entry) && PyTuple_GET_SIZE(entry) == 2 && PyUnicode_Check(PyTuple_GET_ITEM(entry, 0));
    require(pair, "a template entry is a pair (kind, value)");
    const char *text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(entry, 0));
    if (text == nullptr) throw python_error();
    return text;
  }
};

}  // namespace

argument template_entry(const c10::FunctionSchema &schema, const c10::Argument &declared, PyObject *entry) {
  const parser parse(schema, declared);
  const std::string kind = parse.tag(entry);
  PyObject *value = PyTuple_GET_ITEM(entry, 1);
  argument out;
  if (kind == "c") {
    out.constant = parse.constant(value);
  } else if (kind == "t" || kind == "t?") {
    parse.require(parse.type->kind() == c10::TypeKind::TensorType, "takes no tensor");
    out.from = parse.optional ? source::optional_tensor : source::tensor;
    if (value == Py_None) {
      parse.require(parse.optional && kind == "t?", "must not be None");
      out.from = source::constant;
    } else {
      out.slot = parse.slot(value);
    }
  } else if (kind == "i" || kind == "d" || kind == "b") {
    out.from = kind == "i" ? source::integer : kind == "d" ? source::floating : source::boolean;
    out.to = parse.number(out.from);
    out.slot = parse.slot(value);
  } else if (kind == "il") {
    out.from = source::int_list;
    parse.int_list(value, &out);
  } else if (kind == "tl") {
    out.from = source::tensor_list;
    parse.tensor_list(value, &out);
  } else {
    parse.fail("no such template kind: '" + kind + "'");
  }
  return out;
}

void template_shape(const std::vector<argument> &arguments, site_shape *shape) {
  const auto use = [](int *count, int32_t slot) { *count = std::max(*count, slot + 1); };
  for (const argument &entry : arguments) {
    int *count = nullptr;
    switch (entry.from) {
      case source::constant:
        continue;
      case source::tensor:
      case source::optional_tensor:
      case source::tensor_list:
        count = &shape->n_tensors;
        break;
      case source::integer:
      case source::boolean:
      case source::int_list:
        count = &shape->n_ints;
        break;
      case source::floating:
        count = &shape->n_doubles;
        break;
    }
    use(count, entry.slot);
    for (const list_element &element : entry.elements)
      use(count, element.slot);
  }
}

namespace {

void push_number(const argument &entry, int64_t value, torch::jit::Stack *stack) {
  if (entry.to == target::wrapped) {
    stack->emplace_back(entry.from == source::boolean ? wrapped_number(value != 0) : wrapped_number(value));
    return;
  }
  if (entry.to == target::floating) {
    stack->emplace_back(static_cast<double>(value));
  } else if (entry.to == target::boolean) {
    stack->emplace_back(value != 0);
  } else {
    stack->emplace_back(value);
  }
}

void push_tensor_list(const argument &entry, void *const *tensors, torch::jit::Stack *stack) {
  const auto value = [&](const list_element &element) { return at::Tensor(share(tensors[element.slot])); };
  if (entry.to == target::optional_elements) {
    c10::List<std::optional<at::Tensor>> list;
    list.reserve(entry.elements.size());
    for (const list_element &element : entry.elements) {
      const bool none = element.slot < 0 || tensors[element.slot] == nullptr;
      list.push_back(none ? std::nullopt : std::optional<at::Tensor>(value(element)));
    }
    stack->emplace_back(std::move(list));
  } else {
    c10::List<at::Tensor> list;
    list.reserve(entry.elements.size());
    for (const list_element &element : entry.elements)
      list.push_back(value(element));
    stack->emplace_back(std::move(list));
  }
}

}  // namespace

void template_push(const argument &entry, void *const *tensors, const int64_t *ints, const double *doubles,
                   torch::jit::Stack *stack) {
  switch (entry.from) {
    case source::constant:
      stack->push_back(entry.constant);
      break;
    case source::tensor:
      stack->emplace_back(at::Tensor(share(tensors[entry.slot])));
      break;
    case source::optional_tensor:
      if (tensors[entry.slot] == nullptr) {
        stack->emplace_back();
      } else {
        stack->emplace_back(at::Tensor(share(tensors[entry.slot])));
      }
      break;
    case source::integer:
    case source::boolean:
      push_number(entry, ints[entry.slot], stack);
      break;
    case source::floating:
      if (entry.to == target::wrapped) {
        stack->emplace_back(wrapped_number(doubles[entry.slot]));
      } else {
        stack->emplace_back(doubles[entry.slot]);
      }
      break;
    case source::int_list: {
      c10::List<int64_t> list;
      list.reserve(entry.elements.size());
      for (const list_element &element : entry.elements) {
        list.push_back(element.slot < 0 ? element.value : ints[element.slot]);
      }
      stack->emplace_back(std::move(list));
      break;
    }
    case source::tensor_list:
      push_tensor_list(entry, tensors, stack);
      break;
  }
}

}  // namespace trident_hook
