// look_up16(table, index): table[index] in every lane; index 0..15.
#pragma once
#include "f32x16.h"

namespace fb::FB_ISA {

FB_INLINE f32x16 look_up16(const float* table, i32x16 index) {
#if defined(__AVX512F__)
  return {_mm512_permutexvar_ps(index.v, _mm512_loadu_ps(table))};
#elif defined(__AVX2__)
  const __m256 low = _mm256_loadu_ps(table), high = _mm256_loadu_ps(table + 8);
  const auto of = [&](__m256i i) __attribute__((always_inline)) {
    const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(i, 28));  // bit 3 of the index as the sign
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, i), _mm256_permutevar8x32_ps(high, i), upper);
  };
  return {of(index.lo), of(index.hi)};
#else
  int32_t at[kLanes];
  float value[kLanes];
  index.store(at);
  for (int i = 0; i < kLanes; ++i) value[i] = table[at[i]];
  return f32x16::load(value);
#endif
}

}  // namespace fb::FB_ISA
