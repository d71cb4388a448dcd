// IQ4_NL, IQ4_XS, MXFP4, NVFP4: nibbles that look up a value; byte layouts in formats/gguf/blocks_fp4.py.
#pragma once
#include "blocks.h"

namespace fb::codec {

inline void iq4_nl(const uint8_t* block, const Parts& out) {
  copy_f16(out.scale, block);
  nibbles<16>(block + 2, out.codes);
}

inline void iq4_xs(const uint8_t* block, const Parts& out) {
  copy_f16(out.super_scale, block);
  for (int i = 0; i < 8; ++i) {
    const int low = block[4 + i / 2] >> (4 * (i % 2)) & 15, high = block[2 + i / 4] >> (2 * (i % 4)) & 3;
    out.scale[i] = static_cast<uint8_t>((low | high << 4) - 32);
  }
  for (int run = 0; run < 8; ++run) nibbles<16>(block + 8 + 16 * run, out.codes + 32 * run);
}

inline void mxfp4(const uint8_t* block, const Parts& out) {
  out.scale[0] = block[0];
  nibbles<16>(block + 1, out.codes);
}

inline void nvfp4(const uint8_t* block, const Parts& out) {
  for (int i = 0; i < 4; ++i) out.scale[i] = block[i] & 0x7F;  // the sign bit is no part of the number
  for (int run = 0; run < 4; ++run) nibbles<8>(block + 4 + 8 * run, out.codes + 16 * run);
}

}  // namespace fb::codec
