// A C++ program that calls a served function through TVM FFI. It knows nothing of PyTorch, of Python or of trident_hook:
// it finds the function in the global table, makes its tensors itself, and tells result, miss and error apart.
//
// Compiled by test_caller.py into a shared library that the Python process loads. A module lives in the interpreter that
// captured it, so this is how C++ callers and Python live together under TVM FFI: the engine is C++, the process Python.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace ffi = tvm::ffi;

namespace {

std::atomic<int64_t> alive{0};  // tensors of ours whose memory has not been freed

struct counted {
  void AllocData(DLTensor *tensor) {
    alive++;
    tensor->data = std::aligned_alloc(64, (ffi::GetDataSize(*tensor) + 63) / 64 * 64);
  }
  void FreeData(DLTensor *tensor) {
    std::free(tensor->data);
    alive--;
  }
};

template <class T>
ffi::Tensor filled(std::initializer_list<int64_t> shape, DLDataType dtype, std::initializer_list<T> values) {
  ffi::Tensor made = ffi::Tensor::FromNDAlloc(counted(), ffi::Shape(shape), dtype, DLDevice{kDLCPU, 0});
  T *out = static_cast<T *>(made.data_ptr());
  for (T value : values)
    *out++ = value;
  return made;
}

enum outcome { is_result = 0, is_miss = 1, is_error = 2, is_something_else = 3 };

bool is_the_miss(const ffi::Any &answer) {
  const ffi::Any miss = ffi::Function::GetGlobalRequired("trident.miss")();
  return answer.GetTypeKey() == "trident.Miss" && answer.cast<ffi::ObjectRef>().same_as(miss.cast<ffi::ObjectRef>());
}

// f(x: float32 or float64 of shape (3, 2), holding 0..5; index: int64 of shape (2,), holding 0 and `last`; scale: int)
//   -> (tensor (2, 2), number of rows)
outcome call(const ffi::Function &f, bool doubles, int64_t last, std::string *text) {
  const DLDataType real{kDLFloat, static_cast<uint8_t>(doubles ? 64 : 32), 1};
  const ffi::Tensor x =
      doubles ? filled<double>({3, 2}, real, {0, 1, 2, 3, 4, 5}) : filled<float>({3, 2}, real, {0, 1, 2, 3, 4, 5});
  const ffi::Tensor index = filled<int64_t>({2}, DLDataType{kDLInt, 64, 1}, {0, last});
  try {
    const ffi::Any answer = f(x, index, 2);
    if (is_the_miss(answer)) return is_miss;
    const auto several = answer.as<ffi::Array<ffi::Any>>();
    if (!several.has_value() || several->size() != 2) return is_something_else;
    const auto product = (*several)[0].cast<ffi::Tensor>();
    const float *values = static_cast<const float *>(product.data_ptr());
    *text = std::to_string((*several)[1].cast<int64_t>()) + " rows:";
    for (int64_t i = 0; i < product.shape().Product(); i++)
      *text += " " + std::to_string(static_cast<int>(values[i]));
    return is_result;
  } catch (const ffi::Error &error) {
    *text = error.kind() + ": " + error.message();
    return is_error;
  }
}

}  // namespace

extern "C" {

// One call; the outcome, and what it says.
int caller_once(const char *name, int doubles, int64_t last, char *text, size_t size) {
  std::string told;
  const outcome found = call(ffi::Function::GetGlobalRequired(name), doubles, last, &told);
  std::strncpy(text, told.c_str(), size - 1);
  text[size - 1] = '\0';
  return found;
}

// n calls, on this thread or on one that Python has never seen; how many had the outcome of the first, -1 if that one is
// none of the three.
int64_t caller_often(const char *name, int doubles, int64_t last, int64_t n, int on_a_thread) {
  const ffi::Function f = ffi::Function::GetGlobalRequired(name);
  int64_t same = 0;
  const auto loop = [&] {
    std::string told;
    const outcome first = call(f, doubles, last, &told);
    same = first == is_something_else ? -1 : 1;
    for (int64_t i = 1; i < n && same > 0; i++)
      same += call(f, doubles, last, &told) == first;
  };
  if (on_a_thread) {
    std::thread(loop).join();
  } else {
    loop();
  }
  return same;
}

int64_t caller_alive() {
  return alive;
}
}
