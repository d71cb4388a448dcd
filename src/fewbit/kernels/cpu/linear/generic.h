// linear with f32 activations: y[m,n] = chain over k = 0..K-1 of fma(w[n,k], x[m,k], sum) from 0, then + bias.
// The lanes of a vector are n, so no sum is ever split: the bits are the same for every M, thread count and ISA.
#pragma once
#include "blocked.h"
#include "core/kernel_entry.h"
#include "fused.h"
#include "norm/rms.h"

namespace fb::FB_ISA {

template <Scheme S, int rows = kFusedRows>
FB_INLINE void fused_rows(const fb_linear_args& args, int64_t count_rows, Range panels) {
  if constexpr (rows > 1)
    if (count_rows != rows) return fused_rows<S, rows - 1>(args, count_rows, panels);
  fused_panels<S, rows>(args, panels);
}

// Every thread norms the few rows for itself, which takes less time than a barrier.
FB_INLINE const float* norm_rows(const fb_linear_args& args, int64_t rows, float* out) {
  for (int64_t m = 0; m < rows; ++m)
    normalize(args.x + m * args.x_stride, args.norm, args.eps, out + m * args.k, args.k);
  return out;
}

template <Scheme S>
void run_linear(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_linear_args& args = *static_cast<const fb_linear_args*>(pointer);
  const int64_t rows = *args.rows;
  const Panels panels(args);
  if (rows <= 0) return;
  if (rows <= kFusedRows) {
    const Range own = panels.piece_of(worker->thread, worker->threads);
    if (!args.norm) return fused_rows<S>(args, rows, own);
    fb_linear_args normed = args;
    normed.x = norm_rows(args, rows, static_cast<float*>(worker->scratch));
    normed.x_stride = args.k;
    return fused_rows<S>(normed, rows, own);
  }
  blocked<S>(args, panels, share_of(panels, rows, kTileRows, worker->thread, worker->threads),
             *static_cast<BlockScratch*>(worker->scratch));
}

}  // namespace fb::FB_ISA

#define FB_LINEAR_ROW(scheme, layout)                                                  \
  FB_KERNEL_ISA(FB_PASTE(linear, FB_PASTE(scheme, FB_PASTE(f32, layout))), 1, nullptr, \
                run_linear<fb::FB_ISA::scheme>)

// A row of layout n32parts: its name is the scheme's, its code that of the kind of codes.
#define FB_LINEAR_PARTS_ROW(scheme, codes) \
  FB_KERNEL_ISA(FB_PASTE(linear, FB_PASTE(scheme, f32_n32parts)), 1, nullptr, run_linear<fb::FB_ISA::codes>)
