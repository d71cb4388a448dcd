// The arithmetic of rms_norm, which a linear does as its prologue, too.
#pragma once
#include "simd/f32x16.h"

namespace fb::FB_ISA {

// Sum of squares in 16 lanes (element i to lane i % 16), then the fixed tree; so it is the same on every ISA.
inline float sum_of_squares(const float* x, int64_t dim) {
  f32x16 sum = f32x16::zero();
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    const f32x16 v = f32x16::load(x + i);
    sum = fma(v, v, sum);
  }
  if (i < dim) {
    const f32x16 v = f32x16::load_partial(x + i, static_cast<int>(dim - i));
    sum = fma(v, v, sum);
  }
  return reduce_add(sum);
}

inline void scale_by_weight(const float* x, float inverse_rms, const float* weight, float* y, int64_t dim) {
  const f32x16 inverse = f32x16::broadcast(inverse_rms);
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes)
    (f32x16::load(x + i) * inverse * f32x16::load(weight + i)).store(y + i);
  if (i < dim) {
    const int n = static_cast<int>(dim - i);
    (f32x16::load_partial(x + i, n) * inverse * f32x16::load_partial(weight + i, n)).store_partial(y + i, n);
  }
}

// y = x / sqrt(mean(x^2) + eps) * weight; y may be x
inline void normalize(const float* x, const float* weight, float eps, float* y, int64_t dim) {
  const float mean = sum_of_squares(x, dim) / static_cast<float>(dim);
  scale_by_weight(x, 1.0f / __builtin_sqrtf(mean + eps), weight, y, dim);
}

}  // namespace fb::FB_ISA
