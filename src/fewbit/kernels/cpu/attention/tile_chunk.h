// One chunk of attention on AMX tiles: queries and softmax weights rounded to bf16, keys and values as the cache holds them (its
// pages are in tile order already), products summed in f32 tiles, softmax in f32. A result class of its own.
//
// The unit of the scores is log2: queries are scaled by scale * log2(e), weights are 2^(score - maximum). 32 rows are two tiles high:
//   scores  [32, 32 tokens]   = Q [32, head_dim] . key page: rows of pairs along head_dim, 128 B apart
//   sums    [32, 32 of head_dim] = P [32, 256 tokens] . value pages: rows of token pairs, 4 head_dim B apart
// A tile product adds what a row does not see with weight 0, which changes nothing as long as keys and values are finite. Slots behind
// the sequence's last token may hold anything, so of the last page of values a copy with zeros there is used.
#pragma once
#include "merge.h"
#include "simd/bf16.h"
#include "simd/tile.h"
#include "softmax.h"
#include "work.h"

namespace fb::FB_ISA {

// 2^x for x <= 0, relative error 3e-6 (weights are rounded to bf16, 2e-3); below 2^-126 it is 0.
FB_INLINE f32x16 exp2_nonpositive(f32x16 x) {
  const f32x16 lowest = f32x16::broadcast(-126.0f), magic = f32x16::broadcast(0x1.8p23f);
  const f32x16 clamped = max(lowest, x);  // lets NaN through
  const f32x16 shifted = clamped + magic;
  const f32x16 r = clamped - (shifted - magic);
  f32x16 p = f32x16::broadcast(0x1.3a02ccp-7f);
  p = fma(p, r, f32x16::broadcast(0x1.c9fc46p-5f));
  p = fma(p, r, f32x16::broadcast(0x1.ec0378p-3f));
  p = fma(p, r, f32x16::broadcast(0x1.62e12cp-1f));
  p = fma(p, r, f32x16::broadcast(1.0f));
  const f32x16 power = as_f32(shift_left(as_i32(shifted), 23) + i32x16::broadcast(127 << 23));
  return select(less(x, lowest), f32x16::zero(), p * power);
}

struct TileChunk {
  static constexpr int kRows = 2 * kTileRows;
  struct Weight {
    static FB_INLINE f32x16 of(f32x16 x) { return exp2_nonpositive(x); }
  };

  TileChunk(const fb_attention_args& args, void* scratch) : a(args), head_dim(args.head_dim) {
    sums = static_cast<float*>(scratch);
    scores = sums + kRows * head_dim;
    weights = reinterpret_cast<uint16_t*>(scores + kRows * kChunkTokens);
    q = weights + kRows * kChunkTokens;
    last_values = reinterpret_cast<uint32_t*>(q + kRows * head_dim);
    static constexpr TileConfig kFull = TileConfig::full();
    tiles.configure(kFull);
    memset(weights, 0, kRows * kChunkTokens * sizeof(uint16_t));
  }
  ~TileChunk() { tiles.release(); }

  RowState state(int64_t r) const { return states[r]; }
  const float* o(int64_t r) const { return sums + r * head_dim; }

  // Rows that pad the last tile are 0.
  void load(const Item& item) {
    const f32x16 scale = f32x16::broadcast(a.scale * 0x1.715476p0f);
    for (int64_t r = 0; r < item.rows; ++r) {
      const float* from = query_of(a, item, r);
      for (int64_t d = 0; d < head_dim; d += kLanes)
        store_bf16(q + r * head_dim + d, f32x16::load(from + d) * scale);
    }
    memset(q + item.rows * head_dim, 0,
           static_cast<size_t>((kRows - item.rows) * head_dim) * sizeof(uint16_t));
  }

  void run(const Item& item, int64_t chunk) {
    start = chunk * kChunkTokens;
    two_tiles = item.rows > kTileRows;
    const TokenRange block = inside(item.visible());
    first_page = block.begin / FB_PAGE_TOKENS;
    end_page = (block.end + FB_PAGE_TOKENS - 1) / FB_PAGE_TOKENS;
    const int32_t* pages = a.page_table + item.seq * a.page_table_stride + start / FB_PAGE_TOKENS;
    for (int64_t p = first_page; p < end_page; ++p) {
      const int64_t offset = (pages[p] * a.kv_heads + item.kv_head) * FB_PAGE_TOKENS * head_dim;
      score_page(a.k_cache + offset, scores + p * FB_PAGE_TOKENS);
      values[p] = reinterpret_cast<const uint32_t*>(a.v_cache + offset);
    }
    const int64_t written = a.kv_len[item.seq] - start;  // tokens of the chunk that hold something
    if (end_page * FB_PAGE_TOKENS > written)
      values[end_page - 1] = copy_written(values[end_page - 1], written - (end_page - 1) * FB_PAGE_TOKENS);
    for (int64_t r = 0; r < item.rows; ++r) softmax(r, inside(item.visible(r)));
    for (int64_t d = 0; d < head_dim; d += 32) weigh(d);
    const f32x16 zero = f32x16::
        zero();  // -0 + 0 = 0: tiles of unseen tokens turn -0 into 0, so that it never depends on them
    for (int64_t i = 0; i < item.rows * head_dim; i += kLanes)
      (f32x16::load(sums + i) + zero).store(sums + i);
  }

