// rope: rotates the half-split pairs (i, i + rotary_dim/2) of every head in place. A unit of work is one head of one row.
//   y1 = x1 cos - x2 sin,  y2 = x2 cos + x1 sin,  each as one product and one fma.
#pragma once
#include "core/kernel_entry.h"
#include "simd/f32x16.h"
#include "simd/share.h"

namespace fb::FB_ISA {

inline void rope(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_rope_args& a = *static_cast<const fb_rope_args*>(pointer);
  const int64_t half = a.rotary_dim / 2;
  const Share share = share_of(int64_t{*a.rows} * a.heads, worker);
  for (int64_t unit = share.begin; unit < share.end; ++unit) {
    const int64_t row = unit / a.heads;
    const float *cos = a.cos + row * half, *sin = a.sin + row * half;
    float* first = a.x + row * a.x_stride + unit % a.heads * a.head_dim;
    float* second = first + half;
    int64_t i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      const f32x16 x1 = f32x16::load(first + i), x2 = f32x16::load(second + i);
      const f32x16 c = f32x16::load(cos + i), s = f32x16::load(sin + i);
      fnma(x2, s, x1 * c).store(first + i);
      fma(x1, s, x2 * c).store(second + i);
    }
    if (i < half) {  // apart: masked stores take some 40 micro-operations on Zen
      const int n = static_cast<int>(half - i);
      const f32x16 x1 = f32x16::load_partial(first + i, n), x2 = f32x16::load_partial(second + i, n);
      const f32x16 c = f32x16::load_partial(cos + i, n), s = f32x16::load_partial(sin + i, n);
      fnma(x2, s, x1 * c).store_partial(first + i, n);
      fma(x1, s, x2 * c).store_partial(second + i, n);
    }
  }
}

}  // namespace fb::FB_ISA

FB_KERNEL_ISA(rope_f32, 1, nullptr, fb::FB_ISA::rope)
