// Values between PyTorch and TVM FFI: tensors without copying, by DLPack or as opaque handles; numbers, lists, strings.
#include "ffi/convert.h"

#include <ATen/DLConvertor.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/string.h>

#include <atomic>
#include <string>

#include "compat/torch_ivalue.h"

namespace ffi = tvm::ffi;

namespace trident_hook {

int64_t live_handles = 0;

namespace {

using impl_ptr = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

class held_gil {
 public:
  held_gil() : state_(PyGILState_Ensure()) {}
  ~held_gil() { PyGILState_Release(state_); }
  held_gil(const held_gil &) = delete;
  held_gil &operator=(const held_gil &) = delete;

 private:
  PyGILState_STATE state_;
};

TVMFFIAny raw(const ffi::AnyView &value) {
  return value.CopyToTVMFFIAny();
}

int kind_of(const ffi::AnyView &value) {
  return value.type_index();
}

at::Tensor from_handle(void *handle) {
  return at::Tensor(impl_ptr::unsafe_reclaim_from_nonowning(static_cast<c10::TensorImpl *>(handle)));
}

// The storage stays the caller's; it lives for the length of the call only.
at::Tensor from_borrowed(const DLTensor *borrowed) {
  auto *managed = new DLManagedTensor{*borrowed, nullptr, [](DLManagedTensor *self) { delete self; }};
  return at::fromDLPack(managed);
}

at::Tensor from_object(const ffi::AnyView &value) {
  return at::fromDLPackVersioned(value.cast<ffi::Tensor>().ToDLPackVersioned());
}

// A number in a tensor's place, as PyTorch's argument parser makes it.
at::Tensor wrapped_number(const at::Scalar &value) {
  c10::InferenceMode ordinary(false);
  at::AutoDispatchBelowADInplaceOrView below;
  at::Tensor tensor = c10::scalar_to_tensor(value);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

PyObject *opaque(const ffi::AnyView &value) {
  return static_cast<PyObject *>(TVMFFIOpaqueObjectGetCellPtr(raw(value).v_obj)->handle);
}

bool is_string(int kind) {
  return kind == kTVMFFIStr || kind == kTVMFFISmallStr || kind == kTVMFFIRawStr;
}

struct converter {
  const c10::Argument &declared;
  crossing *crossed;

  [[noreturn]] void fail(const ffi::AnyView &value, const c10::TypePtr &type) const {
    TORCH_CHECK_TYPE(false, "argument '", declared.name(), "' must be ", type->repr_str(), ", not ",
                     value.GetTypeKey());
  }

  at::Tensor tensor(const ffi::AnyView &value, const c10::TypePtr &type) const {
    switch (kind_of(value)) {
      case kTVMFFITensor:
        return remember(from_object(value), ffi::Any(value));
      case kTVMFFIDLTensorPtr:
        return remember(from_borrowed(static_cast<const DLTensor *>(raw(value).v_ptr)), ffi::Any());
      case kTVMFFIOpaquePtr: {
        crossed->handles = true;
        void *handle = raw(value).v_ptr;
        return handle == nullptr ? at::Tensor() : from_handle(handle);
      }
      case kTVMFFIInt:
        return wrapped_number(raw(value).v_int64);
      case kTVMFFIBool:
        return wrapped_number(raw(value).v_int64 != 0);
      case kTVMFFIFloat:
        return wrapped_number(raw(value).v_float64);
      default:
        fail(value, type);
    }
  }

  at::Tensor remember(at::Tensor made, ffi::Any object) const {
    crossed->given.emplace_back(made, std::move(object));
    return made;
  }

  c10::IValue convert(const ffi::AnyView &value, const c10::TypePtr &type) const {
    const int kind = kind_of(value);
    if (kind == kTVMFFIOpaquePyObject) {
      held_gil gil;
      try {
        return torch::jit::toIValue(opaque(value), type, declared.N());
      } catch (const std::exception &) {
        if (PyErr_Occurred()) PyErr_Clear();
      }
      fail(value, type);
    }
    switch (type->kind()) {
      case c10::TypeKind::OptionalType:
        if (kind == kTVMFFINone) return {};
        return convert(value, type->castRaw<c10::OptionalType>()->getElementType());
      case c10::TypeKind::TensorType:
        if (kind == kTVMFFINone) return at::Tensor();
        return tensor(value, type);
      case c10::TypeKind::NumberType:
        if (kind == kTVMFFIInt) return c10::IValue(raw(value).v_int64);
        if (kind == kTVMFFIBool) return c10::IValue(raw(value).v_int64 != 0);
        if (kind == kTVMFFIFloat) return c10::IValue(raw(value).v_float64);
        break;
      case c10::TypeKind::IntType:
      case c10::TypeKind::SymIntType:
      case c10::TypeKind::ScalarTypeType:
      case c10::TypeKind::LayoutType:
      case c10::TypeKind::MemoryFormatType:
        if (kind == kTVMFFIInt || kind == kTVMFFIBool) return c10::IValue(raw(value).v_int64);
        if (kind == kTVMFFIDataType) return c10::IValue(static_cast<int64_t>(at::toScalarType(raw(value).v_dtype)));
        break;
      case c10::TypeKind::FloatType:
      case c10::TypeKind::SymFloatType:
        if (kind == kTVMFFIFloat) return c10::IValue(raw(value).v_float64);
        if (kind == kTVMFFIInt || kind == kTVMFFIBool) return c10::IValue(static_cast<double>(raw(value).v_int64));
        break;
      case c10::TypeKind::BoolType:
      case c10::TypeKind::SymBoolType:
        if (kind == kTVMFFIBool || kind == kTVMFFIInt) return c10::IValue(raw(value).v_int64 != 0);
        break;
      case c10::TypeKind::StringType:
        if (is_string(kind)) return c10::IValue(std::string(value.cast<ffi::String>()));
        break;
      case c10::TypeKind::DeviceObjType:
        if (kind == kTVMFFIDevice) {
          const DLDevice device = raw(value).v_device;
          return c10::IValue(
              at::dlDeviceToTorchDevice(device.device_type, static_cast<c10::DeviceIndex>(device.device_id)));
        }
        if (is_string(kind)) return c10::IValue(c10::Device(std::string(value.cast<ffi::String>())));
        break;
      case c10::TypeKind::ListType:
        return list(value, type->containedType(0));
      default:
        break;
    }
    fail(value, type);
  }

  c10::IValue list(const ffi::AnyView &value, const c10::TypePtr &element) const {
    std::vector<ffi::Any> items;
    const int kind = kind_of(value);
    if (kind == kTVMFFIArray) {
      for (const ffi::Any &item : value.cast<ffi::Array<ffi::Any>>())
        items.push_back(item);
    } else if (kind == kTVMFFIList) {
      for (const ffi::Any &item : value.cast<ffi::List<ffi::Any>>())
        items.push_back(item);
    } else if (kind == kTVMFFIShape) {
      for (int64_t item : value.cast<ffi::Shape>())
        items.emplace_back(item);
    } else if (declared.N().has_value()) {  // int[2] takes one int for all
      items.assign(*declared.N(), ffi::Any(value));
    } else {
      fail(value, c10::ListType::create(element));
    }
    // SymInt lists travel as lists of ints where all are known.
    const bool symbolic = element->kind() == c10::TypeKind::SymIntType;
    c10::impl::GenericList made(symbolic ? c10::TypePtr(c10::IntType::get()) : element);
    made.reserve(items.size());
    for (const ffi::Any &item : items)
      made.push_back(convert(item, element));
    return c10::IValue(std::move(made));
  }
};

// Out of line: the reasons why DLPack cannot carry a tensor, in PyTorch's words.
ffi::Any export_tensor(const at::Tensor &tensor, const crossing &crossed) {
  if (!tensor.defined()) return ffi::Any(nullptr);
  if (crossed.handles) {
    at::Tensor owned = tensor;
    live_handles++;
    return ffi::Any(static_cast<void *>(owned.unsafeReleaseTensorImpl()));
  }
  for (const auto &[argument, object] : crossed.given) {
    if (argument.is_same(tensor)) return object;
    TORCH_CHECK(object.type_index() != kTVMFFINone || !tensor.has_storage() || !argument.has_storage() ||
                    !tensor.storage().is_alias_of(argument.storage()),
                "the result is a view of a DLTensor that was only lent; pass a tvm.ffi.Tensor");
  }
  TORCH_CHECK_TYPE(!tensor.requires_grad(), "Can't export tensors that require gradient, use tensor.detach()");
  TORCH_CHECK_TYPE(!tensor.is_conj(), "Can't export tensors with the conjugate bit set");
  TORCH_CHECK_TYPE(!tensor.is_neg(), "Can't export tensors with the negative bit set");
  TORCH_CHECK_TYPE(tensor.layout() == c10::kStrided, "Can't export tensors with layout other than torch.strided");
  return ffi::Any(ffi::Tensor::FromDLPackVersioned(at::toDLPackVersioned(tensor)));
}

}  // namespace

bool is_expressible(const c10::TypePtr &type) {
  switch (type->kind()) {
    case c10::TypeKind::OptionalType:
      return is_expressible(type->castRaw<c10::OptionalType>()->getElementType());
    case c10::TypeKind::ListType:
      return is_expressible(type->containedType(0));
    case c10::TypeKind::TensorType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
    case c10::TypeKind::QSchemeType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::GeneratorType:  // None, or an opaque Python object
      return true;
    default:
      return false;
  }
}

c10::IValue to_ivalue(const ffi::AnyView &value, const c10::Argument &declared, crossing *crossed) {
  return converter{declared, crossed}.convert(value, declared.real_type());
}

ffi::Any to_any(const c10::IValue &value, const crossing &crossed) {
  if (value.isNone()) return ffi::Any(nullptr);
  if (value.isTensor()) return export_tensor(value.toTensor(), crossed);
  if (value.isInt()) return ffi::Any(value.toInt());
  if (value.isBool()) return ffi::Any(value.toBool());
  if (value.isDouble()) return ffi::Any(value.toDouble());
  if (value.isString()) return ffi::Any(ffi::String(value.toStringRef()));
  if (value.isList()) {
    ffi::Array<ffi::Any> made;
    for (const c10::IValue &item : value.toListRef())
      made.push_back(to_any(item, crossed));
    return ffi::Any(made);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "a result of type ", value.tagKind(), " cannot be expressed in TVM FFI");
}

PyObject *to_python(const ffi::AnyView &value) {
  switch (kind_of(value)) {
    case kTVMFFINone:
      Py_RETURN_NONE;
    case kTVMFFIInt:
      return PyLong_FromLongLong(raw(value).v_int64);
    case kTVMFFIBool:
      return PyBool_FromLong(raw(value).v_int64 != 0);
    case kTVMFFIFloat:
      return PyFloat_FromDouble(raw(value).v_float64);
    case kTVMFFIStr:
    case kTVMFFISmallStr:
    case kTVMFFIRawStr: {
      const std::string text = value.cast<ffi::String>();
      return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
    }
    case kTVMFFITensor:
      return THPVariable_Wrap(from_object(value));
    case kTVMFFIOpaquePtr:
      return THPVariable_Wrap(from_handle(raw(value).v_ptr));
    case kTVMFFIOpaquePyObject:
      return Py_NewRef(opaque(value));
    case kTVMFFIArray:
    case kTVMFFIList: {
      std::vector<ffi::Any> items;
      const bool fixed = kind_of(value) == kTVMFFIArray;
      if (fixed) {
        for (const ffi::Any &item : value.cast<ffi::Array<ffi::Any>>())
          items.push_back(item);
      } else {
        for (const ffi::Any &item : value.cast<ffi::List<ffi::Any>>())
          items.push_back(item);
      }
      const auto n = static_cast<Py_ssize_t>(items.size());
      PyObject *made = fixed ? PyTuple_New(n) : PyList_New(n);
      for (Py_ssize_t i = 0; made != nullptr && i < n; i++) {
        PyObject *item = to_python(items[i]);
        if (item == nullptr) {
          Py_CLEAR(made);
        } else if (fixed) {
          PyTuple_SET_ITEM(made, i, item);
        } else {
          PyList_SET_ITEM(made, i, item);
        }
      }
      return made;
    }
    default:
      return PyErr_Format(PyExc_TypeError, "an argument of type %s has no Python form here",
                          value.GetTypeKey().c_str());
  }
}

ffi::Any from_python(PyObject *value, const crossing &crossed) {
  if (value == Py_None) return ffi::Any(nullptr);
  if (PyBool_Check(value)) return ffi::Any(value == Py_True);
  if (PyLong_CheckExact(value)) {
    const long long read = PyLong_AsLongLong(value);
    if (!(read == -1 && PyErr_Occurred())) return ffi::Any(static_cast<int64_t>(read));
    PyErr_Clear();
  }
  if (PyFloat_CheckExact(value)) return ffi::Any(PyFloat_AS_DOUBLE(value));
  if (PyUnicode_CheckExact(value)) {
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text == nullptr) throw python_error();
    return ffi::Any(ffi::String(std::string(text, static_cast<size_t>(size))));
  }
  if (THPVariable_Check(value)) return export_tensor(THPVariable_Unpack(value), crossed);
  if (PyTuple_Check(value) || PyList_CheckExact(value)) {
    PyObject **items = PySequence_Fast_ITEMS(value);
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(value);
    if (PyList_CheckExact(value)) {
      ffi::List<ffi::Any> made;
      for (Py_ssize_t i = 0; i < n; i++)
        made.push_back(from_python(items[i], crossed));
      return ffi::Any(made);
    }
    ffi::Array<ffi::Any> made;
    for (Py_ssize_t i = 0; i < n; i++)
      made.push_back(from_python(items[i], crossed));
    return ffi::Any(made);
  }
  if (PyDict_CheckExact(value)) {
    ffi::Map<ffi::Any, ffi::Any> made;
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item);)
      made.Set(from_python(key, crossed), from_python(item, crossed));
    return ffi::Any(made);
  }
  TVMFFIObjectHandle handle = nullptr;
  Py_INCREF(value);
  const auto drop = [](void *object) {
    if (!Py_IsInitialized()) return;
    held_gil gil;
    Py_DECREF(static_cast<PyObject *>(object));
  };
  if (TVMFFIObjectCreateOpaque(value, kTVMFFIOpaquePyObject, drop, &handle) != 0) {
    Py_DECREF(value);
    TORCH_CHECK(false, "TVM FFI could not hold a Python object");
  }
  return ffi::Any(
      ffi::ObjectRef(ffi::detail::ObjectUnsafe::ObjectPtrFromOwned<ffi::Object>(static_cast<TVMFFIObject *>(handle))));
}