 private:
  const fb_attention_args& a;
  int64_t head_dim, start = 0, first_page = 0,
                    end_page = 0;  // start: first token of the chunk; pages of the chunk
  bool two_tiles = false;
  float *sums, *scores;   // [kRows, head_dim], [kRows, 256]
  uint16_t *weights, *q;  // bf16 [kRows, 256], [kRows, head_dim]
  uint32_t* last_values;  // a page
  const uint32_t* values[kChunkPages];
  RowState states[kRows];
  Tiles tiles;

  TokenRange inside(TokenRange t) const { return within_chunk(t, start); }

  // tiles 0 1 | 2 3: rows 0-15 | 16-31 of the result, by halves of 32 lanes;  4 5: left operand;  6 7: right operand
  FB_INLINE void multiply(const uint16_t* left, int64_t left_stride, const void* right,
                          int64_t right_stride_bytes) {
    const char* b = static_cast<const char*>(right);
    tiles.load<4>(left, left_stride * 2);
    tiles.load<6>(b, right_stride_bytes);
    tiles.load<7>(b + kTileRowBytes, right_stride_bytes);
    tiles.dot_bf16<0, 4, 6>();
    tiles.dot_bf16<1, 4, 7>();
    if (!two_tiles) return;
    tiles.load<5>(left + kTileRows * left_stride, left_stride * 2);
    tiles.dot_bf16<2, 5, 6>();
    tiles.dot_bf16<3, 5, 7>();
  }
  FB_INLINE void clear() {
    tiles.zero<0>();
    tiles.zero<1>();
    tiles.zero<2>();
    tiles.zero<3>();
  }
  FB_INLINE void store(float* c, int64_t stride) const {
    tiles.store<0>(c, stride * 4);
    tiles.store<1>(c + 16, stride * 4);
    if (!two_tiles) return;
    tiles.store<2>(c + kTileRows * stride, stride * 4);
    tiles.store<3>(c + kTileRows * stride + 16, stride * 4);
  }

  void score_page(const uint16_t* keys, float* c) {
    clear();
    for (int64_t d = 0; d < head_dim; d += 32)
      multiply(q + d, head_dim, keys + d * FB_PAGE_TOKENS, FB_PAGE_TOKENS * 4);
    store(c, kChunkTokens);
  }

  void weigh(int64_t d) {
    clear();
    for (int64_t p = first_page; p < end_page; ++p)
      multiply(weights + p * FB_PAGE_TOKENS, kChunkTokens, values[p] + d, head_dim * 4);
    store(sums + d, head_dim);
  }

  // Scores of a row -> weights rounded to bf16, 0 where unseen within the block's pages. l sums the rounded weights, token t in lane
  // t % 16, so that they are normalized exactly.
  void softmax(int64_t r, TokenRange seen) {
    float* row = scores + r * kChunkTokens;
    uint16_t* out = weights + r * kChunkTokens;
    const TokenRange groups = seen.empty() ? TokenRange{0, 0} : whole_groups(seen);
    const float m = mask_and_find_highest(row, groups.empty() ? groups : seen);
    const f32x16 maximum = f32x16::broadcast(m);
    f32x16 sum = f32x16::zero();
    for (int64_t t = first_page * FB_PAGE_TOKENS; t < end_page * FB_PAGE_TOKENS; t += kLanes) {
      i32x16 rounded = i32x16::zero();
      if (t >= groups.begin && t < groups.end) {
        rounded = to_bf16(exp2_nonpositive(f32x16::load(row + t) - maximum));
        sum = sum + as_f32(shift_left(rounded, 16));
      }
      store_low16(out + t, rounded);
    }
    states[r] = {m, reduce_add(sum)};
  }

  // A page of values with zeros from token `count` on.
  const uint32_t* copy_written(const uint32_t* page, int64_t count) const {
    for (int64_t pair = 0; pair < FB_PAGE_TOKENS / 2; ++pair) {
      const uint32_t kept = 2 * pair + 1 < count ? 0xffffffffu : 2 * pair < count ? 0x0000ffffu : 0;
      for (int64_t d = 0; d < head_dim; ++d)
        last_values[pair * head_dim + d] = page[pair * head_dim + d] & kept;
    }
    return last_values;
  }
};

}  // namespace fb::FB_ISA
