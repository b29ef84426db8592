/* Tensor maps. The hardware's encoding is not public, so the 128 bytes hold the request itself, which is what the
 * interpreter needs; the checks are those that the driver documents for tiled maps. */
#include <string.h>

#include "internal.h"

#define MAGIC 0x50414d54u /* "TMAP" */

typedef struct {
  uint64_t address;
  uint32_t dims_minus_1[5];
  uint8_t rank, data_type, swizzle, oob_fill;
  uint64_t strides[4];
  uint32_t box[5];
  uint32_t magic;
} encoded_map;

_Static_assert(sizeof(encoded_map) <= sizeof(CUtensorMap), "the request must fit the map");

SIM_CU cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType data_type, cuuint32_t rank, void *address,
                              const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                              const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                              CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                              CUtensorMapFloatOOBfill oob_fill) {
  SIM_ENTER(cuTensorMapEncodeTiled);
  (void)element_strides, (void)interleave, (void)promotion;
  if (sim_the_machine.arch < 90) return CUDA_ERROR_NOT_SUPPORTED;
  if (out == NULL || (uintptr_t)address % 16 != 0 || rank < 1 || rank > 5) return CUDA_ERROR_INVALID_VALUE;
  encoded_map map = {.address = (uint64_t)(uintptr_t)address,
                     .rank = rank,
                     .data_type = data_type,
                     .swizzle = swizzle,
                     .oob_fill = oob_fill,
                     .magic = MAGIC};
  for (unsigned i = 0; i < rank; i++) {
    if (dims[i] == 0 || dims[i] > (uint64_t)1 << 32 || box[i] == 0 || box[i] > 256) return CUDA_ERROR_INVALID_VALUE;
    map.dims_minus_1[i] = (uint32_t)(dims[i] - 1);
    map.box[i] = box[i];
    if (i + 1 < rank) {
      if (strides[i] % 16 != 0 || strides[i] >= (uint64_t)1 << 40) return CUDA_ERROR_INVALID_VALUE;
      map.strides[i] = strides[i];
    }
  }
  memset(out, 0, sizeof *out);
  memcpy(out, &map, sizeof map);
  return CUDA_SUCCESS;
}

SIM_CU cuTensorMapReplaceAddress(CUtensorMap *map, void *address) {
  SIM_ENTER(cuTensorMapReplaceAddress);
  encoded_map it;
  memcpy(&it, map, sizeof it);
  if (it.magic != MAGIC || (uintptr_t)address % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  it.address = (uint64_t)(uintptr_t)address;
  memcpy(map, &it, sizeof it);
  return CUDA_SUCCESS;
}

int sim_decode_tensor_map(const void *map, sim_tensor_map *out) {
  encoded_map it;
  memcpy(&it, map, sizeof it);
  if (it.magic != MAGIC) return -1;
  memset(out, 0, sizeof *out);
  out->address = it.address;
  out->rank = it.rank;
  out->data_type = it.data_type;
  out->swizzle = it.swizzle;
  out->oob_fill = it.oob_fill;
  for (int i = 0; i < it.rank; i++) {
    out->dims[i] = (uint64_t)it.dims_minus_1[i] + 1;
    out->box[i] = it.box[i];
    if (i + 1 < it.rank) out->strides[i] = it.strides[i];
  }
  return 0;
}
