// Unboxed calls of operators, for the C++ signatures that wrappers use most. The dispatcher sees the same call, with the
// same keys: only the stack of boxed values is left out, about 50 ns. A kernel that is registered boxed (from Python) is
// boxed by the dispatcher itself.
//
// Other threads run during a call, but for a few microseconds of work on the CPU: there, giving the GIL up and taking it
// back is a tenth of the call. Such calls wait for nothing that another thread could hold the GIL for.
#include "aten/direct.h"

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/gil.h"
#include "common/handle.h"

namespace trident_hook {
namespace {

struct not_direct {};  // thrown while a site is made: the boxed call it is

[[noreturn]] void refuse() {
  throw not_direct();
}
void require(bool holds) {
  if (!holds) refuse();
}

struct placeholders {
  void *const *tensors;
  const int64_t *ints;
  const double *doubles;
};

c10::TypeKind kind_of(const c10::TypePtr &type) {
  return type->kind();
}
c10::TypeKind inner_kind(const c10::TypePtr &type, c10::TypeKind outer) {
  return type->kind() == outer ? type->containedType(0)->kind() : c10::TypeKind::AnyType;
}

// One specialization per C++ type of a parameter: whether the schema's type is it, what is kept of the template, and what
// a call makes of that. `value` lives as long as the call; `pass` gives the operator its argument.
template <class P>
struct parameter;

// A reference more for the length of the call: see op_site.cpp on why.
template <>
struct parameter<const at::Tensor &> {
  using value = at::Tensor;
  int32_t slot = -1;
  at::Tensor constant;
  static bool is(const c10::Argument &a) {
    return kind_of(a.real_type()) == c10::TypeKind::TensorType && !(a.alias_info() && a.alias_info()->isWrite());
  }
  explicit parameter(const argument &a) : slot(a.slot) {
    if (a.from == source::constant) {
      require(a.constant.isTensor());
      constant = a.constant.toTensor();
      slot = -1;
    } else {
      require(a.from == source::tensor);
    }
  }
  value get(const placeholders &p) const { return slot < 0 ? constant : at::Tensor(share(p.tensors[slot])); }
  static const at::Tensor &pass(const value &v) { return v; }
};

template <>
struct parameter<at::Tensor &> {
  using value = at::Tensor;
  int32_t slot;
  static bool is(const c10::Argument &a) {
    return kind_of(a.real_type()) == c10::TypeKind::TensorType && a.alias_info() && a.alias_info()->isWrite();
  }
  explicit parameter(const argument &a) : slot(a.slot) { require(a.from == source::tensor); }
  value get(const placeholders &p) const { return at::Tensor(share(p.tensors[slot])); }
  static at::Tensor &pass(value &v) { return v; }
};

template <>
struct parameter<const std::optional<at::Tensor> &> {
  using value = std::optional<at::Tensor>;
  int32_t slot = -1;
  static bool is(const c10::Argument &a) {
    return inner_kind(a.real_type(), c10::TypeKind::OptionalType) == c10::TypeKind::TensorType;
  }
  explicit parameter(const argument &a) : slot(a.slot) {
    if (a.from == source::constant) {
      require(a.constant.isNone());
      slot = -1;
    } else {
      require(a.from == source::optional_tensor || a.from == source::tensor);
    }
  }
  value get(const placeholders &p) const {
    if (slot < 0 || p.tensors[slot] == nullptr) return std::nullopt;
    return at::Tensor(share(p.tensors[slot]));
  }
  static const value &pass(const value &v) { return v; }
};

template <>
struct parameter<const at::ITensorListRef &> {
  struct value {
    c10::SmallVector<at::Tensor, 8> tensors;
    at::ITensorListRef list;
  };
  std::vector<list_element> elements;
  static bool is(const c10::Argument &a) {
    return inner_kind(a.real_type(), c10::TypeKind::ListType) == c10::TypeKind::TensorType;
  }
  explicit parameter(const argument &a) : elements(a.elements) {
    require(a.from == source::tensor_list && a.to != target::optional_elements);
  }
  value get(const placeholders &p) const {
    value made;
    for (const list_element &element : elements)
      made.tensors.push_back(at::Tensor(share(p.tensors[element.slot])));
    return made;
  }
  static const at::ITensorListRef &pass(value &v) { return v.list = at::ITensorListRef(at::TensorList(v.tensors)); }
};

template <>
struct parameter<const at::Scalar &> {
  using value = at::Scalar;
  source from;
  int32_t slot;
  at::Scalar constant;
  static bool is(const c10::Argument &a) { return kind_of(a.real_type()) == c10::TypeKind::NumberType; }
  explicit parameter(const argument &a) : from(a.from), slot(a.slot) {
    if (from == source::constant) {
      require(a.constant.isScalar());
      constant = a.constant.toScalar();
    } else {
      require(from == source::integer || from == source::floating || from == source::boolean);
    }
  }
  value get(const placeholders &p) const {
    if (from == source::constant) return constant;
    if (from == source::floating) return p.doubles[slot];
    return from == source::boolean ? at::Scalar(p.ints[slot] != 0) : at::Scalar(p.ints[slot]);
  }
  static const at::Scalar &pass(const value &v) { return v; }
};

// Numbers: an int or bool from the ints, or a constant.
template <class T>
struct number {
  using value = T;
  int32_t slot = -1;
  int64_t constant = 0;
  explicit number(const argument &a) : slot(a.slot) {
    if (a.from == source::constant) {
      require(a.constant.isInt() || a.constant.isBool());
      constant = a.constant.isInt() ? a.constant.toInt() : a.constant.toBool();
      slot = -1;
    } else {
      require(a.from == source::integer || a.from == source::boolean);
    }
  }
  value get(const placeholders &p) const {
    const int64_t read = slot < 0 ? constant : p.ints[slot];
    if constexpr (std::is_same_v<T, bool>) {
      return read != 0;
    } else {
      return T(read);
    }
  }
  static T pass(const value &v) { return v; }
};
template <>
struct parameter<int64_t> : number<int64_t> {
  using number::number;
  static bool is(const c10::Argument &a) { return kind_of(a.real_type()) == c10::TypeKind::IntType; }
};
template <>
struct parameter<c10::SymInt> : number<c10::SymInt> {
  using number::number;
  static bool is(const c10::Argument &a) { return kind_of(a.real_type()) == c10::TypeKind::SymIntType; }
};
template <>
struct parameter<bool> : number<bool> {
  using number::number;
  static bool is(const c10::Argument &a) { return kind_of(a.real_type()) == c10::TypeKind::BoolType; }
};
template <>
struct parameter<double> {
  using value = double;
  double constant;
  static bool is(const c10::Argument &a) { return kind_of(a.real_type()) == c10::TypeKind::FloatType; }
  explicit parameter(const argument &a) {
    require(a.from == source::constant && (a.constant.isDouble() || a.constant.isInt()));
    constant = a.constant.isDouble() ? a.constant.toDouble() : static_cast<double>(a.constant.toInt());
  }
  value get(const placeholders &) const { return constant; }
  static double pass(value v) { return v; }
};

// Lists of ints, some of them placeholders.
template <class E, class Ref>
struct int_list {
  using value = c10::SmallVector<E, 6>;
  std::vector<list_element> elements;
  explicit int_list(const argument &a) : elements(a.elements) {
    if (a.from == source::constant) {
      require(a.constant.isIntList());
      for (int64_t item : a.constant.toIntVector())
        elements.push_back({-1, item});
    } else {
      require(a.from == source::int_list);
    }
  }
  value get(const placeholders &p) const {
    value made;
    for (const list_element &element : elements)
      made.push_back(E(element.slot < 0 ? element.value : p.ints[element.slot]));
    return made;
  }
  static Ref pass(const value &v) { return Ref(v.data(), v.size()); }
};
template <>
struct parameter<at::IntArrayRef> : int_list<int64_t, at::IntArrayRef> {
  using int_list::int_list;
  static bool is(const c10::Argument &a) {
    return inner_kind(a.real_type(), c10::TypeKind::ListType) == c10::TypeKind::IntType;
  }
};
template <>
struct parameter<c10::SymIntArrayRef> : int_list<c10::SymInt, c10::SymIntArrayRef> {
  using int_list::int_list;
  static bool is(const c10::Argument &a) {
    return inner_kind(a.real_type(), c10::TypeKind::ListType) == c10::TypeKind::SymIntType;
  }
};
template <>
struct parameter<at::OptionalIntArrayRef> {
  using value = std::monostate;
  std::optional<std::vector<int64_t>> constant;
  static bool is(const c10::Argument &a) {
    const auto type = a.real_type();
    return kind_of(type) == c10::TypeKind::OptionalType &&
           inner_kind(type->containedType(0), c10::TypeKind::ListType) == c10::TypeKind::IntType;
  }
  explicit parameter(const argument &a) {
    require(a.from == source::constant && (a.constant.isNone() || a.constant.isIntList()));
    if (!a.constant.isNone()) constant = a.constant.toIntVector();
  }
  value get(const placeholders &) const { return {}; }
  at::OptionalIntArrayRef pass(value) const {
    return constant ? at::OptionalIntArrayRef(at::IntArrayRef(*constant)) : at::OptionalIntArrayRef();
  }
};

// What is a constant of the call site and passed as it is.
template <class P, c10::TypeKind Kind>
struct optional_constant {
  using value = std::monostate;
  std::optional<P> constant;
  static bool is(const c10::Argument &a) { return inner_kind(a.real_type(), c10::TypeKind::OptionalType) == Kind; }
  explicit optional_constant(const argument &a) {
    require(a.from == source::constant);
    if (!a.constant.isNone()) constant = a.constant.to<P>();
  }
  value get(const placeholders &) const { return {}; }
  std::optional<P> pass(value) const { return constant; }
};
template <>
struct parameter<std::optional<at::ScalarType>> : optional_constant<at::ScalarType, c10::TypeKind::ScalarTypeType> {
  using optional_constant::optional_constant;
};
template <>
struct parameter<std::optional<at::Layout>> : optional_constant<at::Layout, c10::TypeKind::LayoutType> {
  using optional_constant::optional_constant;
};
template <>
struct parameter<std::optional<at::Device>> : optional_constant<at::Device, c10::TypeKind::DeviceObjType> {
  using optional_constant::optional_constant;
};
template <>
struct parameter<std::optional<bool>> : optional_constant<bool, c10::TypeKind::BoolType> {
  using optional_constant::optional_constant;
};
template <>
struct parameter<std::optional<at::MemoryFormat>>
    : optional_constant<at::MemoryFormat, c10::TypeKind::MemoryFormatType> {
  using optional_constant::optional_constant;
};
template <>
struct parameter<const std::optional<at::Scalar> &> {
  using value = std::monostate;
  std::optional<at::Scalar> constant;
  static bool is(const c10::Argument &a) {
    return inner_kind(a.real_type(), c10::TypeKind::OptionalType) == c10::TypeKind::NumberType;
  }
  explicit parameter(const argument &a) {
    require(a.from == source::constant);
    if (!a.constant.isNone()) constant = a.constant.toScalar();
  }
  value get(const placeholders &) const { return {}; }
  const std::optional<at::Scalar> &pass(value) const { return constant; }
};
template <>
struct parameter<std::optional<c10::SymInt>> {
  using value = std::optional<c10::SymInt>;
  int32_t slot = -1;
  std::optional<int64_t> constant;
  static bool is(const c10::Argument &a) {
    return inner_kind(a.real_type(), c10::TypeKind::OptionalType) == c10::TypeKind::SymIntType;
  }
  explicit parameter(const argument &a) : slot(a.slot) {
    if (a.from == source::constant) {
      require(a.constant.isNone() || a.constant.isInt());
      if (a.constant.isInt()) constant = a.constant.toInt();
      slot = -1;
    } else {
      require(a.from == source::integer);
    }
  }
  value get(const placeholders &p) const {
    if (slot >= 0) return c10::SymInt(p.ints[slot]);
    return constant ? value(c10::SymInt(*constant)) : std::nullopt;
  }
  static value pass(const value &v) { return v; }
};
template <>
struct parameter<std::string_view> {
  using value = std::monostate;
  std::string constant;
  static bool is(const c10::Argument &a) { return kind_of(a.real_type()) == c10::TypeKind::StringType; }
  explicit parameter(const argument &a) {
    require(a.from == source::constant && a.constant.isString());
    constant = a.constant.toStringRef();
  }
  value get(const placeholders &) const { return {}; }
  std::string_view pass(value) const { return constant; }
};

// Whether a call with this argument is over before another thread would have got the GIL.
constexpr int64_t short_work = 4096;  // elements

inline bool is_short(const at::Tensor &t) {
  return t.defined() && t.device().is_cpu() && t.numel() <= short_work;
}
inline bool is_short(const std::optional<at::Tensor> &t) {
  return !t || is_short(*t);
}
inline bool is_short(const parameter<const at::ITensorListRef &>::value &list) {
  for (const at::Tensor &t : list.tensors) {
    if (!is_short(t)) return false;
  }
  return true;
}
template <class V>
bool is_short(const V &) {
  return true;
}

template <class... P>
constexpr bool takes_tensors =
    (std::is_same_v<P, const at::Tensor &> || ...) || (std::is_same_v<P, at::Tensor &> || ...);

template <class F>
class unboxed;

template <class R, class... P>
class unboxed<R(P...)> final : public direct_call {
 public:
  static bool is(const c10::FunctionSchema &schema) {
    if (schema.arguments().size() != sizeof...(P) || schema.returns().size() != 1) return false;
    if (kind_of(schema.returns()[0].real_type()) != c10::TypeKind::TensorType) return false;
    size_t at = 0;
    return (parameter<P>::is(schema.arguments()[at++]) && ...);
  }

