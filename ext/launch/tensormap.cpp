// Tensor maps: what a kernel is given for a tensor descriptor that the host made. Encoded by the driver, with the choices
// of Triton's own launcher; the last ones are kept, since the same buffers come back call after call.
#include <cstring>

#include "launch/driver.h"
#include "common/services.h"

namespace trident_hook {
namespace {

constexpr size_t map_bytes = 128;
constexpr size_t n_kept = 64;

// CUtensorMap has to lie at a multiple of 64. Only read and written with the GIL held.
struct alignas(64) kept_map {
  unsigned char map[map_bytes];
  tdh_tensor_map of;
  bool filled;
};
kept_map kept[n_kept];

size_t place_of(const tdh_tensor_map &want) {
  uint64_t mixed = reinterpret_cast<uintptr_t>(want.address) >> 4;
  for (int i = 0; i < want.rank; i++) {
    mixed = mixed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(want.sizes[i]);
    mixed = mixed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(want.strides[i]) + want.box[i];
  }
  return (mixed * 0x9e3779b97f4a7c15u) >> 58;  // 64 places
}
static_assert(n_kept == 64);

// Field by field: the rest of the arrays and the padding are not written.
bool same(const tdh_tensor_map &a, const tdh_tensor_map &b) {
  if (a.address != b.address || a.rank != b.rank || a.data_type != b.data_type || a.swizzle != b.swizzle ||
      a.element_size != b.element_size || a.nan_fill != b.nan_fill) {
    return false;
  }
  for (int i = 0; i < a.rank; i++) {
    if (a.sizes[i] != b.sizes[i] || a.strides[i] != b.strides[i] || a.box[i] != b.box[i]) return false;
  }
  return true;
}

// The driver counts dimensions from the innermost, and strides in bytes without the innermost's.
driver::result encode(const tdh_tensor_map &want, void *out) {
  uint64_t sizes[TDH_MAP_RANK], strides[TDH_MAP_RANK];
  uint32_t box[TDH_MAP_RANK], steps[TDH_MAP_RANK];
  const int rank = want.rank;
  for (int i = 0; i < rank; i++) {
    sizes[i] = static_cast<uint64_t>(want.sizes[rank - 1 - i]);
    box[i] = want.box[rank - 1 - i];
    steps[i] = 1;
    if (i + 1 < rank) strides[i] = want.element_size * static_cast<uint64_t>(want.strides[rank - 2 - i]);
  }
  strides[rank - 1] = sizes[rank - 1] * (rank == 1 ? want.element_size : strides[rank - 2]);  // not read by the driver
  return driver::cuTensorMapEncodeTiled(out, want.data_type, static_cast<unsigned>(rank), want.address, sizes, strides,
                                        box, steps, driver::tensor_map_no_interleave, want.swizzle,
                                        driver::tensor_map_l2_promotion_128b, want.nan_fill);
}

}  // namespace

int tensor_map(const tdh_tensor_map *want, void *out) {
  if (want->rank < 1 || want->rank > TDH_MAP_RANK) return 1;
  kept_map &place = kept[place_of(*want)];
  if (!place.filled || !same(place.of, *want)) {
    place.filled = false;
    if (encode(*want, place.map) != driver::success) return 1;
    place.of = *want;
    place.filled = true;
  }
  std::memcpy(out, place.map, map_bytes);
  return 0;
}

}  // namespace trident_hook
