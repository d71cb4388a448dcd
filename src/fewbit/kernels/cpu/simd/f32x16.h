// f32x16 / i32x16 / mask16: the one vector type of the library, 16 lanes of 32 bits on every ISA
// (float[16], two __m256 or one __m512). All three give the same bits for the same calls, NaN payloads aside:
//   fma(a, b, c)   a*b + c, one rounding           fnma(a, b, c)  c - a*b, one rounding
//   min(a, b)      a < b ? a : b (so b when either is NaN, as minps); max alike
//   reduce_*       fixed tree: lane l with l+8, then l+4, l+2, l+1
// Floats are never contracted (-ffp-contract=off): a fused step is always written as fma.
#pragma once
#include <stdint.h>
#include <string.h>

#include "isa.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#include "f32x16_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "f32x16_avx2.h"
#else
#include "f32x16_scalar.h"
#endif

namespace fb::FB_ISA {

constexpr int kLanes = 16;

// Field of `mask` width at bit `shift` of each 32-bit word, as a float: the decode step of packed weights.
FB_INLINE f32x16 field_f32(i32x16 words, int shift, i32x16 mask) {
  return to_f32(shift_right(words, shift) & mask);
}

// 16 words of two bf16 (VNNI2 order): the low half is the even element, the high half the odd one.
FB_INLINE f32x16 even_bf16(i32x16 pairs) { return as_f32(shift_left(pairs, 16)); }
FB_INLINE f32x16 odd_bf16(i32x16 pairs) {
  return as_f32(pairs & i32x16::broadcast(static_cast<int32_t>(0xffff0000u)));
}
FB_INLINE f32x16 even_f16(i32x16 pairs) { return low_f16(pairs); }
FB_INLINE f32x16 odd_f16(i32x16 pairs) { return low_f16(shift_right(pairs, 16)); }

}  // namespace fb::FB_ISA
