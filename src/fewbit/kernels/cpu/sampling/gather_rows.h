// gather_rows: y[r,:] = x[index[r],:], the rows of a step whose logits are wanted. memcpy is already the best copy of each machine,
// so there is one row of it.
#pragma once
#include <string.h>

#include "core/kernel_entry.h"
#include "simd/share.h"

namespace fb::FB_ISA {

inline void gather_rows(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_gather_rows_args& a = *static_cast<const fb_gather_rows_args*>(pointer);
  const Share share = share_of(*a.rows, worker);
  for (int64_t row = share.begin; row < share.end; ++row)
    memcpy(a.y + row * a.y_stride, a.x + a.index[row] * a.x_stride,
           static_cast<size_t>(a.dim) * sizeof(float));
}

}  // namespace fb::FB_ISA

FB_KERNEL_ISA(gather_rows_f32, 1, nullptr, fb::FB_ISA::gather_rows)
