// Activations as BF16 tile operands. Rounding x to BF16 (to nearest even) is the only approximation of this kernel's rows.
//
// Workspace: blocks of 16 rows in order; in a block, one record for each step of 32 k:
//   bf16 x[16][32]       a tile of 1 KiB, rows past the last one and k past K are zeros
//   f32 sums[32/g][16]   only where offsets are added after the products: the sum of the row's rounded x over the weight's group of g
#pragma once
#include "norm/rms.h"
#include "simd/bf16.h"
#include "sweep.h"

namespace fb::FB_ISA {

template <Scheme S, bool with_sums = S.offset>
struct Activations {
  static constexpr int kSums = with_sums ? kStep / S.group : 0;
  static constexpr int64_t kRecordBytes = kTileBytes + kSums * kBlockRows * 4;
  uint8_t* base;
  int64_t rows, steps;

  FB_INLINE Activations(const fb_linear_args& args, int64_t row_count)
      : base(static_cast<uint8_t*>(args.workspace)), rows(row_count), steps(ceil_div(args.k, kStep)) {}
  FB_INLINE int64_t record_bytes() const { return kRecordBytes; }
  FB_INLINE int64_t blocks() const { return ceil_div(rows, kBlockRows); }
  FB_INLINE uint8_t* record(int64_t block, int64_t step) const {
    return base + (block * steps + step) * kRecordBytes;
  }

  // This thread's share of the records.
  FB_INLINE void round(const fb_linear_args& args, const fb_worker& worker) const {
    if (args.norm) return norm_and_round(args, worker);
    const Range mine = piece(blocks() * steps, worker.thread, worker.threads);
    for (int64_t at = mine.begin; at < mine.end; ++at) {
      const int64_t block = at / steps, step = at % steps;
      const int64_t first = block * kBlockRows, live = smaller(kBlockRows, rows - first);
      const int count = static_cast<int>(smaller(kStep, args.k - step * kStep));
      uint8_t* to = record(block, step);
      for (int64_t r = 0; r < live; ++r)
        round_row(args.x + (first + r) * args.x_stride + step * kStep, count, to, static_cast<int>(r));
      for (int64_t r = live; r < kBlockRows; ++r) {
        memset(to + r * kTileRowBytes, 0, kTileRowBytes);
        for (int g = 0; g < kSums; ++g) reinterpret_cast<float*>(to + kTileBytes)[g * kBlockRows + r] = 0;
      }
    }
  }

 private:
  // By rows, since the norm needs all of one.
  FB_INLINE void norm_and_round(const fb_linear_args& args, const fb_worker& worker) const {
    float* normed = static_cast<float*>(worker.scratch);
    const Range mine = piece(blocks() * kBlockRows, worker.thread, worker.threads);
    for (int64_t row = mine.begin; row < mine.end; ++row) {
      const int64_t block = row / kBlockRows;
      const int r = static_cast<int>(row % kBlockRows);
      if (row < rows) normalize(args.x + row * args.x_stride, args.norm, args.eps, normed, args.k);
      for (int64_t step = 0; step < steps; ++step) {
        const int count = static_cast<int>(row < rows ? smaller(kStep, args.k - step * kStep) : 0);
        round_row(normed + step * kStep, count, record(block, step), r);
      }
    }
  }

  // One row of a record: 32 values, of which `count` exist.
  static FB_INLINE void round_row(const float* x, int count, uint8_t* record, int row) {
    const f32x16 low = count >= 16 ? f32x16::load(x) : f32x16::load_partial(x, count);
    const f32x16 high = count >= 32  ? f32x16::load(x + 16)
                        : count > 16 ? f32x16::load_partial(x + 16, count - 16)
                                     : f32x16::zero();
    uint8_t* to = record + row * kTileRowBytes;
    store_bf16(to, low);
    store_bf16(to + 32, high);
    if constexpr (kSums > 0) {
      float* sums = reinterpret_cast<float*>(record + kTileBytes) + row;
      const f32x16 a = load_bf16(to), b = load_bf16(to + 32);
      if (S.group == 32) {
        sums[0] = reduce_add(a + b);
      } else {
        sums[0] = reduce_add(a);
        sums[kBlockRows] = reduce_add(b);
      }
    }
  }
};

template <Scheme S, bool with_sums>
int64_t workspace_bytes(const void* pointer, int64_t max_rows) {
  using X = Activations<S, with_sums>;
  const X x(*static_cast<const fb_linear_args*>(pointer), max_rows);
  return x.blocks() * x.steps * X::kRecordBytes;
}

}  // namespace fb::FB_ISA
