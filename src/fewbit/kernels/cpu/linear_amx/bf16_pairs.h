// BF16 pairs in words: the rows of a tile operand B, [k/2][16 n][k parity] (VNNI2).
#pragma once
#include "simd/f32x16.h"

namespace fb::FB_ISA {

FB_INLINE i32x16 high_half(i32x16 word) {
  return word & i32x16::broadcast(static_cast<int32_t>(0xffff0000u));
}

// Bits of a where mask is set, else of b.
FB_INLINE i32x16 merge(i32x16 mask, i32x16 a, i32x16 b) {
#ifdef __AVX512F__
  return {_mm512_ternarylogic_epi32(mask.v, a.v, b.v, 0xca)};
#else
  return (mask & a) | ((mask ^ i32x16::broadcast(-1)) & b);
#endif
}

// The upper halves of two floats' words, `even` below `odd`: both truncated to BF16.
FB_INLINE i32x16 truncated_pair(f32x16 even, f32x16 odd) {
#ifdef __AVX512BW__
  return {_mm512_mask_blend_epi16(0xaaaaaaaau, shift_right(as_i32(even), 16).v, as_i32(odd).v)};
#else
  return shift_right(as_i32(even), 16) | high_half(as_i32(odd));
#endif
}

// What truncation leaves of each: exact, and at most 16 significant bits of the 24 remain.
FB_INLINE f32x16 truncation_rest(f32x16 x) { return x - as_f32(high_half(as_i32(x))); }

}  // namespace fb::FB_ISA
