// Q2_K .. Q6_K: 256 elements; byte layouts in formats/gguf/blocks_k.py.
#pragma once
#include "blocks.h"

namespace fb::codec {

inline void q2_k(const uint8_t* block, const Parts& out) {
  for (int i = 0; i < 16; ++i) {
    out.scale[i] = block[i] & 15;
    out.offset[i] = block[i] >> 4;
  }
  pair_runs(block + 16, out.codes);
  copy_f16(out.super_scale, block + 80);
  copy_f16(out.super_offset, block + 82);
}

inline void q3_k(const uint8_t* block, const Parts& out) {
  pair_runs(block + 32, out.codes);
  add_bit_runs<8>(block, 2, out.codes);
  subtract<256>(out.codes, 4);
  nibbles<8>(block + 96, out.scale);
  for (int i = 0; i < 16; ++i) out.scale[i] |= (block[104 + i % 4] >> (2 * (i / 4)) & 3) << 4;
  subtract<16>(out.scale, 32);
  copy_f16(out.super_scale, block + 108);
}

// Twelve bytes of eight 6-bit scales and eight 6-bit offsets, after d and dmin.
inline void q45_head(const uint8_t* block, const Parts& out) {
  copy_f16(out.super_scale, block);
  copy_f16(out.super_offset, block + 2);
  for (int i = 0; i < 4; ++i) {
    const uint8_t scale = block[4 + i], offset = block[8 + i], both = block[12 + i];
    out.scale[i] = scale & 63;
    out.scale[4 + i] = (both & 15) | (scale >> 2 & 48);
    out.offset[i] = offset & 63;
    out.offset[4 + i] = both >> 4 | (offset >> 2 & 48);
  }
}

inline void q4_k(const uint8_t* block, const Parts& out) {
  q45_head(block, out);
  nibble_runs(block + 16, out.codes);
}

inline void q5_k(const uint8_t* block, const Parts& out) {
  q45_head(block, out);
  nibble_runs(block + 48, out.codes);
  add_bit_runs<8>(block + 16, 4, out.codes);
}

inline void q6_k(const uint8_t* block, const Parts& out) {
  for (int half = 0; half < 2; ++half) {
    uint8_t* codes = out.codes + 128 * half;
    const uint8_t *low = block + 64 * half, *high = block + 128 + 32 * half;
    nibbles<64>(low, codes);
    for (int r = 0; r < 4; ++r)
      for (int i = 0; i < 32; ++i) codes[32 * r + i] |= (high[i] >> (2 * r) & 3) << 4;
  }
  subtract<256>(out.codes, 32);
  memcpy(out.scale, block + 192, 16);
  copy_f16(out.super_scale, block + 208);
}

}  // namespace fb::codec
