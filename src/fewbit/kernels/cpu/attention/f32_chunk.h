// One chunk of attention in f32 over bf16 keys and values. Both products are the same micro-kernel,
//   C[R rows, 16 G lanes] += A[R, k] * B[k, lanes],   B stored as pairs of k in a 32-bit word:
// Q.K^T: k = head_dim, lanes = tokens (a key page is [head_dim/2][32 tokens][2]); P.V: k = tokens, lanes = head_dim (a value page
// is [16 pairs][head_dim][2]). Every element is one chain of fma in ascending k, so the size of the tile is free.
#pragma once
#include "merge.h"
#include "simd/math.h"
#include "simd/unroll.h"
#include "softmax.h"
#include "work.h"

namespace fb::FB_ISA {

constexpr int kTileMaxRows = 6;
#ifdef __AVX512F__
constexpr int kAccumulators =
    12;  // of 16 lanes: 12 of 32 registers, enough to hide the latency of two fma ports
#else
constexpr int kAccumulators = 6;  // 12 of 16 ymm
#endif

// Lane groups of a tile of R rows: a power of two, R * G <= kAccumulators.
constexpr int lane_groups(int rows) {
  return rows * 4 <= kAccumulators ? 4 : rows * 2 <= kAccumulators ? 2 : 1;
}

template <int R, int G>
struct Accumulators {
  f32x16 v[R][G];

  FB_INLINE void zero() {
    unroll<R>([&](auto r) FB_INLINE_LAMBDA {
      unroll<G>([&](auto g) FB_INLINE_LAMBDA { v[r][g] = f32x16::zero(); });
    });
  }
  FB_INLINE void load(const float* c, int64_t stride) {
    unroll<R>([&](auto r) FB_INLINE_LAMBDA {
      unroll<G>([&](auto g) FB_INLINE_LAMBDA { v[r][g] = f32x16::load(c + r * stride + g * 16); });
    });
  }
  FB_INLINE void store(float* c, int64_t stride) const {
    unroll<R>([&](auto r) FB_INLINE_LAMBDA {
      unroll<G>([&](auto g) FB_INLINE_LAMBDA { v[r][g].store(c + r * stride + g * 16); });
    });
  }
  // a: [R, k], b: the words of this k's pair
  FB_INLINE void even(const float* a, int64_t stride, const uint32_t* b) {
    unroll<G>([&](auto g) FB_INLINE_LAMBDA { step(a, stride, even_bf16(i32x16::load(b + g * 16)), g); });
  }
  FB_INLINE void odd(const float* a, int64_t stride, const uint32_t* b) {
    unroll<G>([&](auto g) FB_INLINE_LAMBDA { step(a, stride, odd_bf16(i32x16::load(b + g * 16)), g); });
  }
  // beside(i) runs with pair i: a place for prefetches
  template <class Beside>
  FB_INLINE void pairs(const float* a, int64_t stride, const uint32_t* b, int64_t b_stride, int64_t count,
                       Beside beside) {
    for (int64_t i = 0; i < count; ++i, a += 2, b += b_stride) {
      beside(i);
      even(a, stride, b);
      odd(a + 1, stride, b);
    }
  }

 private:
  template <class Group>
  FB_INLINE void step(const float* a, int64_t stride, f32x16 b, Group g) {
    unroll<R>([&](auto r) FB_INLINE_LAMBDA { v[r][g] = fma(f32x16::broadcast(a[r * stride]), b, v[r][g]); });
  }
};

struct F32Chunk {
  static constexpr int kRows = 24;
  struct Weight {
    static FB_INLINE f32x16 of(f32x16 x) { return exp_nonpositive(x); }
  };

  F32Chunk(const fb_attention_args& args, void* scratch) : a(args), head_dim(args.head_dim) {
    q = static_cast<float*>(scratch);
    sums = q + kRows * head_dim;
    scores = sums + kRows * head_dim;
  }

  RowState state(int64_t r) const { return states[r]; }
  const float* o(int64_t r) const { return sums + r * head_dim; }

  // Queries times the scale, so that scores need no further product.
  void load(const Item& item) {
    const f32x16 scale = f32x16::broadcast(a.scale);
    for (int64_t r = 0; r < item.rows; ++r) {
      const float* from = query_of(a, item, r);
      for (int64_t d = 0; d < head_dim; d += kLanes)
        (f32x16::load(from + d) * scale).store(q + r * head_dim + d);
    }
  }

