// Sets of objects by identity: whether the objects that a trace read are as many different ones as they were.
#ifndef TDH_GUARD_IDENTITY_H
#define TDH_GUARD_IDENTITY_H

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trident_hook {

// Open addressing in a table twice as large as what is in it. Owns nothing and follows no pointer.
class object_set {
 public:
  // Replaces the contents. False when two of the objects are one; the set is then empty.
  bool fill(PyObject *const *objects, size_t n);
  bool has(PyObject *object) const;

 private:
  std::vector<PyObject *> slots_;
  unsigned shift_ = 0;
};

// The place at which the search for an object begins, among 2^(64 - shift) of them.
inline size_t identity_slot(const PyObject *object, unsigned shift) {
  return static_cast<size_t>((reinterpret_cast<uintptr_t>(object) >> 4) * 0x9E3779B97F4A7C15ull >> shift);
}

// The table of an env_plan: see watch.cpp.
bool keep_apart(void *plan, const std::vector<PyObject *> &objects);

}  // namespace trident_hook

#endif
