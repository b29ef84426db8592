// Whether objects are distinct, in a time that grows with their number and not with its square: a hash table of addresses,
// on the stack where a call brings few objects.
#include "guard/identity.h"

#include <cstring>

#include "common/services.h"

namespace trident_hook {
namespace {

unsigned bits_for(size_t n) {
  unsigned bits = 2;
  while ((size_t{1} << bits) < 2 * n)
    bits++;
  return bits;
}

// Into a table of 1 << bits zeroed slots. False at the first object that is there already.
bool insert_all(PyObject **slots, unsigned bits, PyObject *const *objects, size_t n) {
  const size_t mask = (size_t{1} << bits) - 1;
  for (size_t i = 0; i < n; i++) {
    if (objects[i] == nullptr) continue;
    size_t at = identity_slot(objects[i], 64 - bits);
    for (; slots[at] != nullptr; at = (at + 1) & mask)
      if (slots[at] == objects[i]) return false;
    slots[at] = objects[i];
  }
  return true;
}

}  // namespace

bool object_set::fill(PyObject *const *objects, size_t n) {
  const unsigned bits = bits_for(n);
  slots_.assign(size_t{1} << bits, nullptr);
  shift_ = 64 - bits;
  if (insert_all(slots_.data(), bits, objects, n)) return true;
  slots_.clear();
  return false;
}

bool object_set::has(PyObject *object) const {
  if (slots_.empty()) return false;
  const size_t mask = slots_.size() - 1;
  for (size_t at = identity_slot(object, shift_); slots_[at] != nullptr; at = (at + 1) & mask)
    if (slots_[at] == object) return true;
  return false;
}

int all_distinct(PyObject *const *objects, int32_t n) {
  constexpr unsigned most_bits = 10;
  const unsigned bits = bits_for(static_cast<size_t>(n));
  if (bits > most_bits) {
    std::vector<PyObject *> slots(size_t{1} << bits, nullptr);
    return insert_all(slots.data(), bits, objects, static_cast<size_t>(n));
  }
  PyObject *slots[1 << most_bits];
  std::memset(slots, 0, sizeof(PyObject *) << bits);
  return insert_all(slots, bits, objects, static_cast<size_t>(n));
}

}  // namespace trident_hook
