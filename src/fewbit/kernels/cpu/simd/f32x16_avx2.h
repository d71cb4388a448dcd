// f32x16 as two __m256 (AVX2 + FMA + F16C): lo holds lanes 0..7, hi lanes 8..15.
#pragma once
#include <immintrin.h>
namespace fb::FB_ISA {

struct mask16 {
  __m256 lo, hi;  // all-ones or zero lanes
};

// Lane mask for the first n lanes of 8 (n may be negative or above 8).
FB_INLINE __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

struct i32x16 {
  __m256i lo, hi;
  static FB_INLINE i32x16 load(const void* p) {
    const __m256i* q = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
  }
  static FB_INLINE i32x16 broadcast(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  static FB_INLINE i32x16 zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static FB_INLINE i32x16 iota() {
    return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
  }
  static FB_INLINE i32x16 load_u8(const void* p) {
    const __m128i x = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))};
  }
  static FB_INLINE i32x16 load_i8(const void* p) {
    const __m128i x = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8))};
  }
  static FB_INLINE i32x16 load_u16(const void* p) {
    const __m128i* q = static_cast<const __m128i*>(p);
    return {_mm256_cvtepu16_epi32(_mm_loadu_si128(q)), _mm256_cvtepu16_epi32(_mm_loadu_si128(q + 1))};
  }
  FB_INLINE void store(void* p) const {
    __m256i* q = static_cast<__m256i*>(p);
    _mm256_storeu_si256(q, lo);
    _mm256_storeu_si256(q + 1, hi);
  }
};

struct f32x16 {
  __m256 lo, hi;
  static FB_INLINE f32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static FB_INLINE f32x16 load_partial(const float* p, int n) {
    return {_mm256_maskload_ps(p, first_lanes(n)), _mm256_maskload_ps(p + 8, first_lanes(n - 8))};
  }
  static FB_INLINE f32x16 broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static FB_INLINE f32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  FB_INLINE void store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }
  FB_INLINE void store_partial(float* p, int n) const {
    _mm256_maskstore_ps(p, first_lanes(n), lo);
    _mm256_maskstore_ps(p + 8, first_lanes(n - 8), hi);
  }
};

FB_INLINE f32x16 operator+(f32x16 a, f32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
FB_INLINE f32x16 operator-(f32x16 a, f32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
FB_INLINE f32x16 operator*(f32x16 a, f32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
FB_INLINE f32x16 operator/(f32x16 a, f32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
FB_INLINE f32x16 sqrt(f32x16 a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
FB_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
FB_INLINE f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
FB_INLINE f32x16 min(f32x16 a, f32x16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
FB_INLINE f32x16 max(f32x16 a, f32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }

FB_INLINE i32x16 operator+(i32x16 a, i32x16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
FB_INLINE i32x16 operator-(i32x16 a, i32x16 b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
FB_INLINE i32x16 operator&(i32x16 a, i32x16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
FB_INLINE i32x16 operator|(i32x16 a, i32x16 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
FB_INLINE i32x16 operator^(i32x16 a, i32x16 b) {
  return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
// A count known at compile time after inlining becomes the immediate form.
FB_INLINE i32x16 shift_left(i32x16 a, int n) {
  return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)};
}
FB_INLINE i32x16 shift_right(i32x16 a, int n) {
  return {_mm256_srli_epi32(a.lo, n), _mm256_srli_epi32(a.hi, n)};
}
FB_INLINE i32x16 shift_right_signed(i32x16 a, int n) {
  return {_mm256_srai_epi32(a.lo, n), _mm256_srai_epi32(a.hi, n)};
}

FB_INLINE f32x16 to_f32(i32x16 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
FB_INLINE f32x16 as_f32(i32x16 a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
FB_INLINE i32x16 as_i32(f32x16 a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }

FB_INLINE mask16 less(f32x16 a, f32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
FB_INLINE mask16 less_equal(f32x16 a, f32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LE_OQ)};
}
FB_INLINE mask16 unordered(f32x16 a) {
  return {_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q), _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q)};
}
FB_INLINE mask16 less(i32x16 a, i32x16 b) {
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(b.lo, a.lo)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(b.hi, a.hi))};
}
FB_INLINE uint32_t bits(mask16 m) {
  return static_cast<uint32_t>(_mm256_movemask_ps(m.lo) | _mm256_movemask_ps(m.hi) << 8);
}
FB_INLINE f32x16 select(mask16 m, f32x16 yes, f32x16 no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi)};
}
FB_INLINE i32x16 select(mask16 m, i32x16 yes, i32x16 no) {
  return as_i32(select(m, as_f32(yes), as_f32(no)));
}

FB_INLINE float reduce_add(f32x16 a) {
  const __m256 x8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 x4 = _mm_add_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
  const __m128 x2 = _mm_add_ps(x4, _mm_movehl_ps(x4, x4));
  return _mm_cvtss_f32(_mm_add_ss(x2, _mm_movehdup_ps(x2)));
}
FB_INLINE float reduce_max(f32x16 a) {
  const __m256 x8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 x4 = _mm_max_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
  const __m128 x2 = _mm_max_ps(x4, _mm_movehl_ps(x4, x4));
  return _mm_cvtss_f32(_mm_max_ss(x2, _mm_movehdup_ps(x2)));
}

FB_INLINE f32x16 load_f16(const void* p) {
  const __m128i* q = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
FB_INLINE f32x16 load_bf16(const void* p) { return as_f32(shift_left(i32x16::load_u16(p), 16)); }
FB_INLINE __m256i low16(i32x16 a) {  // the low half of each lane, in order
  const __m256i low = _mm256_set1_epi32(0xffff);
  const __m256i mixed =
      _mm256_packus_epi32(_mm256_and_si256(a.lo, low), _mm256_and_si256(a.hi, low));  // 64-bit blocks 0 2 1 3
  return _mm256_permute4x64_epi64(mixed, 0xd8);
}
FB_INLINE void store_low16(void* p, i32x16 a) { _mm256_storeu_si256(static_cast<__m256i*>(p), low16(a)); }
FB_INLINE f32x16 low_f16(i32x16 a) {  // the f16 in the low half of each lane
  const __m256i h = low16(a);
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(h)), _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1))};
}

}  // namespace fb::FB_ISA
