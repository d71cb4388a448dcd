// Plain float weights as BF16 tiles: w = part 0 + part 1 + part 2 exactly, one tile product for each part.
//
// bf16 is one part, its packed bytes being tile operands already. f16 (11 significant bits) is two, f32 (24) three, each the
// upper 8 bits of what the ones before leave. (f32 weights below 2^-110 lose low bits: tile products take subnormals as zero.)
// So no weight is rounded. The order of a sum is fixed: steps of 32 k ascending, in a step parts ascending.
//
// Registers: 2 row blocks x 2 halves of the panel. C = tiles 0 1 | 2 3, A = 4 | 5, B = 6 7; a B tile meets both row blocks.
#pragma once
#include "activations.h"
#include "bf16_pairs.h"
#include "linear/decode.h"

namespace fb::FB_ISA {

template <Scheme S>
struct ValueTiles {
  static constexpr int kParts = S.element == Element::f32 ? 3 : S.element == Element::f16 ? 2 : 1;
  static constexpr bool kDecodes = S.element != Element::bf16;

  struct Slot {
    alignas(64) uint8_t tile[kParts][2][kTileBytes];  // [part][half][k/2][16 n][2]
  };
  using Work = Scratch<ValueTiles>;

  static TileConfig config(int rows) {  // one row block only: short tiles are faster
    TileConfig c = TileConfig::full();
    for (int tile : {0, 1, 2, 3, 4, 5}) c.shape(tile, rows, kTileRowBytes);
    return c;
  }

  static FB_INLINE void decode(const uint8_t* packed, int64_t step, Slot& slot) {
    Decoder<S> weights[2];
    prefetch_step<S>(packed, step);
    unroll<2>([&](auto h) FB_INLINE_LAMBDA { weights[h].begin_block(block_of<S>(packed, step), h); });
    each_k(weights, sub_block_of<S>(step), [&](int k0, auto i) FB_INLINE_LAMBDA {
      if (i % 2) return;
      unroll<2>([&](auto h) FB_INLINE_LAMBDA {
        f32x16 even = weights[h].at(i), odd = weights[h].at(i + 1);
        for (int part = 0; part < kParts; ++part) {
          truncated_pair(even, odd).store(slot.tile[part][h] + (k0 + i) / 2 * kTileRowBytes);
          even = truncation_rest(even), odd = truncation_rest(odd);
        }
      });
    });
  }

  static FB_INLINE const uint8_t* tile(const uint8_t* packed, int64_t step, const Slot& slot, int part,
                                       int half) {
    return kDecodes ? slot.tile[part][half] : block_of<S>(packed, step) + half * kTileBytes;
  }

  // One step for one or two row blocks.
  template <bool two>
  static FB_INLINE void multiply_step(Tiles& tiles, const Piece<Activations<S>>& piece, int64_t step,
                                      int64_t block, const Slot& slot) {
    unroll<kParts>([&](auto part) FB_INLINE_LAMBDA {
      tiles.template load<6>(tile(piece.packed, step, slot, part, 0), kTileRowBytes);
      if (part == 0) tiles.template load<4>(piece.x.record(block, step), kTileRowBytes);
      tiles.template dot_bf16<0, 4, 6>();
      if constexpr (two) {
        if (part == 0) tiles.template load<5>(piece.x.record(block + 1, step), kTileRowBytes);
        tiles.template dot_bf16<2, 5, 6>();
      }
      tiles.template load<7>(tile(piece.packed, step, slot, part, 1), kTileRowBytes);
      tiles.template dot_bf16<1, 4, 7>();
      if constexpr (two) tiles.template dot_bf16<3, 5, 7>();
    });
  }

  template <bool two>
  static FB_INLINE void multiply_blocks(Tiles& tiles, const Piece<Activations<S>>& piece, int64_t block,
                                        bool decodes, Work& work) {
    BlockSums* sums = piece.sums + (block - piece.blocks.begin);
    constexpr int64_t stride = kHalf * sizeof(float);
    if (piece.steps.begin == 0) {
      tiles.template zero<0>(), tiles.template zero<1>();
      if constexpr (two) tiles.template zero<2>(), tiles.template zero<3>();
    } else {
      tiles.template load<0>(sums[0].half[0], stride), tiles.template load<1>(sums[0].half[1], stride);
      if constexpr (two)
        tiles.template load<2>(sums[1].half[0], stride), tiles.template load<3>(sums[1].half[1], stride);
    }
    Slot* slots = work.weights;
    if (decodes) decode(piece.packed, piece.steps.begin, slots[0]);
    for (int64_t step = piece.steps.begin; step < piece.steps.end; ++step) {
      const int64_t at = step - piece.steps.begin;
      if (decodes && step + 1 < piece.steps.end)
        decode(piece.packed, step + 1, slots[at + 1]);  // beside the products of `step`
      if (!kDecodes) prefetch_step<S>(piece.packed, step);
      multiply_step<two>(tiles, piece, step, block, slots[at]);
    }
    tiles.template store<0>(sums[0].half[0], stride), tiles.template store<1>(sums[0].half[1], stride);
    if constexpr (two)
      tiles.template store<2>(sums[1].half[0], stride), tiles.template store<3>(sums[1].half[1], stride);
  }

  static void multiply(Tiles& tiles, const Piece<Activations<S>>& piece, Work& work) {
    int64_t block = piece.blocks.begin;
    for (; block + 2 <= piece.blocks.end; block += 2)
      multiply_blocks<true>(tiles, piece, block, kDecodes && block == piece.blocks.begin, work);
    if (block < piece.blocks.end)
      multiply_blocks<false>(tiles, piece, block, kDecodes && block == piece.blocks.begin, work);
  }
};

}  // namespace fb::FB_ISA
