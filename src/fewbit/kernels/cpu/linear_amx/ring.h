// Few rows: exact codes as BF16 tiles, a ring of decoded steps in L1, the group's scale applied after its products.
//
//   sum[m,n] = fma(scale[n,g], product[m,n], sum[m,n])     product = sum over k in g of x[m,k] * code[n,k], in tile registers
//   sum[m,n] = fma(offset[n,g], sums_x[m,g], sum[m,n])     if the scheme has offsets
//
// for the weight's groups g ascending. Codes less their bias (-128..127) are exact in BF16 and scales are exact in f32, so no
// weight is rounded. Up to 32 rows meet a weight while it is in the ring; the packed bytes are the only traffic from memory. While
// the products of a step run, the vector units decode the next step and add the group before.
//
// A sum is a chain over ascending groups: a row's bits depend on nothing else. With more than 32 rows a weight is decoded again for
// each 32 of them; gemm.h is then faster, and rounds.
#pragma once
#include "activations.h"
#include "code_tiles.h"

namespace fb::FB_ISA {

template <Scheme S>
struct Ring {
  using Codes = CodeTiles<S>;
  using Slot = typename Codes::Slot;
  static constexpr int kGroups = Codes::kGroups;  // of a step
  static constexpr int kSlots = 4;                // the step before, this one, the next
  static constexpr int64_t kStride = kHalf * sizeof(float);

  struct Work {
    alignas(64) Slot slots[kSlots];
    alignas(64) BlockSums products[2][2];  // [turn][row block]
    alignas(64) BlockSums sums[2];
  };
  static_assert(sizeof(Work) <= FB_SCRATCH_BYTES);

  // C = tiles 0 1 | 2 3 (row block x half panel), A = 4 | 5, B = 6 7; only the rows that exist take part.
  static TileConfig config(int64_t rows) {
    TileConfig c;
    const int first = static_cast<int>(smaller(rows, kBlockRows));
    const int second = static_cast<int>(smaller(rows - first, kBlockRows));
    for (int tile : {0, 1}) c.shape(tile, first, kTileRowBytes);
    for (int tile : {2, 3}) c.shape(tile, second > 0 ? second : 1, kTileRowBytes);
    c.shape(4, first, Codes::kGroupBytes).shape(5, second > 0 ? second : 1, Codes::kGroupBytes);
    for (int tile : {6, 7}) c.shape(tile, S.group / 2, kTileRowBytes);
    return c;
  }

  static FB_INLINE void add_group(const BlockSums& product, const uint8_t* record, const Slot& slot, int g,
                                  int rows, BlockSums& sum) {
    unroll<2>([&](auto half) FB_INLINE_LAMBDA {
      const f32x16 scale = f32x16::load(slot.scale[half][g]);
      f32x16 offset = f32x16::zero();
      if constexpr (S.offset) offset = f32x16::load(slot.offset[half][g]);
      const float* x_sums = reinterpret_cast<const float*>(record + kTileBytes) + g * kBlockRows;
      for (int r = 0; r < rows; ++r) {
        float* at = sum.half[half] + r * kHalf;
        f32x16 s = fma(scale, f32x16::load(product.half[half] + r * kHalf), f32x16::load(at));
        if constexpr (S.offset) s = fma(offset, f32x16::broadcast(x_sums[r]), s);
        s.store(at);
      }
    });
  }

