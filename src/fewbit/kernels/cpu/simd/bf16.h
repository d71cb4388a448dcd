// f32 -> bf16, round to nearest even; NaN stays NaN and becomes quiet; subnormals are kept.
// (vcvtneps2bf16 is not used: it flushes subnormals, and every ISA must write the same cache.)
#pragma once
#include "f32x16.h"

namespace fb::FB_ISA {

FB_INLINE uint16_t to_bf16(float x) {
  uint32_t word;
  memcpy(&word, &x, 4);
  if ((word & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(word >> 16 | 0x40);
  return static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

FB_INLINE float from_bf16(uint16_t h) {
  const uint32_t word = static_cast<uint32_t>(h) << 16;
  float x;
  memcpy(&x, &word, 4);
  return x;
}

// The bf16 of each lane in its low 16 bits; the high bits are zero.
FB_INLINE i32x16 to_bf16(f32x16 x) {
  const i32x16 word = as_i32(x), high = shift_right(word, 16);
  const i32x16 rounded = shift_right(word + i32x16::broadcast(0x7fff) + (high & i32x16::broadcast(1)), 16);
  return select(unordered(x), high | i32x16::broadcast(0x40), rounded);
}

FB_INLINE void store_bf16(void* p, f32x16 x) { store_low16(p, to_bf16(x)); }

// 16 words of two bf16 (VNNI2 order): `even` in the low half.
FB_INLINE i32x16 pack_bf16_pair(f32x16 even, f32x16 odd) {
  return to_bf16(even) | shift_left(to_bf16(odd), 16);
}

}  // namespace fb::FB_ISA
