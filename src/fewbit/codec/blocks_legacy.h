// Q4_0 .. Q8_0: 32 elements; byte layouts in formats/gguf/blocks_legacy.py.
#pragma once
#include "blocks.h"

namespace fb::codec {

// Bit i of four bytes is the fifth bit of code i: eight at a time, each byte of a word keeps its own bit of eight copies.
inline void add_fifth_bits(const uint8_t* bits, uint8_t* codes) {
  constexpr uint64_t kOnes = 0x0101010101010101ull;
  for (int i = 0; i < 4; ++i) {
    const uint64_t own = bits[i] * kOnes & 0x8040201008040201ull;
    uint64_t eight;
    memcpy(&eight, codes + 8 * i, 8);
    eight |= ((own + 0x7F * kOnes) >> 7 & kOnes) << 4;
    memcpy(codes + 8 * i, &eight, 8);
  }
}

inline void q4_0(const uint8_t* block, const Parts& out) {
  copy_f16(out.scale, block);
  nibbles<16>(block + 2, out.codes);
  subtract<32>(out.codes, 8);
}

inline void q4_1(const uint8_t* block, const Parts& out) {
  copy_f16(out.scale, block);
  copy_f16(out.offset, block + 2);
  nibbles<16>(block + 4, out.codes);
}

inline void q5_0(const uint8_t* block, const Parts& out) {
  copy_f16(out.scale, block);
  nibbles<16>(block + 6, out.codes);
  add_fifth_bits(block + 2, out.codes);
  subtract<32>(out.codes, 16);
}

inline void q5_1(const uint8_t* block, const Parts& out) {
  copy_f16(out.scale, block);
  copy_f16(out.offset, block + 2);
  nibbles<16>(block + 8, out.codes);
  add_fifth_bits(block + 4, out.codes);
}

inline void q8_0(const uint8_t* block, const Parts& out) {
  copy_f16(out.scale, block);
  memcpy(out.codes, block + 2, 32);
}

}  // namespace fb::codec