  template <bool two>
  static FB_INLINE void panel(Tiles& tiles, const Activations<S>& x, const uint8_t* packed, int64_t block,
                              const int (&rows)[2], Work& work) {
    memset(work.sums, 0, (two ? 2 : 1) * sizeof(BlockSums));
    const int64_t a_bytes = x.record_bytes();
    const uint8_t* record[2] = {x.record(block, 0), x.record(block + (two ? 1 : 0), 0)};
    for (int half = 0; half < 2; ++half) Codes::decode(packed, 0, half, work.slots[0]);

    const auto add = [&](int64_t step, int g) FB_INLINE_LAMBDA {
      const BlockSums* product = work.products[(step * kGroups + g) % 2];
      for (int i = 0; i < (two ? 2 : 1); ++i)
        add_group(product[i], record[i] + step * a_bytes, work.slots[step % kSlots], g, rows[i],
                  work.sums[i]);
    };
    const auto advance = [&](int64_t step, auto g) FB_INLINE_LAMBDA {
      const Slot& slot = work.slots[step % kSlots];
      Slot& next = work.slots[(step + 1) % kSlots];
      const bool decodes = g == 0 && step + 1 < x.steps;
      const uint8_t* a[2] = {record[0] + step * a_bytes, record[1] + step * a_bytes};
      const int64_t b = g * (S.group / 2) * kTileRowBytes;
      tiles.template zero<0>(), tiles.template zero<1>();
      if constexpr (two) tiles.template zero<2>(), tiles.template zero<3>();
      tiles.template load<6>(slot.tile[0] + b, kTileRowBytes);
      tiles.template load<4>(a[0] + g * Codes::kGroupBytes, kTileRowBytes);
      tiles.template dot_bf16<0, 4, 6>();
      tiles.template load<7>(slot.tile[1] + b, kTileRowBytes);
      tiles.template dot_bf16<1, 4, 7>();
      if (g == 0) fetch_lines<16>(a[0] + 2 * a_bytes);
      if (decodes) Codes::decode(packed, step + 1, 0, next);
      if constexpr (two) {
        tiles.template load<5>(a[1] + g * Codes::kGroupBytes, kTileRowBytes);
        tiles.template dot_bf16<2, 5, 6>();
        tiles.template dot_bf16<3, 5, 7>();
        if (g == 0) fetch_lines<16>(a[1] + 2 * a_bytes);
      }
      if (decodes) Codes::decode(packed, step + 1, 1, next);
      if (step + g > 0) add(g == 0 ? step - 1 : step, (g + kGroups - 1) % kGroups);
      BlockSums* product = work.products[(step * kGroups + g) % 2];
      tiles.template store<0>(product[0].half[0], kStride),
          tiles.template store<1>(product[0].half[1], kStride);
      if constexpr (two)
        tiles.template store<2>(product[1].half[0], kStride),
            tiles.template store<3>(product[1].half[1], kStride);
    };
    for (int64_t step = 0; step < x.steps; ++step)
      unroll<kGroups>([&](auto g) FB_INLINE_LAMBDA { advance(step, g); });
    add(x.steps - 1, kGroups - 1);
  }

  static void run(const fb_linear_args& args, const Activations<S>& x, const fb_worker& worker) {
    Work& work = *static_cast<Work*>(worker.scratch);
    const Panels panels(args);
    const Range own = panels.piece_of(worker.thread, worker.threads);
    if (own.begin >= own.end) return;
    Tiles tiles;
    for (int64_t block = 0; block < x.blocks(); block += 2) {
      const int64_t first = block * kBlockRows, left = x.rows - first;
      const Range pair{block, smaller(block + 2, x.blocks())};
      const int rows[2] = {static_cast<int>(smaller(kBlockRows, left)),
                           static_cast<int>(smaller(kBlockRows, left - kBlockRows))};
      if (block == 0 || left < 2 * kBlockRows) tiles.configure(config(left));
      for (int64_t place = own.begin; place < own.end; ++place) {
        const int64_t p = panels.at(place);
        const uint8_t* packed = args.weight + p * S.panel_bytes(args.k);
        if (pair.end - pair.begin == 2)
          panel<true>(tiles, x, packed, block, rows, work);
        else
          panel<false>(tiles, x, packed, block, rows, work);
        finish_panel<S>(args, p, pair, x.rows, work.sums);
      }
    }
    tiles.release();
  }
};

}  // namespace fb::FB_ISA
