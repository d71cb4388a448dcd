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
// The loop over groups is in scaled_products.h.
#pragma once
#include "activations.h"
#include "code_table.h"
#include "linear_i8/scales.h"
#include "scaled_products.h"

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
  using X = Activations<S>;

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

  static FB_INLINE void add_product(const float* product, const uint8_t* record, const Slot& slot, int half,
                                    int g, f32x16 (&sum)[kBlockRows]) {
    const f32x16 scale = f32x16::load(slot.scale[half][g]);
    unroll<kBlockRows>(
        [&](auto r) FB_INLINE_LAMBDA { sum[r] = fma(scale, f32x16::load(product + r * kHalf), sum[r]); });
    if constexpr (S.offset) {
      const f32x16 offset = f32x16::load(slot.offset[half][g]);
      const float* x_sums = reinterpret_cast<const float*>(record + kTileBytes) + g * kBlockRows;
      unroll<kBlockRows>(
          [&](auto r) FB_INLINE_LAMBDA { sum[r] = fma(offset, f32x16::broadcast(x_sums[r]), sum[r]); });
    }
  }

  // Operands of group g of a step into the tiles of `turn`.
  template <int turn>
  static FB_INLINE void load_operands(Tiles& tiles, const uint8_t* record, const Slot& slot, int half,
                                      int g) {
    tiles.template load<2 + turn>(record + g * kGroupBytes, kTileRowBytes);
    tiles.template load<4 + turn>(slot.tile[half] + g * (S.group / 2) * kTileRowBytes, kTileRowBytes);
  }
  template <int turn>
  static FB_INLINE void dot(Tiles& tiles) {
    tiles.template dot_bf16<turn, 2 + turn, 4 + turn>();
  }
};

}  // namespace fb::FB_ISA