  // Throws c10::Error where the operator's C++ signature is another one after all.
  unboxed(const c10::OperatorHandle &op, const std::vector<argument> &arguments)
      : unboxed(op, arguments, std::index_sequence_for<P...>()) {}

  bool run(void *const *tensors, const int64_t *ints, const double *doubles, at::Tensor *result) const override {
    return run({tensors, ints, doubles}, result, std::index_sequence_for<P...>());
  }

 private:
  template <size_t... I>
  unboxed(const c10::OperatorHandle &op, const std::vector<argument> &arguments, std::index_sequence<I...>)
      : op_(op.typed<R(P...)>()), parameters_(parameter<P>(arguments[I])...) {}

  template <size_t... I>
  bool run(const placeholders &given, at::Tensor *result, std::index_sequence<I...>) const {
    std::tuple<typename parameter<P>::value...> values{std::get<I>(parameters_).get(given)...};
    // What takes a device may copy between two.
    constexpr bool may_be_short = takes_tensors<P...> && !(std::is_same_v<P, std::optional<at::Device>> || ...);
    std::optional<released_gil> no_gil;
    if (!may_be_short || !(is_short(std::get<I>(values)) && ...)) no_gil.emplace();
    *result = op_.call(std::get<I>(parameters_).pass(std::get<I>(values))...);
    return true;
  }

