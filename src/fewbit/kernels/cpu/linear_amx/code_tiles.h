// Quantized weights as BF16 tiles of their integer codes, scaled after the product:
//
//   sum[m,n] = fma(scale[n,g], product[m,n], sum[m,n])     product = sum over k in g of x[m,k] * code[n,k], one tile product
//   sum[m,n] = fma(offset[n,g], sums_x[m,g], sum[m,n])     if the scheme has offsets
//
// for the weight's groups g (16 or 32 k) ascending. Codes less their bias (-128..127) are exact in BF16 and scales are exact in
// f32, so no weight is rounded. Compared with decoding to f32 and splitting into BF16 parts (two products for 16 bits, about 17
// vector instructions for 32 weights), this takes one product a group, a table look-up of 2 to 6 instructions for 32 weights, and
// 16 or 32 fma for each product, which run beside the tile unit.
//
// One half panel at a time: 16 registers hold the 16 x 16 sums. C = tiles 0 and 1 in turn, so that a product runs while
// the one before is added; A = tiles 2 and 3, B = 4 and 5.
#pragma once
#include "bf16_pairs.h"
#include "code_table.h"
#include "linear_i8/scales.h"
#include "simd/unroll.h"
#include "sweep.h"

namespace fb::FB_ISA {

template <Scheme S>
struct CodeTiles {
  static constexpr int kGroups = kStep / S.group;  // of a step
  static constexpr int kGroupBytes = 2 * S.group;  // of a row of A, and 32 times that of a half panel of B

  struct Slot {
    alignas(64) uint8_t tile[2][kTileBytes];  // [half][k/2][16 n][2] bf16 codes
    float scale[2][kGroups][kHalf];
    float offset[2][kGroups][kHalf];
  };
  using Work = Scratch<CodeTiles>;

  static TileConfig config(int rows) {  // one row block only: short tiles are faster
    TileConfig c;
    for (int tile : {0, 1}) c.shape(tile, rows, kTileRowBytes);
    for (int tile : {2, 3}) c.shape(tile, rows, kGroupBytes);
    for (int tile : {4, 5}) c.shape(tile, S.group / 2, kTileRowBytes);
    return c;
  }

  static FB_INLINE void decode(const uint8_t* packed, int64_t step, int half, Slot& slot) {
    const uint8_t* block = block_of<S>(packed, step);
    const int sub = sub_block_of<S>(step);
    if (half == 0) prefetch_step<S>(packed, step);
    code_pairs<S>(block + sub * S.sub_bytes(), half, slot.tile[half]);
    unroll<kGroups>([&](auto g) FB_INLINE_LAMBDA {
      load_scale<S>(block, sub, g, half * kHalf).store(slot.scale[half][g]);
      if constexpr (S.offset) load_offset<S>(block, sub, g, half * kHalf).store(slot.offset[half][g]);
    });
  }

  // The product of group g of a step into tile and buffer `turn`.
  template <int turn>
  static FB_INLINE void multiply_group(Tiles& tiles, const uint8_t* record, const Slot& slot, int half, int g, Work& work) {
    tiles.template zero<turn>();
    tiles.template load<2 + turn>(record + g * kGroupBytes, kTileRowBytes);
    tiles.template load<4 + turn>(slot.tile[half] + g * (S.group / 2) * kTileRowBytes, kTileRowBytes);
    tiles.template dot_bf16<turn, 2 + turn, 4 + turn>();
    tiles.template store<turn>(work.products[turn], kTileRowBytes);
  }

  static FB_INLINE void add_product(const float* product, const uint8_t* record, const Slot& slot, int half, int g,
                                    f32x16 (&sum)[kBlockRows]) {
    const f32x16 scale = f32x16::load(slot.scale[half][g]);
    unroll<kBlockRows>([&](auto r) FB_INLINE_LAMBDA { sum[r] = fma(scale, f32x16::load(product + r * kHalf), sum[r]); });
    if constexpr (S.offset) {
      const f32x16 offset = f32x16::load(slot.offset[half][g]);
      const float* x_sums = reinterpret_cast<const float*>(record + kTileBytes) + g * kBlockRows;
      unroll<kBlockRows>([&](auto r) FB_INLINE_LAMBDA { sum[r] = fma(offset, f32x16::broadcast(x_sums[r]), sum[r]); });
    }
  }

  // All steps of the piece for one row block and half panel. Groups are numbered through: group u is added after the product
  // of group u + 1 was issued.
  template <bool decodes>
  static void multiply_half(Tiles& tiles, const Piece<S>& piece, int64_t block, int half, Work& work) {
    float* stored = piece.sums[block - piece.blocks.begin].half[half];
    f32x16 sum[kBlockRows];
    const bool first = piece.steps.begin == 0;
    unroll<kBlockRows>([&](auto r) FB_INLINE_LAMBDA { sum[r] = first ? f32x16::zero() : f32x16::load(stored + r * kHalf); });

    const int64_t groups = (piece.steps.end - piece.steps.begin) * kGroups;
    const auto record = [&](int64_t u) FB_INLINE_LAMBDA { return piece.x.record(block, piece.steps.begin + u / kGroups); };
    const auto slot = [&](int64_t u) -> Slot& { return work.weights[u / kGroups]; };
    const auto advance = [&](int64_t u, auto turn) FB_INLINE_LAMBDA {
      if constexpr (decodes) {
        const int64_t ahead = u + kGroups;
        if (u % kGroups == 0 && ahead < groups) decode(piece.packed, piece.steps.begin + ahead / kGroups, half, slot(ahead));
      }
      multiply_group<turn>(tiles, record(u), slot(u), half, static_cast<int>(u % kGroups), work);
      if (u > 0) add_product(work.products[1 - turn], record(u - 1), slot(u - 1), half, static_cast<int>((u - 1) % kGroups), sum);
    };
    if constexpr (decodes) decode(piece.packed, piece.steps.begin, half, slot(0));
    int64_t u = 0;
    for (; u + 2 <= groups; u += 2) {
      advance(u, Turn<0>{});
      advance(u + 1, Turn<1>{});
    }
    if (u < groups) advance(u++, Turn<0>{});
    add_product(work.products[(u - 1) % 2], record(u - 1), slot(u - 1), half, static_cast<int>((u - 1) % kGroups), sum);
    unroll<kBlockRows>([&](auto r) FB_INLINE_LAMBDA { sum[r].store(stored + r * kHalf); });
  }

  static void multiply(Tiles& tiles, const Piece<S>& piece, Work& work) {
    for (int64_t block = piece.blocks.begin; block < piece.blocks.end; ++block)
      for (int half = 0; half < 2; ++half) {
        if (block == piece.blocks.begin) multiply_half<true>(tiles, piece, block, half, work);
        else multiply_half<false>(tiles, piece, block, half, work);
      }
  }

 private:
  template <int T>
  struct Turn {  // tile numbers are template arguments on every ISA
    constexpr operator int() const { return T; }
  };
};

}  // namespace fb::FB_ISA
