// linear with 8-bit activations: y[m,n] = sum over groups of (integer dot product) * scales, + bias.
//
// x is quantized once (activations.h): x ~ sx[m,G] * qx[m,k], G a group of 32 k. Weights w = s[n,g] * q + o[n,g], g a group of 32
// or 16 k. For G ascending, and within it for g ascending, from sum = 0:
//
//   sum = fma(sx * s, float(sum over k in g of q * qx), sum)
//   sum = fma(o, sx * float(sum over k in g of qx), sum)             if the scheme has offsets
//
// The integer sums are exact on every ISA (|q| <= 128, |qx| <= 127, 32 terms: below 2^19.1, so float() is exact too), s and o
// are exact in f32, and the rest is this one chain: so scalar, AVX2, VNNI and AMX give the same bits, at any M and thread count.
//
// Error. |x - sx qx| <= sx/2 (1 + 2^-15), so |y - y_exact| <= sum over G of sx/2 * sum over k in G of |w| (the quantization of x,
// 1/254 of the group's largest |x| a weight) plus f32 rounding: each of the J = (1 or 2) * K/g chain steps adds at most
// 2^-24 (J + 3) * |term| (the chain, sx, sx * s or sx * float(), and the fma).
#pragma once
#include "activations.h"
#include "core/kernel_entry.h"
#include "linear/finish.h"
#include "weights.h"

namespace fb::FB_ISA {

constexpr int kPrefetchBytes = 3072;  // ahead in the packed stream: about 5 blocks
constexpr int kChunkTiles = 4;        // row tiles that share one decoded group: 64 rows, 8 KiB of sums

// sums[row][32 n] of up to 4 tiles, in the thread's scratch
using Sums = float[kChunkTiles * kRecordRows][kPanel];

template <Scheme S>
FB_INLINE void add_group(const WeightGroup<S>& weight, const Records& records, uint8_t* record, int r,
                         float* sum) {
  using W = WeightGroup<S>;
  const int8_t* x = records.codes(record) + r * kGroup;
  const Floats x_scale = Floats::broadcast(records.scales(record)[r]);
  Floats s = Floats::load(sum);
  unroll<W::kGroups>([&](auto g) FB_INLINE_LAMBDA {
    const int first = g * W::kStepsPerGroup;
    int32_t start = 0;
    if constexpr (dot_bias<S>() != 0) start = static_cast<const int32_t*>(records.extra(record, g))[r];
    const Words product = dot<W::kStepsPerGroup, S.bits>(weight.codes + first, weight.low_plane + 64 * first,
                                                         x + kStepBytes * first, start);
    s = fma(x_scale * weight.scale[g], to_f32(product), s);
    if constexpr (S.offset)
      s = fma(weight.offset[g], Floats::broadcast(static_cast<const float*>(records.extra(record, g))[r]), s);
  });
  s.store(sum);
}

// Row tiles [tiles.begin, tiles.end) of one panel, at most kChunkTiles. Each vector of weights is decoded once and then meets
// every row; the sums wait in L1, since there are more of them than registers.
template <Scheme S>
FB_INLINE void chunk(const uint8_t* packed, const Records& records, Range tiles, Sums& sums) {
  const int64_t first_row = tiles.begin * records.tile_rows;
  const int64_t rows = smaller(tiles.end * records.tile_rows, records.rows) - first_row;
  for (int64_t m = 0; m < rows; ++m)
    for (int lane = 0; lane < kPanel; lane += kWordLanes) Floats::zero().store(sums[m] + lane);
  for (int64_t group = 0; group < records.steps; ++group) {
    const int sub = static_cast<int>(group % S.sub_blocks());
    const uint8_t* block = packed + group / S.sub_blocks() * S.block_bytes();
    for (int byte = 0; byte < S.sub_bytes() + 128; byte += 64)
      __builtin_prefetch(block + sub * S.sub_bytes() + kPrefetchBytes + byte);
    for (int lane = 0; lane < kPanel; lane += kWordLanes) {
      WeightGroup<S> weight;
      weight.load(block, sub, lane);
      for (int64_t m = 0; m < rows; m += records.tile_rows) {
        uint8_t* record = records.record(tiles.begin + m / records.tile_rows, group);
        const int count = static_cast<int>(smaller(records.tile_rows, rows - m));
        for (int r = 0; r < count; ++r) add_group(weight, records, record, r, sums[m + r] + lane);
      }
    }
  }
}

template <Scheme S>
void multiply(const fb_linear_args& args, const Records& records, const fb_worker& worker) {
  Sums& sums = *static_cast<Sums*>(worker.scratch);
  const Panels panels(args);
  const Share share = share_of(panels, records.tiles(), 1, worker.thread, worker.threads);
  for (int64_t place = share.panels.begin; place < share.panels.end; ++place)
    for (int64_t tile = share.rows.begin; tile < share.rows.end; tile += kChunkTiles) {
      const int64_t panel = panels.at(place);
      const Range tiles{tile, smaller(tile + kChunkTiles, share.rows.end)};
      chunk<S>(args.weight + panel * S.panel_bytes(args.k), records, tiles, sums);
      const int64_t first_row = tile * records.tile_rows,
                    end_row = smaller(tiles.end * records.tile_rows, records.rows);
      for (int64_t row = first_row; row < end_row; ++row)
        for (int half = 0; half < 2; ++half)
          finish(args, row, panel * kPanel + half * kHalf,
                 f32x16::load(sums[row - first_row] + half * kHalf));
    }
}

template <Scheme S>
void run_linear_i8(const void* pointer, int32_t phase, const fb_worker* worker) {
  const fb_linear_args& args = *static_cast<const fb_linear_args*>(pointer);
  if (*args.rows <= 0) return;
  const Records records = records_of<S, dot_bias<S>()>(args, *args.rows);
  if (phase == 0)
    quantize<S, dot_bias<S>()>(args, records, *worker);
  else
    multiply<S>(args, records, *worker);
}

}  // namespace fb::FB_ISA

#define FB_LINEAR_I8_ROW(scheme, layout)                                               \
  FB_KERNEL_ISA(FB_PASTE(linear, FB_PASTE(scheme, FB_PASTE(i8g32, layout))), 2,        \
                (workspace_bytes<fb::FB_ISA::scheme, dot_bias<fb::FB_ISA::scheme>()>), \
                run_linear_i8<fb::FB_ISA::scheme>)
