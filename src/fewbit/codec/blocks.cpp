// The GGML types whose blocks are decoded here, and how many bytes of each part a block has.
#include "blocks.h"

#include "blocks_fp4.h"
#include "blocks_k.h"
#include "blocks_legacy.h"
#include "codec.h"

namespace {
using fb::codec::Parts;

struct Type {
  int32_t id, block_bytes, codes, scale, offset = 0, super_scale = 0, super_offset = 0;
};

template <Type type, void (*unpack)(const uint8_t*, const Parts&)>
int32_t all(const uint8_t* blocks, int64_t count, Parts out) {
  for (int64_t i = 0; i < count; ++i, blocks += type.block_bytes) {
    unpack(blocks, out);
    out.codes += type.codes;
    out.scale += type.scale;
    out.offset += type.offset;
    out.super_scale += type.super_scale;
    out.super_offset += type.super_offset;
  }
  return 0;
}
}  // namespace

int32_t fb_unpack_blocks(int32_t type, const uint8_t* blocks, int64_t count, uint8_t* codes, uint8_t* scale,
                         uint8_t* offset, uint8_t* super_scale, uint8_t* super_offset) {
  using namespace fb::codec;
  const Parts out{codes, scale, offset, super_scale, super_offset};
  switch (type) {  // id, bytes of a block, then of its codes, scale, offset, super_scale, super_offset
    case 2:
      return all<Type{2, 18, 32, 2}, q4_0>(blocks, count, out);
    case 3:
      return all<Type{3, 20, 32, 2, 2}, q4_1>(blocks, count, out);
    case 6:
      return all<Type{6, 22, 32, 2}, q5_0>(blocks, count, out);
    case 7:
      return all<Type{7, 24, 32, 2, 2}, q5_1>(blocks, count, out);
    case 8:
      return all<Type{8, 34, 32, 2}, q8_0>(blocks, count, out);
    case 10:
      return all<Type{10, 84, 256, 16, 16, 2, 2}, q2_k>(blocks, count, out);
    case 11:
      return all<Type{11, 110, 256, 16, 0, 2}, q3_k>(blocks, count, out);
    case 12:
      return all<Type{12, 144, 256, 8, 8, 2, 2}, q4_k>(blocks, count, out);
    case 13:
      return all<Type{13, 176, 256, 8, 8, 2, 2}, q5_k>(blocks, count, out);
    case 14:
      return all<Type{14, 210, 256, 16, 0, 2}, q6_k>(blocks, count, out);
    case 20:
      return all<Type{20, 18, 32, 2}, iq4_nl>(blocks, count, out);
    case 23:
      return all<Type{23, 136, 256, 8, 0, 2}, iq4_xs>(blocks, count, out);
    case 39:
      return all<Type{39, 17, 32, 1}, mxfp4>(blocks, count, out);
    case 40:
      return all<Type{40, 36, 64, 4}, nvfp4>(blocks, count, out);
    default:
      return -1;
  }
}
