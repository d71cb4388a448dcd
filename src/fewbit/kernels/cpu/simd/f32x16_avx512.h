// f32x16 as one __m512 (AVX-512 F, BW, VL, DQ).
#pragma once
#include <immintrin.h>
namespace fb::FB_ISA {

struct mask16 {
  __mmask16 m;
};

// Mask of the first n lanes, n in 0..16.
FB_INLINE __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1u << n) - 1); }

struct i32x16 {
  __m512i v;
  static FB_INLINE i32x16 load(const void* p) { return {_mm512_loadu_si512(p)}; }
  static FB_INLINE i32x16 broadcast(int32_t x) { return {_mm512_set1_epi32(x)}; }
  static FB_INLINE i32x16 zero() { return {_mm512_setzero_si512()}; }
  static FB_INLINE i32x16 iota() {
    return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
  }
  static FB_INLINE i32x16 load_u8(const void* p) {
    return {_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
  }
  static FB_INLINE i32x16 load_i8(const void* p) {
    return {_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
  }
  static FB_INLINE i32x16 load_u16(const void* p) {
    return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
  }
  FB_INLINE void store(void* p) const { _mm512_storeu_si512(p, v); }
};

struct f32x16 {
  __m512 v;
  static FB_INLINE f32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static FB_INLINE f32x16 load_partial(const float* p, int n) {
    return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
  }
  static FB_INLINE f32x16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
  static FB_INLINE f32x16 zero() { return {_mm512_setzero_ps()}; }
  FB_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
  FB_INLINE void store_partial(float* p, int n) const { _mm512_mask_storeu_ps(p, first_lanes(n), v); }
};

FB_INLINE f32x16 operator+(f32x16 a, f32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
FB_INLINE f32x16 operator-(f32x16 a, f32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
FB_INLINE f32x16 operator*(f32x16 a, f32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
FB_INLINE f32x16 operator/(f32x16 a, f32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
FB_INLINE f32x16 sqrt(f32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
FB_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
FB_INLINE f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
FB_INLINE f32x16 min(f32x16 a, f32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
FB_INLINE f32x16 max(f32x16 a, f32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }

FB_INLINE i32x16 operator+(i32x16 a, i32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
FB_INLINE i32x16 operator-(i32x16 a, i32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
FB_INLINE i32x16 operator&(i32x16 a, i32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
FB_INLINE i32x16 operator|(i32x16 a, i32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
FB_INLINE i32x16 operator^(i32x16 a, i32x16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
// A count known at compile time after inlining becomes the immediate form.
FB_INLINE i32x16 shift_left(i32x16 a, int n) { return {_mm512_slli_epi32(a.v, static_cast<unsigned>(n))}; }
FB_INLINE i32x16 shift_right(i32x16 a, int n) { return {_mm512_srli_epi32(a.v, static_cast<unsigned>(n))}; }
FB_INLINE i32x16 shift_right_signed(i32x16 a, int n) {
  return {_mm512_srai_epi32(a.v, static_cast<unsigned>(n))};
}

FB_INLINE f32x16 to_f32(i32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
FB_INLINE f32x16 as_f32(i32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
FB_INLINE i32x16 as_i32(f32x16 a) { return {_mm512_castps_si512(a.v)}; }

FB_INLINE mask16 less(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
FB_INLINE mask16 less_equal(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
FB_INLINE mask16 unordered(f32x16 a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
FB_INLINE mask16 less(i32x16 a, i32x16 b) { return {_mm512_cmplt_epi32_mask(a.v, b.v)}; }
FB_INLINE uint32_t bits(mask16 m) { return m.m; }
FB_INLINE f32x16 select(mask16 m, f32x16 yes, f32x16 no) { return {_mm512_mask_blend_ps(m.m, no.v, yes.v)}; }
FB_INLINE i32x16 select(mask16 m, i32x16 yes, i32x16 no) {
  return {_mm512_mask_blend_epi32(m.m, no.v, yes.v)};
}

FB_INLINE float reduce_add(f32x16 a) {
  const __m256 x8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 x4 = _mm_add_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
  const __m128 x2 = _mm_add_ps(x4, _mm_movehl_ps(x4, x4));
  return _mm_cvtss_f32(_mm_add_ss(x2, _mm_movehdup_ps(x2)));
}
FB_INLINE float reduce_max(f32x16 a) {
  const __m256 x8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 x4 = _mm_max_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
  const __m128 x2 = _mm_max_ps(x4, _mm_movehl_ps(x4, x4));
  return _mm_cvtss_f32(_mm_max_ss(x2, _mm_movehdup_ps(x2)));
}

FB_INLINE f32x16 load_f16(const void* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
FB_INLINE f32x16 low_f16(i32x16 a) {
  return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(a.v))};
}  // the f16 in the low half of each lane
FB_INLINE f32x16 load_bf16(const void* p) { return as_f32(shift_left(i32x16::load_u16(p), 16)); }
FB_INLINE void store_low16(void* p, i32x16 a) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
}

}  // namespace fb::FB_ISA
