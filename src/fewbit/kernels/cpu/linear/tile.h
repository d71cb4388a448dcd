// Register tile sizes per ISA, and the epilogue that every path shares.
#pragma once
#include "decode.h"
#include "share.h"

namespace fb::FB_ISA {

// kTileRows x kTileHalves: the tile of the blocked path. kFusedRows: most rows of the fused path, whose tile is all rows x
// fused_halves(rows): at least four chains, since a chain takes a step in 4 cycles, and no more than the registers hold.
#if defined(__AVX512F__)
// 32 registers of 16 lanes: 14x2 accumulators + 2 weights + 1 activation
constexpr int kTileRows = 14, kTileHalves = 2, kFusedRows = 4;
constexpr int fused_halves(int rows) { return rows == 1 ? 4 : 2; }
#elif defined(__AVX2__)
// 16 registers of 8 lanes, a vector being two of them: 6x2 accumulators + 2 weights + 1 activation
constexpr int kTileRows = 6, kTileHalves = 1, kFusedRows = 5;
constexpr int fused_halves(int rows) { return rows <= 2 ? 2 : 1; }
#else
constexpr int kTileRows = 3, kTileHalves = 1, kFusedRows = 1;  // small: each size is one more instantiation
constexpr int fused_halves(int) { return 2; }
#endif
constexpr int kPrefetchBytes = 3072;  // distance: about 0.3 us of decoding on one core

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