  c10::TypedOperatorHandle<R(P...)> op_;
  std::tuple<parameter<P>...> parameters_;
};

template <class... F>
struct signatures {};

using T = const at::Tensor &;
using M = at::Tensor &;  // is written to
using S = const at::Scalar &;
using I = int64_t;
using N = c10::SymInt;
using B = bool;
using L = at::IntArrayRef;
using Z = c10::SymIntArrayRef;
using D = std::optional<at::ScalarType>;
using Y = std::optional<at::Layout>;
using V = std::optional<at::Device>;
using P = std::optional<bool>;
using F = std::optional<at::MemoryFormat>;
using A = at::Tensor;

using known = signatures<
    // elementwise
    A(T), A(T, T), A(T, T, S), A(T, T, T), A(T, S), A(T, S, S), A(T, T, T, S), A(T, T, T, S, S), A(T, T, S, S),
    A(T, const std::optional<at::Scalar> &, const std::optional<at::Scalar> &), A(T, std::string_view),
    A(T, T, const std::optional<at::Tensor> &),
    // in place
    M(M), M(M, T), M(M, T, S), M(M, T, T), M(M, S), M(M, T, B), M(M, T, T, S),
    // views
    A(T, Z), A(T, Z, B), A(T, I, I), A(T, L), A(T, I, N), A(T, I, std::optional<N>, std::optional<N>, N), A(T, I),
    A(T, Z, Z, std::optional<N>), A(T, I, N, N),
    // reductions and indexing
    A(T, D), A(T, I, B), A(T, I, D), A(T, at::OptionalIntArrayRef, B, D), A(T, L, B), A(T, L, B, D), A(T, I, T),
    A(T, I, T, B), A(const at::ITensorListRef &, I),
    // allocation and conversion
    A(T, F), A(T, D, Y, V, P, F), A(T, D, Y, V, P, B, F), A(T, Z, D, Y, V, P), A(Z, D, Y, V, P), A(Z, D, Y, V, P, F),
    A(Z, S, D, Y, V, P), A(T, S, D, Y, V, P, F)>;

template <class... Fs>
std::unique_ptr<direct_call> first_of(signatures<Fs...>, const c10::OperatorHandle &op,
                                      const std::vector<argument> &arguments) {
  std::unique_ptr<direct_call> made;
  const auto attempt = [&]<class One>(std::type_identity<One>) {
    if (made || !unboxed<One>::is(op.schema())) return;
    try {
      made = std::make_unique<unboxed<One>>(op, arguments);
    } catch (const not_direct &) {
    } catch (const c10::Error &) {
    }
  };
  (attempt(std::type_identity<Fs>()), ...);
  return made;
}

}  // namespace

std::unique_ptr<direct_call> unboxed_call(const c10::OperatorHandle &op, const std::vector<argument> &arguments) {
  // Others may be registered from Python or with a boxed function only.
  if (op.schema().operator_name().name.rfind("aten::", 0) != 0) return nullptr;
  return first_of(known(), op, arguments);
}

}  // namespace trident_hook