at::Tensor take_handle(void *handle) {
  if (handle == nullptr) return {};
  live_handles--;
  return at::Tensor(impl_ptr::reclaim(static_cast<c10::TensorImpl *>(handle)));
}

void release_handle(void *handle) {
  take_handle(handle);
}

void throw_python_error() {
  held_gil gil;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  std::string kind = "RuntimeError", message;
  if (type != nullptr) {
    kind = reinterpret_cast<PyTypeObject *>(type)->tp_name;
    kind = kind.substr(kind.rfind('.') + 1);
  }
  PyObject *text = value == nullptr ? nullptr : PyObject_Str(value);
  if (const char *utf8 = text == nullptr ? nullptr : PyUnicode_AsUTF8(text)) message = utf8;
  PyErr_Clear();
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  throw ffi::Error(kind, message, "");
}

void rethrow_as_ffi() {
  try {
    throw;
  } catch (const ffi::Error &) {
    throw;
  } catch (python_error &error) {
    {
      held_gil gil;
      error.restore();
    }
    throw_python_error();
  } catch (const c10::IndexError &error) {
    throw ffi::Error("IndexError", error.what_without_backtrace(), "");
  } catch (const c10::ValueError &error) {
    throw ffi::Error("ValueError", error.what_without_backtrace(), "");
  } catch (const c10::TypeError &error) {
    throw ffi::Error("TypeError", error.what_without_backtrace(), "");
  } catch (const c10::NotImplementedError &error) {
    throw ffi::Error("NotImplementedError", error.what_without_backtrace(), "");
  } catch (const c10::Error &error) {
    throw ffi::Error("RuntimeError", error.what_without_backtrace(), "");
  } catch (const std::exception &error) {
    throw ffi::Error("RuntimeError", error.what(), "");
  }
}

}  // namespace trident_hook
