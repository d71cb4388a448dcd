// 8-bit activations on AMX: the integer dot products of generic.h as tile products of 8-bit tiles, then the same chain of fma.
//
// Codes less their bias are signed bytes in tile operand order [k/4][16 n][4], k in the byte order of steps.h: one step of the
// vector kernels is one row of B. The loop over groups is scaled_products.h.
#pragma once
#include "activations.h"
#include "core/kernel_entry.h"
#include "scaled_products.h"
#include "weights.h"

namespace fb::FB_ISA {

// Bytes of codes as `load_codes` gives them -> code - bias, signed. No byte borrows from its neighbour: with bit 7 set first
// each is at least 128 - 32.
template <Scheme S>
FB_INLINE i32x16 signed_bytes(i32x16 codes) {
  const i32x16 top = i32x16::broadcast(static_cast<int32_t>(0x80808080u));
  if constexpr (S.bits == 8)
    return codes ^ top;  // came as code + 128
  else if constexpr (S.bias == 0)
    return codes;
  else
    return ((codes | top) - i32x16::broadcast(0x01010101 * S.bias)) ^ top;
}

template <Scheme S>
struct ByteTiles {
  static constexpr int kGroups = kStep / S.group;

  struct Slot {
    alignas(64) uint8_t tile[2][kTileBytes / 2];  // [half][k/4][16 n][4] signed codes
    float scale[2][kGroups][kHalf];
    float offset[2][kGroups][kHalf];
  };
  using X = Records;

  static TileConfig config(int) {
    TileConfig c;
    for (int tile : {0, 1}) c.shape(tile, kBlockRows, kTileRowBytes);
    for (int tile : {2, 3}) c.shape(tile, kBlockRows, S.group);
    for (int tile : {4, 5}) c.shape(tile, S.group / 4, kTileRowBytes);
    return c;
  }

  static FB_INLINE void decode(const uint8_t* packed, int64_t step, int half, Slot& slot) {
    if (half == 0) prefetch_step<S>(packed, step);
    WeightGroup<S> weight;
    weight.load(block_of<S>(packed, step), sub_block_of<S>(step), half * kHalf);
    unroll<kSteps>([&](auto i) FB_INLINE_LAMBDA {
      signed_bytes<S>(weight.codes[i]).store(slot.tile[half] + i * kTileRowBytes);
    });
    unroll<kGroups>([&](auto g) FB_INLINE_LAMBDA {
      weight.scale[g].store(slot.scale[half][g]);
      if constexpr (S.offset) weight.offset[g].store(slot.offset[half][g]);
    });
  }

  static FB_INLINE void add_product(const float* product, const uint8_t* record, const Slot& slot, int half,
                                    int g, f32x16 (&sum)[kBlockRows]) {
    const float* x_scales = reinterpret_cast<const float*>(record + kBlockRows * kGroup);
    const f32x16 scale = f32x16::load(slot.scale[half][g]);
    unroll<kBlockRows>([&](auto r) FB_INLINE_LAMBDA {
      sum[r] = fma(f32x16::broadcast(x_scales[r]) * scale, to_f32(i32x16::load(product + r * kHalf)), sum[r]);
    });
    if constexpr (S.offset) {
      const f32x16 offset = f32x16::load(slot.offset[half][g]);
      const float* x_sums = x_scales + (1 + g) * kBlockRows;
      unroll<kBlockRows>(
          [&](auto r) FB_INLINE_LAMBDA { sum[r] = fma(offset, f32x16::broadcast(x_sums[r]), sum[r]); });
    }
  }

  template <int turn>
  static FB_INLINE void load_operands(Tiles& tiles, const uint8_t* record, const Slot& slot, int half,
                                      int g) {
    tiles.template load<2 + turn>(record + g * S.group, kGroup);
    tiles.template load<4 + turn>(slot.tile[half] + g * (S.group / 4) * kTileRowBytes, kTileRowBytes);
  }
  template <int turn>
  static FB_INLINE void dot(Tiles& tiles) {
    tiles.template dot_s8s8<turn, 2 + turn, 4 + turn>();
  }
};

template <Scheme S>
void run_linear_i8_tiles(const void* pointer, int32_t phase, const fb_worker* worker) {
  const fb_linear_args& args = *static_cast<const fb_linear_args*>(pointer);
  if (*args.rows <= 0) return;
  const Records records = records_of<S, 0, true>(args, *args.rows);
  if (phase == 0)
    quantize<S, 0>(args, records, *worker);
  else
    sweep<S, ScaledProducts<ByteTiles<S>>>(args, records, *worker);
}

}  // namespace fb::FB_ISA

#define FB_LINEAR_I8_TILES_ROW_OF(scheme, layout, isa)                                     \
  FB_KERNEL(FB_PASTE(linear, FB_PASTE(scheme, FB_PASTE(i8g32, FB_PASTE(layout, isa)))), 2, \
            (workspace_bytes<fb::FB_ISA::scheme, 0, true>), run_linear_i8_tiles<fb::FB_ISA::scheme>)