  void run(const Item& item, int64_t chunk) {
    start = chunk * kChunkTokens;
    const TokenRange block = inside(item.visible());
    const int32_t* pages = a.page_table + item.seq * a.page_table_stride + start / FB_PAGE_TOKENS;
    const int64_t page_elems = FB_PAGE_TOKENS * head_dim;
    const int64_t first_page = block.begin / FB_PAGE_TOKENS;
    const int64_t end_page = (block.end + FB_PAGE_TOKENS - 1) / FB_PAGE_TOKENS;
    const bool more = item.visible().end > start + kChunkTokens;  // then the next chunk's first page follows
    for (int64_t p = first_page; p < end_page + more; ++p) {
      const int64_t offset = (pages[p] * a.kv_heads + item.kv_head) * page_elems;
      keys[p] = reinterpret_cast<const uint32_t*>(a.k_cache + offset);
      values[p] = reinterpret_cast<const uint32_t*>(a.v_cache + offset);
    }
    if (!more) keys[end_page] = keys[first_page];  // prefetched for nothing
    // Tiles of nearly equal height: 8 rows are 4 + 4, not 6 + 2.
    const int64_t tiles = (item.rows + kTileMaxRows - 1) / kTileMaxRows;
    for (int64_t p = first_page; p < end_page; ++p) {
      with_rows(0, item.rows / tiles, [&](auto tile) { tile.template score<true>(*this, p); });
      for (int64_t t = 1; t < tiles; ++t)
        with_rows(t * item.rows / tiles, (t + 1) * item.rows / tiles,
                  [&](auto tile) { tile.template score<false>(*this, p); });
    }
    for (int64_t r = 0; r < item.rows; ++r) softmax(r, inside(item.visible(r)));
    for (int64_t t = 0; t < tiles; ++t) sum_values(item, t * item.rows / tiles, (t + 1) * item.rows / tiles);
  }

 private:
  const fb_attention_args& a;
  int64_t head_dim, start = 0;                                      // start: first token of the chunk
  float *q, *sums, *scores;                                         // [kRows, head_dim] twice, [kRows, 256]
  const uint32_t *keys[kChunkPages + 1], *values[kChunkPages + 1];  // one ahead
  RowState states[kRows];

  // The words of a token's pair, over head_dim.
  FB_INLINE const uint32_t* value_words(int64_t token) const {
    const uint64_t t = static_cast<uint64_t>(token);
    return values[t / FB_PAGE_TOKENS] + static_cast<int64_t>(t % FB_PAGE_TOKENS / 2) * head_dim;
  }

  TokenRange inside(TokenRange t) const { return within_chunk(t, start); }

  template <int R>
  struct Tile {
    int64_t row;

    // Scores of R rows and the 32 tokens of page p. Pages lie anywhere and hardware prefetchers stop at 4 KiB, so with `ahead` the
    // next page of keys and this page of values are prefetched meanwhile, line by line: in a burst they would hold up the loads.
    template <bool ahead>
    __attribute__((noinline)) void score(const F32Chunk& c, int64_t p) const {
      constexpr int G = lane_groups(R) > 2 ? 2 : lane_groups(R);
      const float* queries = c.q + row * c.head_dim;
      const uint32_t *next_keys = c.keys[p + 1], *next_values = c.values[p];
      for (int lane = 0; lane < FB_PAGE_TOKENS; lane += 16 * G) {
        Accumulators<R, G> acc;
        acc.zero();
        acc.pairs(queries, c.head_dim, c.keys[p] + lane, FB_PAGE_TOKENS, c.head_dim / 2,
                  [&](int64_t) FB_INLINE_LAMBDA {
                    if (!ahead) return;
                    unroll<G>([&](auto g) FB_INLINE_LAMBDA {
                      __builtin_prefetch(next_keys + 16 * g);
                      __builtin_prefetch(next_values + 16 * g, 0,
                                         2);  // all values of a chunk together are too much for L1
                    });
                    next_keys += 16 * G, next_values += 16 * G;
                  });
        acc.store(c.scores + row * kChunkTokens + p * FB_PAGE_TOKENS + lane, kChunkTokens);
      }
    }

