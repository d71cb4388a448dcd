// Lanes of the integer dot product with AVX-512 VNNI: 16 n in a register, vpdpbusd multiplies and sums 4 k at once in 32 bits.
#pragma once
#include "simd/f32x16.h"
#include "simd/unroll.h"

namespace fb::FB_ISA {

using Words = i32x16;
using Floats = f32x16;
constexpr int kWordLanes = 16;
constexpr bool kSignedCodes =
    false;  // vpdpbusd takes unsigned codes: 8-bit ones enter as code + 128, see lanes_scalar.h

FB_INLINE Words byte_codes(Words word) { return word ^ Words::broadcast(static_cast<int32_t>(0x80808080u)); }
FB_INLINE Floats load_f16_lanes(const void* p) { return load_f16(p); }

using Int32Unaligned [[gnu::aligned(1), gnu::may_alias]] = int32_t;
FB_INLINE __m512i broadcast_step(const int8_t* x,
                                 int step) {  // a load; from a general register it would take port 5
  return _mm512_set1_epi32(*reinterpret_cast<const Int32Unaligned*>(x + 4 * step));
}

// Two chains: vpdpbusd has a latency of 5 and one row alone would wait for it.
template <int steps, int>
FB_INLINE Words dot(const Words* code, const void*, const int8_t* x, int32_t start) {
  Words even = Words::broadcast(start), odd = Words::zero();
  unroll<steps / 2>([&](auto i) FB_INLINE_LAMBDA {
    even.v = _mm512_dpbusd_epi32(even.v, code[2 * i].v, broadcast_step(x, 2 * i));
    odd.v = _mm512_dpbusd_epi32(odd.v, code[2 * i + 1].v, broadcast_step(x, 2 * i + 1));
  });
  return even + odd;
}

FB_INLINE void store_bytes(int8_t* out, i32x16 a, i32x16 b, const uint8_t* order) {
  const __m128i permutation = _mm_loadu_si128(reinterpret_cast<const __m128i*>(order));
  __m128i* to = reinterpret_cast<__m128i*>(out);
  _mm_storeu_si128(to, _mm_shuffle_epi8(_mm512_cvtepi32_epi8(a.v), permutation));
  _mm_storeu_si128(to + 1, _mm_shuffle_epi8(_mm512_cvtepi32_epi8(b.v), permutation));
}

}  // namespace fb::FB_ISA
