// Tile products that are scaled after every weight group: sum[m,n] gets product[m,n] times a scale, group after group.
//
// One half panel at a time: 16 registers hold the 16 x 16 sums. C = tiles 0 and 1 in turn, so that a product runs while the one
// before is added; A = tiles 2 and 3, B = 4 and 5. A kind of codes gives, for its activations X and decoded Slot:
//   config(rows)                                        tile shapes
//   decode(packed, step, half, slot)                    operand bytes and scales of one step
//   load_operands<turn>(tiles, record, slot, half, g)   A and B of group g
//   dot<turn>(tiles)                                    their product
//   add_product(product, record, slot, half, g, sum)
#pragma once
#include "linear_amx/sweep.h"
#include "simd/f32x16.h"
#include "simd/unroll.h"

namespace fb::FB_ISA {

template <class Codes>
struct ScaledProducts {
  using Slot = typename Codes::Slot;
  using X = typename Codes::X;
  using Work = Scratch<ScaledProducts>;
  static constexpr int kGroups = Codes::kGroups;  // of a step

  static TileConfig config(int rows) { return Codes::config(rows); }

  // All steps of the piece for one row block and half panel. Groups are numbered through. In turn u: the product of group u, the
  // loads of u + 1 (before the store of the product, which waits for it: a load behind it whose address ends alike would wait
  // too), and the sums of u - 1. Steps are decoded two ahead, since tile loads wait until stores have reached the cache.
  template <bool decodes>
  static void multiply_half(Tiles& tiles, const Piece<X>& piece, int64_t block, int half, Work& work) {
    float* stored = piece.sums[block - piece.blocks.begin].half[half];
    f32x16 sum[kBlockRows];
    const int64_t first = piece.steps.begin, steps = piece.steps.end - first, groups = steps * kGroups;
    unroll<kBlockRows>([&](auto r) FB_INLINE_LAMBDA {
      sum[r] = first == 0 ? f32x16::zero() : f32x16::load(stored + r * kHalf);
    });

    const uint8_t* records = piece.x.record(block, first);
    const int64_t record_bytes = piece.x.record_bytes();
    const auto record = [&](int64_t u) FB_INLINE_LAMBDA { return records + u / kGroups * record_bytes; };
    const auto slot = [&](int64_t u) -> Slot& { return work.weights[u / kGroups]; };
    const auto advance = [&](int64_t u, auto turn) FB_INLINE_LAMBDA {
      constexpr int other = 1 - turn;
      if constexpr (decodes) {
        const int64_t ahead = u / kGroups + 2;
        if (u % kGroups == 0 && ahead < steps)
          Codes::decode(piece.packed, first + ahead, half, work.weights[ahead]);
      }
      tiles.template zero<turn>();
      Codes::template dot<turn>(tiles);
      if (u + 1 < groups)
        Codes::template load_operands<other>(tiles, record(u + 1), slot(u + 1), half,
                                             static_cast<int>((u + 1) % kGroups));
      tiles.template store<turn>(work.products[turn], kTileRowBytes);
      if (u > 0)
        Codes::add_product(work.products[other], record(u - 1), slot(u - 1), half,
                           static_cast<int>((u - 1) % kGroups), sum);
    };

    if constexpr (decodes)
      for (int64_t s = 0; s < smaller(2, steps); ++s)
        Codes::decode(piece.packed, first + s, half, work.weights[s]);
    Codes::template load_operands<0>(tiles, record(0), slot(0), half, 0);
    int64_t u = 0;
    for (; u + 2 <= groups; u += 2) {
      advance(u, Turn<0>{});
      advance(u + 1, Turn<1>{});
    }
    if (u < groups) advance(u++, Turn<0>{});
    Codes::add_product(work.products[(u - 1) % 2], record(u - 1), slot(u - 1), half,
                       static_cast<int>((u - 1) % kGroups), sum);
    unroll<kBlockRows>([&](auto r) FB_INLINE_LAMBDA { sum[r].store(stored + r * kHalf); });
  }

  static void multiply(Tiles& tiles, const Piece<X>& piece, Work& work) {
    for (int64_t block = piece.blocks.begin; block < piece.blocks.end; ++block)
      for (int half = 0; half < 2; ++half) {
        if (block == piece.blocks.begin)
          multiply_half<true>(tiles, piece, block, half, work);
        else
          multiply_half<false>(tiles, piece, block, half, work);
      }
  }

 private:
  template <int T>
  struct Turn {  // tile numbers are template arguments on every ISA
    constexpr operator int() const { return T; }
  };
};

}  // namespace fb::FB_ISA
