// Lanes of the integer dot product with AVX2: 8 n in a register, so that the 8 code registers of a group stay in registers
// while all rows meet them (16 lanes would be twice as many as there are).
#pragma once
#include "simd/f32x16.h"
#include "simd/unroll.h"

namespace fb::FB_ISA {

struct Words {
  __m256i v;
  static FB_INLINE Words load(const void* p) { return {_mm256_loadu_si256(static_cast<const __m256i*>(p))}; }
  static FB_INLINE Words broadcast(int32_t x) { return {_mm256_set1_epi32(x)}; }
  static FB_INLINE Words load_u8(const void* p) {
    return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)))};
  }
  static FB_INLINE Words load_i8(const void* p) {
    return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)))};
  }
};
struct Floats {
  __m256 v;
  static FB_INLINE Floats load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static FB_INLINE Floats broadcast(float x) { return {_mm256_set1_ps(x)}; }
  static FB_INLINE Floats zero() { return {_mm256_setzero_ps()}; }
  FB_INLINE void store(float* p) const { _mm256_storeu_ps(p, v); }
};
constexpr int kWordLanes = 8;
constexpr bool kSignedCodes =
    true;  // 8-bit codes enter as |code| with the sign moved to the activations, see dot

FB_INLINE Words operator&(Words a, Words b) { return {_mm256_and_si256(a.v, b.v)}; }
FB_INLINE Words operator|(Words a, Words b) { return {_mm256_or_si256(a.v, b.v)}; }
FB_INLINE Words operator+(Words a, Words b) { return {_mm256_add_epi32(a.v, b.v)}; }
FB_INLINE Words operator-(Words a, Words b) { return {_mm256_sub_epi32(a.v, b.v)}; }
FB_INLINE Words shift_left(Words a, int n) { return {_mm256_slli_epi32(a.v, n)}; }
FB_INLINE Words shift_right(Words a, int n) { return {_mm256_srli_epi32(a.v, n)}; }
FB_INLINE Words byte_codes(Words a) { return {_mm256_abs_epi8(a.v)}; }
FB_INLINE Floats to_f32(Words a) { return {_mm256_cvtepi32_ps(a.v)}; }
FB_INLINE Floats operator*(Floats a, Floats b) { return {_mm256_mul_ps(a.v, b.v)}; }
FB_INLINE Floats fma(Floats a, Floats b, Floats c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
FB_INLINE Floats load_f16_lanes(const void* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}

FB_INLINE __m256i broadcast_step(const int8_t* x, int step) {
  int32_t four;
  memcpy(&four, x + 4 * step, 4);
  return _mm256_set1_epi32(four);
}

// start[lane] + sum over `steps` of code * x.
//
// vpmaddubsw multiplies unsigned code bytes by signed x bytes and adds two products into 16 bits, saturating. |x| <= 127, so
// codes of b < 8 bits give at most 2 * (2^b - 1) * 127 in magnitude, and `chain` such results still fit in 16 bits:
//   b = 2, 3, 4: 8 * 2 * 15 * 127 = 30480;  b = 5: 4 * 2 * 31 * 127 = 31496;  b = 6: 2 * 2 * 63 * 127 = 32004.   All < 32767.
// Only then are pairs added into 32 bits by vpmaddwd.
// 8-bit codes: `code` holds |w| (128 for -128, as an unsigned byte) and x takes the sign of w, negating at most 127: one result
// is at most 2 * 128 * 127 = 32512, so it fits, but two do not: the chain is 1.
template <int steps, int bits>
FB_INLINE Words dot(const Words* code, const void* signs, const int8_t* x, int32_t start) {
  constexpr int fitting = bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
  constexpr int chain = fitting < steps ? fitting : steps;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sum = _mm256_set1_epi32(start);
  unroll<steps / chain>([&](auto c) FB_INLINE_LAMBDA {
    __m256i pairs = _mm256_setzero_si256();
    unroll<chain>([&](auto i) FB_INLINE_LAMBDA {
      constexpr int step = c * chain + i;
      __m256i four = broadcast_step(x, step);
      if constexpr (bits == 8)
        four = _mm256_sign_epi8(four, _mm256_loadu_si256(static_cast<const __m256i*>(signs) + 2 * step));
      const __m256i products = _mm256_maddubs_epi16(code[step].v, four);
      pairs = i == 0 ? products : _mm256_add_epi16(pairs, products);
    });
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
  });
  return {sum};
}

FB_INLINE void store_bytes(int8_t* out, i32x16 a, i32x16 b, const uint8_t* order) {
  const __m256i words = _mm256_packs_epi16(_mm256_packs_epi32(a.lo, a.hi),
                                           _mm256_packs_epi32(b.lo, b.hi));  // a0 a8 b0 b8 a4 a12 b4 b12
  const __m256i bytes = _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  const __m256i permutation =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(order)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_shuffle_epi8(bytes, permutation));
}

}  // namespace fb::FB_ISA
