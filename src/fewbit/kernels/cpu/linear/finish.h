// The epilogue that every linear kernel shares.
#pragma once
#include "core/fewbit.h"
#include "scheme.h"
#include "simd/math.h"

namespace fb::FB_ISA {

// What fold 2 makes of row n .. n+15 of the weight: gates wait in y until their ups come.
FB_INLINE void finish_folded(const fb_linear_args& args, int64_t row, int64_t n, f32x16 sum) {
  const int64_t gates = args.n / 2;
  float* y = args.y + row * args.y_stride + n % gates;
  if (args.bias) sum = sum + f32x16::load(args.bias + n);
  if (n >= gates) sum = gated(f32x16::load(y), sum, {args.alpha, args.shift, args.limit});
  sum.store(y);
}

// y[row, n .. n+15] = sum + bias, added to y when accumulating; columns from args.n on do not exist
FB_INLINE void finish(const fb_linear_args& args, int64_t row, int64_t n, f32x16 sum) {
  if (args.fold == 2) return finish_folded(args, row, n, sum);
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
