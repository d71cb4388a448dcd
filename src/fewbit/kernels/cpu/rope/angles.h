// rope_angles: cos and sin of position * inv_freq. The product is in f32 (as models were trained), the functions in double from
// libm. There is one row of it for all machines: it runs once a step, and a single code path keeps its bits the same everywhere.
#pragma once
#include <math.h>

#include "core/kernel_entry.h"
#include "simd/share.h"

namespace fb::FB_ISA {

inline void rope_angles(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_rope_angles_args& a = *static_cast<const fb_rope_angles_args*>(pointer);
  const Share share = share_of(int64_t{*a.rows} * a.half_dim, worker);
  for (int64_t unit = share.begin; unit < share.end; ++unit) {
    const float angle = static_cast<float>(a.positions[unit / a.half_dim]) * a.inv_freq[unit % a.half_dim];
    a.cos[unit] = static_cast<float>(::cos(static_cast<double>(angle)) * static_cast<double>(a.scale));
    a.sin[unit] = static_cast<float>(::sin(static_cast<double>(angle)) * static_cast<double>(a.scale));
  }
}

}  // namespace fb::FB_ISA

FB_KERNEL_ISA(rope_angles_f32, 1, nullptr, fb::FB_ISA::rope_angles)
