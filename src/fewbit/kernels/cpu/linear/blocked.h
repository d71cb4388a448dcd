// Many rows: a block of K x panel is decoded once into scratch, then all rows of the thread meet it there.
#pragma once
#include "tile.h"

namespace fb::FB_ISA {

constexpr int kBlockK = 256;     // k of a decoded block: one half of it is 16 KiB, half of L1
constexpr int kBlockRows = 126;  // rows that sweep a decoded block: decoding then costs about 1 %

// In the thread's scratch: decoded weights [k][32 n] (or, with one half per tile, [half][k][16 n]), and partial sums.
struct BlockScratch {
  float weights[kBlockK * kPanel];
  float sums[kBlockRows * kPanel];
};
static_assert(sizeof(BlockScratch) <= FB_SCRATCH_BYTES);

constexpr int kWeightsStride = kTileHalves * kHalf;  // floats between two k

// [k_begin, k_end) of one half panel to out [k][16 n], kWeightsStride floats between two k; k_begin at a sub-block.
template <Scheme S>
void decode_half(const fb_linear_args& args, const uint8_t* packed, int half, int64_t k_begin, int64_t k_end,
                 float* out) {
  Decoder<S> weights[1];
  weights[0].begin_panel(args, packed);
  for (int64_t k = k_begin; k < k_end; k += kSubBlock, out += kSubBlock * kWeightsStride) {
    const uint8_t* block = packed + k / S.block_k() * S.block_bytes();
    const int sub = static_cast<int>(k % S.block_k() / kSubBlock);
    if (half == 0) prefetch_ahead<S>(block, sub);  // half 1 comes soon after
    weights[0].begin_block(block, half);
    each_k(weights, sub,
           [&](int k0, auto i) FB_INLINE_LAMBDA { weights[0].at(i).store(out + (k0 + i) * kWeightsStride); });
  }
}

// One register tile: sums[m][n] chained over `count` k. x: rows of x_stride; w: [count][kWeightsStride]; s: [rows][32].
template <int rows>
void multiply_tile(const float* x, int64_t x_stride, const float* w, int64_t count, float* s, bool first) {
  f32x16 sum[rows][kTileHalves];
  unroll<rows>([&](auto m) FB_INLINE_LAMBDA {
    unroll<kTileHalves>([&](auto h) FB_INLINE_LAMBDA {
      sum[m][h] = first ? f32x16::zero() : f32x16::load(s + m * kPanel + h * kHalf);
    });
  });
  for (int64_t k = 0; k < count; ++k, w += kWeightsStride) {
    f32x16 weight[kTileHalves];
    unroll<kTileHalves>([&](auto h) FB_INLINE_LAMBDA { weight[h] = f32x16::load(w + h * kHalf); });
    unroll<rows>([&](auto m) FB_INLINE_LAMBDA {
      const f32x16 a = f32x16::broadcast(x[m * x_stride + k]);
      unroll<kTileHalves>([&](auto h) FB_INLINE_LAMBDA { sum[m][h] = fma(weight[h], a, sum[m][h]); });
    });
  }
  unroll<rows>([&](auto m) FB_INLINE_LAMBDA {
    unroll<kTileHalves>([&](auto h) FB_INLINE_LAMBDA { sum[m][h].store(s + m * kPanel + h * kHalf); });
  });
}

template <int rows = kTileRows>
FB_INLINE void multiply_rows(int64_t count_rows, const float* x, int64_t x_stride, const float* w,
                             int64_t count, float* s, bool first) {
  if constexpr (rows > 1)
    if (count_rows != rows) return multiply_rows<rows - 1>(count_rows, x, x_stride, w, count, s, first);
  multiply_tile<rows>(x, x_stride, w, count, s, first);
}

template <Scheme S>
void blocked_panel(const fb_linear_args& args, Range rows, int64_t panel, BlockScratch& scratch) {
  const uint8_t* packed = panel_of<S>(args.weight, args.k, panel);
  const int64_t count_rows = rows.end - rows.begin, tiles = ceil_div(count_rows, kTileRows);
  for (int64_t k0 = 0; k0 < args.k; k0 += kBlockK) {
    const int64_t count = smaller(kBlockK, args.k - k0);
    for (int half = 0; half < 2; half += kTileHalves) {
      float* weights = scratch.weights + half * (kBlockK * kHalf);
      for (int h = 0; h < kTileHalves; ++h)
        decode_half<S>(args, packed, half + h, k0, k0 + count, weights + h * kHalf);
      for (int64_t t = 0; t < tiles; ++t) {
        const Range tile = piece(count_rows, t, tiles);
        multiply_rows(tile.end - tile.begin, args.x + (rows.begin + tile.begin) * args.x_stride + k0,
                      args.x_stride, weights, count, scratch.sums + tile.begin * kPanel + half * kHalf,
                      k0 == 0);
      }
    }
  }
  for (int64_t m = 0; m < count_rows; ++m)
    for (int half = 0; half < 2; ++half)
      finish(args, rows.begin + m, panel * kPanel + half * kHalf,
             f32x16::load(scratch.sums + m * kPanel + half * kHalf));
}

template <Scheme S>
void blocked(const fb_linear_args& args, const Panels& panels, const Share& share, BlockScratch& scratch) {
  for (int64_t row = share.rows.begin; row < share.rows.end; row += kBlockRows)
    for (int64_t panel = share.panels.begin; panel < share.panels.end; ++panel)
      blocked_panel<S>(args, {row, smaller(row + kBlockRows, share.rows.end)}, panels.at(panel), scratch);
}

}  // namespace fb::FB_ISA
