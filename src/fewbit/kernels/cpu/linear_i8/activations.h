// Activations in 8 bits: x[m, k] ~ scale[m, g] * q[m, k], one scale for each row and group of 32 k.
//
//   largest = max |x| over the group;  scale = largest / 127;  q = round_to_even(x * (127 / largest)), in -127..127
//
// (two f32 roundings before the rounding to an integer; |x| * (127 / largest) <= 127 (1 + 2^-23), so q never leaves its range).
// A group with largest < 2^-100 counts as zeros: scale 0, q 0 (127 / largest would overflow, and nothing so small matters in
// f32 sums of the rest). A group with an infinity or NaN gets scale NaN, so that every output of the row is NaN and is noticed.
//
// Workspace: tiles of R rows, R = min(16, rows), in order; in a tile, one record for each group:
//   i8 q[R][32]  in the byte order of steps.h
//   f32 scale[R]
//   biased codes:  i32 start[32/g][R] = -bias * sum of q over the weight's group of g: where its integer dot product starts
//   offset codes:  f32 sum[32/g][R]   = scale * float(sum of q over the weight's group)
// With R = 16 everything is 64-byte aligned and q is an 8-bit tile operand. R follows the row count so that one row is dense.
#pragma once
#include "core/fewbit.h"
#include "lanes.h"
#include "linear/share.h"
#include "steps.h"

namespace fb::FB_ISA {

constexpr int kRecordRows = 16;

struct Records {
  uint8_t* base;
  int64_t rows, steps;  // a step is a group of 32 k
  int tile_rows;        // R
  int extras;           // 4-byte fields of a row beside its scale

  FB_INLINE int64_t record_bytes() const { return tile_rows * (kGroup + 4 + 4 * extras); }
  FB_INLINE int64_t tiles() const { return ceil_div(rows, tile_rows); }
  FB_INLINE uint8_t* record(int64_t tile, int64_t group) const {
    return base + (tile * steps + group) * record_bytes();
  }
  FB_INLINE int8_t* codes(uint8_t* record) const { return reinterpret_cast<int8_t*>(record); }
  FB_INLINE float* scales(uint8_t* record) const {
    return reinterpret_cast<float*>(record + tile_rows * kGroup);
  }
  FB_INLINE void* extra(uint8_t* record, int sub) const { return scales(record) + (1 + sub) * tile_rows; }
};

template <Scheme S>
constexpr int groups_of_weight() {  // weight groups in 32 k
  return kGroup / S.group;
}

// bias: what the codes are biased by when they enter the dot product; 0 where it takes them signed.
template <Scheme S, int bias>
constexpr int extra_fields() {
  return bias || S.offset ? groups_of_weight<S>() : 0;
}

// whole_tiles: tiles have 16 rows however few there are.
template <Scheme S, int bias, bool whole_tiles = false>
FB_INLINE Records records_of(const fb_linear_args& args, int64_t rows) {
  const int tile_rows = static_cast<int>(whole_tiles ? kRecordRows : smaller(rows, kRecordRows));
  return {static_cast<uint8_t*>(args.workspace), rows, args.k / kGroup, tile_rows, extra_fields<S, bias>()};
}

template <Scheme S, int bias, bool whole_tiles = false>
int64_t workspace_bytes(const void* pointer, int64_t max_rows) {
  if (max_rows <= 0) return 0;
  const Records records =
      records_of<S, bias, whole_tiles>(*static_cast<const fb_linear_args*>(pointer), max_rows);
  return records.tiles() * records.steps * records.record_bytes();
}

struct QuantizedGroup {
  i32x16 low, high;  // q of k 0..15 and 16..31
  float scale;
  float low_sum, high_sum;  // exact
};

FB_INLINE QuantizedGroup quantize_group(const float* x) {
  const i32x16 magnitude = i32x16::broadcast(0x7fffffff);
  const f32x16 a = f32x16::load(x), b = f32x16::load(x + 16);
  const float largest = reduce_max(max(as_f32(as_i32(a) & magnitude), as_f32(as_i32(b) & magnitude)));
  const bool odd_values = (bits(unordered(a)) | bits(unordered(b))) != 0 || largest > 0x1.fffffep127f;
  if (odd_values || largest < 0x1p-100f)
    return {i32x16::zero(), i32x16::zero(), odd_values ? __builtin_nanf("") : 0.0f, 0.0f, 0.0f};
  const f32x16 inverse = f32x16::broadcast(127.0f / largest);
  const f32x16 magic = f32x16::broadcast(0x1.8p23f);  // adding it rounds to an integer, kept in the low bits
  const f32x16 low = a * inverse + magic, high = b * inverse + magic;
  return {as_i32(low) - as_i32(magic), as_i32(high) - as_i32(magic), largest / 127.0f,
          reduce_add(low - magic), reduce_add(high - magic)};
}

// Quantizes this thread's share of the (tile, group) records. Rows that pad the last tile are zeros.
template <Scheme S, int bias>
FB_INLINE void quantize(const fb_linear_args& args, const Records& records, const fb_worker& worker) {
  constexpr int subs = groups_of_weight<S>();
  static constexpr ByteOrder order = byte_order<S>();
  const Range mine = piece(records.tiles() * records.steps, worker.thread, worker.threads);
  for (int64_t at = mine.begin; at < mine.end; ++at) {
    const int64_t tile = at / records.steps, group = at % records.steps;
    uint8_t* record = records.record(tile, group);
    for (int r = 0; r < records.tile_rows; ++r) {
      const int64_t row = tile * records.tile_rows + r;
      QuantizedGroup q{i32x16::zero(), i32x16::zero(), 0, 0, 0};
      if (row < records.rows) q = quantize_group(args.x + row * args.x_stride + group * kGroup);
      store_bytes(records.codes(record) + r * kGroup, q.low, q.high, order.k);
      records.scales(record)[r] = q.scale;
      const float sums[2] = {subs == 1 ? q.low_sum + q.high_sum : q.low_sum, q.high_sum};
      for (int sub = 0; sub < subs; ++sub) {
        if constexpr (bias != 0)
          static_cast<int32_t*>(records.extra(record, sub))[r] = -bias * static_cast<int32_t>(sums[sub]);
        if constexpr (S.offset) static_cast<float*>(records.extra(record, sub))[r] = q.scale * sums[sub];
      }
    }
  }
}

}  // namespace fb::FB_ISA