    // sums of R rows over the tokens of a range that they all see, on top of what is there
    __attribute__((noinline)) void weigh(const F32Chunk& c, TokenRange t) const {
      int64_t d = 0;
      constexpr int G = lane_groups(R);
      for (; d + 16 * G <= c.head_dim; d += 16 * G) weigh_lanes<G>(c, t, d);
      if constexpr (G > 1)
        for (; d < c.head_dim; d += 16) weigh_lanes<1>(c, t, d);
    }

    template <int G>
    FB_INLINE void weigh_lanes(const F32Chunk& c, TokenRange t, int64_t d) const {
      float* sums = c.sums + row * c.head_dim + d;
      const float* weights = c.scores + row * kChunkTokens;
      Accumulators<R, G> acc;
      // A token without its pair at either end has accumulators of its own, since the main loop has no register to spare.
      if (t.begin % 2) {
        acc.load(sums, c.head_dim);
        acc.odd(weights + t.begin, kChunkTokens, c.value_words(t.begin) + d);
        acc.store(sums, c.head_dim);
        ++t.begin;
      }
      acc.load(sums, c.head_dim);
      for (int64_t begin = t.begin; begin + 1 < t.end;) {  // page by page
        const int64_t page_end = (begin / FB_PAGE_TOKENS + 1) * FB_PAGE_TOKENS,
                      pairs = ((page_end < t.end ? page_end : t.end) - begin) / 2;
        acc.pairs(weights + begin, kChunkTokens, c.value_words(begin) + d, c.head_dim, pairs, [](int64_t) {});
        begin += 2 * pairs;
      }
      acc.store(sums, c.head_dim);
      if (t.begin < t.end && t.end % 2) {
        acc.load(sums, c.head_dim);
        acc.even(weights + t.end - 1, kChunkTokens, c.value_words(t.end - 1) + d);
        acc.store(sums, c.head_dim);
      }
    }
  };

  template <class F>
  static FB_INLINE void with_rows(int64_t begin, int64_t end, F f) {
    switch (end - begin) {
      case 1:
        return f(Tile<1>{begin});
      case 2:
        return f(Tile<2>{begin});
      case 3:
        return f(Tile<3>{begin});
      case 4:
        return f(Tile<4>{begin});
      case 5:
        return f(Tile<5>{begin});
      default:
        return f(Tile<6>{begin});
    }
  }

  // Scores of a row -> exp(score - maximum), in place; token t in lane t % 16. Unseen tokens weigh 0.
  __attribute__((noinline)) void softmax(int64_t r, TokenRange seen) {
    states[r] = {-__builtin_inff(), 0.0f};
    if (seen.empty()) return;
    float* row = scores + r * kChunkTokens;
    const float m = mask_and_find_highest(row, seen);
    const TokenRange groups = whole_groups(seen);
    const f32x16 maximum = f32x16::broadcast(m);
    f32x16 sum = f32x16::zero();
    for (int64_t t = groups.begin; t < groups.end; t += kLanes) {
      const f32x16 p = exp_nonpositive(f32x16::load(row + t) - maximum);
      p.store(row + t);
      sum = sum + p;
    }
    states[r] = {m, reduce_add(sum)};
  }

  // Tokens that all rows of the tile see go through the tile; the few at either end that only some see, row by row. So a row never
  // meets a token that it does not see, not even with weight 0: what lies there may be NaN.
  void sum_values(const Item& item, int64_t begin, int64_t end) const {
    memset(sums + begin * head_dim, 0, static_cast<size_t>((end - begin) * head_dim) * 4);
    const TokenRange first = inside(item.visible(begin)), last = inside(item.visible(end - 1));
    const TokenRange common = {last.begin, first.end};
    if (common.empty()) {
      for (int64_t r = begin; r < end; ++r) weigh_row(r, inside(item.visible(r)));
      return;
    }
    for (int64_t r = begin; r < end; ++r) weigh_row(r, {inside(item.visible(r)).begin, common.begin});
    with_rows(begin, end, [&](auto tile) { tile.weigh(*this, common); });
    for (int64_t r = begin; r < end; ++r) weigh_row(r, {common.end, inside(item.visible(r)).end});
  }
  void weigh_row(int64_t r, TokenRange t) const {
    if (!t.empty()) Tile<1>{r}.weigh(*this, t);
  }
};

}  // namespace fb::FB_ISA
