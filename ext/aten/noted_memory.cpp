// Which memory of the host PyTorch has given out: for the simulated driver, whose kernels read and write it.
#include <Python.h>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <pthread.h>

#include <atomic>
#include <map>
#include <mutex>

#include "common/services.h"

namespace trident_hook {
namespace {

// Never freed: tensors are released while the process ends, after destructors of static objects.
std::mutex &lock = *new std::mutex;
std::map<uintptr_t, size_t> &sizes = *new std::map<uintptr_t, size_t>;
c10::Allocator *real = nullptr;
std::atomic<bool> noting = false;

void release_noted(void *memory) {
  {
    std::lock_guard<std::mutex> guard(lock);
    sizes.erase(reinterpret_cast<uintptr_t>(memory));
  }
  real->raw_deleter()(memory);
}

// PyTorch's own allocator, with a note of each piece of memory for as long as it lives. Memory that is given out while
// nothing is noted has PyTorch's own deleter, and is not known.
struct NotingAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    c10::DataPtr memory = real->allocate(size);
    void *start = memory.get();
    if (!noting || start == nullptr || memory.get_context() != start) return memory;
    {
      std::lock_guard<std::mutex> guard(lock);
      sizes[reinterpret_cast<uintptr_t>(start)] = size;
    }
    if (memory.compare_exchange_deleter(real->raw_deleter(), release_noted)) return memory;
    std::lock_guard<std::mutex> guard(lock);
    sizes.erase(reinterpret_cast<uintptr_t>(start));
    return memory;
  }

  // For kernels that allocate scratch memory without a DataPtr (oneDNN's gelu). It also releases what is not noted.
  c10::DeleterFnPtr raw_deleter() const override { return release_noted; }

  void copy_data(void *to, const void *from, size_t size) const override { default_copy_data(to, from, size); }
};

bool replace(c10::Allocator *wanted) {
  c10::SetAllocator(c10::DeviceType::CPU, wanted);  // refused, silently, where somebody's has a higher priority
  return c10::GetAllocator(c10::DeviceType::CPU) == wanted;
}

}  // namespace

// note_memory(on) -> whether memory for CPU tensors is noted from here on
PyObject *py_note_memory(PyObject *, PyObject *on) {
  static NotingAllocator &ours = *new NotingAllocator;
  const int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return nullptr;
  c10::Allocator *now = c10::GetAllocator(c10::DeviceType::CPU);
  if (wanted && now != &ours) {
    if ((real != nullptr && now != real) || now->raw_deleter() == nullptr) Py_RETURN_FALSE;
    static const int registered = pthread_atfork([] { lock.lock(); }, [] { lock.unlock(); }, [] { lock.unlock(); });
    if (registered != 0) Py_RETURN_FALSE;
    real = now;
    if (!replace(&ours)) Py_RETURN_FALSE;
  } else if (!wanted && now == &ours) {
    replace(real);
  }
  noting = wanted;
  return PyBool_FromLong(noting);
}

// noted_memory(address) -> (start, end) of the memory that it lies in, or None
PyObject *py_noted_memory(PyObject *, PyObject *number) {
  const uintptr_t address = PyLong_AsUnsignedLongLong(number);
  if (address == static_cast<uintptr_t>(-1) && PyErr_Occurred()) return nullptr;
  uintptr_t start = 0, end = 0;
  {
    std::lock_guard<std::mutex> guard(lock);
    auto next = sizes.upper_bound(address);
    if (next != sizes.begin()) {
      start = std::prev(next)->first;
      end = start + std::prev(next)->second;
    }
  }
  if (address >= end) Py_RETURN_NONE;
  return Py_BuildValue("(KK)", static_cast<unsigned long long>(start), static_cast<unsigned long long>(end));
}

}  // namespace trident_hook
