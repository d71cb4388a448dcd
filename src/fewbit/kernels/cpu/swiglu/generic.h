// swiglu: y = gated(gate, up) of simd/math.h. Units of work are 16-lane columns of all rows, so that one row is shared out too.
#pragma once
#include "core/kernel_entry.h"
#include "simd/math.h"
#include "simd/share.h"

namespace fb::FB_ISA {

inline void swiglu(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_swiglu_args& a = *static_cast<const fb_swiglu_args*>(pointer);
  const Gate form{a.alpha, a.shift, a.limit};
  const int64_t columns = (a.dim + kLanes - 1) / kLanes;
  const Share share = share_of(int64_t{*a.rows} * columns, worker);
  for (int64_t unit = share.begin; unit < share.end; ++unit) {
    const int64_t row = unit / columns, i = unit % columns * kLanes;
    const float* gate = a.gate_up + row * a.gate_up_stride + i;
    const float* up = gate + a.dim;
    float* y = a.y + row * a.y_stride + i;
    if (i + kLanes <= a.dim) {
      gated(f32x16::load(gate), f32x16::load(up), form).store(y);
    } else {
      const int n = static_cast<int>(a.dim - i);
      gated(f32x16::load_partial(gate, n), f32x16::load_partial(up, n), form).store_partial(y, n);
    }
  }
}

}  // namespace fb::FB_ISA

FB_KERNEL_ISA(swiglu_f32, 1, nullptr, fb::FB_ISA::swiglu)
