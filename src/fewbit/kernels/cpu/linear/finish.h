// The epilogue that every linear kernel shares.
#pragma once
#include "core/fewbit.h"
#include "scheme.h"
#include "simd/f32x16.h"

namespace fb::FB_ISA {

// y[row, n .. n+15] = sum + bias, added to y when accumulating; columns from args.n on do not exist
FB_INLINE void finish(const fb_linear_args& args, int64_t row, int64_t n, f32x16 sum) {
  const int64_t columns = args.n - n;
  if (columns <= 0) return;
  float* y = args.y + row * args.y_stride + n;
  if (columns >= kHalf) {
    if (args.bias) sum = sum + f32x16::load(args.bias + n);
    if (args.accumulate) sum = f32x16::load(y) + sum;
    sum.store(y);
    return;
  }
  const int rest = static_cast<int>(columns);
  if (args.bias) sum = sum + f32x16::load_partial(args.bias + n, rest);
  if (args.accumulate) sum = f32x16::load_partial(y, rest) + sum;
  sum.store_partial(y, rest);
}

}  // namespace fb::FB_ISA
