// rms_norm: y = x / sqrt(mean(x^2) + eps) * weight over vectors of `dim`, optionally after residual += x.
// A vector is one unit of work: rows * rows_per of them are shared out over the threads.
#pragma once
#include "core/kernel_entry.h"
#include "rms.h"
#include "simd/share.h"

namespace fb::FB_ISA {

inline void add_into(float* residual, const float* x, int64_t dim) {
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes)
    (f32x16::load(residual + i) + f32x16::load(x + i)).store(residual + i);
  if (i < dim) {
    const int n = static_cast<int>(dim - i);
    (f32x16::load_partial(residual + i, n) + f32x16::load_partial(x + i, n)).store_partial(residual + i, n);
  }
}

inline void rms_norm(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_rms_norm_args& a = *static_cast<const fb_rms_norm_args*>(pointer);
  const Share share = share_of(int64_t{*a.rows} * a.rows_per, worker);
  for (int64_t unit = share.begin; unit < share.end; ++unit) {
    const int64_t row = unit / a.rows_per, offset = unit % a.rows_per * a.dim;
    const float* x = a.x + row * a.x_stride + offset;
    if (a.residual) {
      float* residual = a.residual + row * a.residual_stride + offset;
      add_into(residual, x, a.dim);
      x = residual;
    }
    normalize(x, a.weight, a.eps, a.y + row * a.y_stride + offset, a.dim);
  }
}

}  // namespace fb::FB_ISA

FB_KERNEL_ISA(rms_norm_f32, 1, nullptr, fb::FB_ISA::rms_norm)
