// Chains of eight ATen operators as a person writes them in C++: the floor of benchmarks/aten_chain.py, which holds the
// same chains in Python. Arguments are unpacked, operators called through `at::`, results wrapped; nothing is checked.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <Python.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

namespace {

const at::Tensor &tensor(PyObject *const *args, int i) {
  return THPVariable_Unpack(args[i]);
}

PyObject *elementwise(PyObject *, PyObject *const *args, Py_ssize_t) {
  HANDLE_TH_ERRORS
  const at::Tensor &x = tensor(args, 0), &y = tensor(args, 1);
  at::Tensor r = at::add(x, y);
  r = at::mul(r, y);
  r = at::sub(r, x);
  r = at::relu(r);
  r = at::add(r, x);
  r = at::mul(r, 2.0);
  r = at::neg(r);
  r = at::sigmoid(r);
  return THPVariable_Wrap(std::move(r));
  END_HANDLE_TH_ERRORS
}

PyObject *view(PyObject *, PyObject *const *args, Py_ssize_t) {
  HANDLE_TH_ERRORS
  at::Tensor r = tensor(args, 0).view({2, 4, 8});
  r = r.transpose(0, 1);
  r = r.permute({2, 0, 1});
  r = r.unsqueeze(0);
  r = r.expand({3, 8, 4, 2});
  r = r.select(0, 1);
  r = r.slice(0, 1, 5);
  r = r.squeeze(0);
  return THPVariable_Wrap(std::move(r));
  END_HANDLE_TH_ERRORS
}

PyObject *allocate(PyObject *, PyObject *const *args, Py_ssize_t) {
  HANDLE_TH_ERRORS
  const at::Tensor &x = tensor(args, 0);
  const auto options = x.options();
  at::Tensor a = at::empty_like(x);
  at::Tensor b = at::empty({4, 8}, options);
  at::Tensor c = x.new_empty({8});
  at::Tensor d = at::empty_strided({4, 8}, {8, 1}, options);
  at::Tensor e = at::empty_like(b);
  at::Tensor f = at::empty_like(c);
  at::Tensor g = at::empty({2, 2}, options);
  at::Tensor h = at::empty_like(d);
  at::Tensor *all[] = {&a, &b, &c, &d, &e, &f, &g, &h};
  PyObject *result = PyTuple_New(8);
  for (int i = 0; i < 8; i++)
    PyTuple_SET_ITEM(result, i, THPVariable_Wrap(std::move(*all[i])));
  return result;
  END_HANDLE_TH_ERRORS
}

PyObject *mixed(PyObject *, PyObject *const *args, Py_ssize_t) {
  HANDLE_TH_ERRORS
  const at::Tensor &x = tensor(args, 0), &y = tensor(args, 1);
  at::Tensor r = at::empty_like(x);
  r.copy_(y);
  at::Tensor v = r.view({4, 16});
  v = v.transpose(0, 1);
  at::Tensor w = at::mul(v, 2.0);
  w = at::relu(w);
  w = w.unsqueeze(0);
  w = at::add(w, 1);
  return THPVariable_Wrap(std::move(w));
  END_HANDLE_TH_ERRORS
}

// Eight calls of add, each way.
PyObject *add_unboxed(PyObject *, PyObject *const *args, Py_ssize_t) {
  HANDLE_TH_ERRORS
  at::Tensor r = at::add(tensor(args, 0), tensor(args, 1));
  const at::Tensor y = at::add(tensor(args, 1), tensor(args, 1));
  for (int i = 0; i < 6; i++)
    r = at::add(r, y);
  return THPVariable_Wrap(std::move(r));
  END_HANDLE_TH_ERRORS
}

PyObject *add_boxed(PyObject *, PyObject *const *args, Py_ssize_t) {
  HANDLE_TH_ERRORS
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
  static const c10::IValue one(int64_t{1});
  torch::jit::Stack stack;
  stack.reserve(4);
  const auto add = [&](const at::Tensor &a, const at::Tensor &b) {
    stack.emplace_back(a);
    stack.emplace_back(b);
    stack.push_back(one);
    op.callBoxed(&stack);
    at::Tensor sum = std::move(stack[0]).toTensor();
    stack.clear();
    return sum;
  };
  at::Tensor r = add(tensor(args, 0), tensor(args, 1));
  const at::Tensor y = add(tensor(args, 1), tensor(args, 1));
  for (int i = 0; i < 6; i++)
    r = add(r, y);
  return THPVariable_Wrap(std::move(r));
  END_HANDLE_TH_ERRORS
}

using fast = PyObject *(*)(PyObject *, PyObject *const *, Py_ssize_t);
PyCFunction method(fast function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"elementwise", method(elementwise), METH_FASTCALL, nullptr},
    {"view", method(view), METH_FASTCALL, nullptr},
    {"allocate", method(allocate), METH_FASTCALL, nullptr},
    {"mixed", method(mixed), METH_FASTCALL, nullptr},
    {"add_unboxed", method(add_unboxed), METH_FASTCALL, nullptr},
    {"add_boxed", method(add_boxed), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "_chains", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__chains() {
  return PyModule_Create(&module);
}
