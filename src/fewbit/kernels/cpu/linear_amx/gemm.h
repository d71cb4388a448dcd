// Many rows: BF16 tiles of both operands, summed over K in tile registers; nothing happens between products but loads.
//
//   for each piece of row blocks                 its x fits in L2
//     for each group of panels                   more than one only where K takes several chunks: partial sums then wait in L2
//       for each chunk of K
//         for each panel of the group: its operands (decoded once, or as they lie), then all pairs of row blocks
//
// Registers: C = tiles 0 1 | 2 3 (row block x half panel), A = 4 | 5, B = 6 7: four loads for four products, the fewest that eight
// tiles allow. Both operands come from L2, so each step also fetches the lines of the step after next into L1, eight at a time
// between the tile instructions; without that the loads, and not the products, set the pace (CONTRIBUTING, measured facts).
//
// A sum is a chain over ascending k, whatever the rows beside it: a row's bits depend on nothing else. A source of operands gives
//   kParts                              products of a step: w = part 0 + part 1 + ...
//   kDecodes                            whether decode() fills a slot, else tiles lie in the packed panel itself
//   decode(args, packed, step, slot)          uint8_t slot[kParts][2 halves][kTileBytes]
#pragma once
#include "activations.h"
#include "fetch.h"
#include "linear/form.h"
#include "simd/unroll.h"

namespace fb::FB_ISA {

template <Scheme S, class Source>
struct Gemm {
  static constexpr int kParts = Source::kParts;
  static constexpr int64_t kStepBytes = kParts * 2 * kTileBytes;
  static constexpr int kStepsAhead = 2;
  static constexpr int64_t kChunk = Source::kDecodes ? 64 : 128;  // steps: 2048 or 4096 k
  static constexpr int64_t kPiece = Source::kDecodes ? 16 : 8;    // row blocks; with the chunk, 1 MiB of x
  static constexpr int64_t kPanels = 4;

  struct Work {
    alignas(64) uint8_t weights[Source::kDecodes ? kChunk * kStepBytes : 64];
    alignas(64) BlockSums sums[kPanels][kPiece];
  };
  static_assert(sizeof(Work) <= FB_SCRATCH_BYTES);

  // One step for one or two row blocks.
  template <bool two>
  static FB_INLINE void multiply_step(Tiles& tiles, const uint8_t* a0, const uint8_t* a1, int64_t a_bytes,
                                      const uint8_t* b) {
    const uint8_t *next0 = a0 + kStepsAhead * a_bytes, *next1 = a1 + kStepsAhead * a_bytes;
    unroll<kParts>([&](auto part) FB_INLINE_LAMBDA {
      const uint8_t *tile = b + part * 2 * kTileBytes, *next = tile + kStepsAhead * kStepBytes;
      tiles.template load<6>(tile, kTileRowBytes);
      fetch_lines<8>(next);
      if (part == 0) tiles.template load<4>(a0, kTileRowBytes);
      fetch_lines<8>(next + 512);
      tiles.template dot_bf16<0, 4, 6>();
      if (part == 0) fetch_lines<8>(next0);
      if constexpr (two) {
        if (part == 0) tiles.template load<5>(a1, kTileRowBytes);
        if (part == 0) fetch_lines<8>(next0 + 512);
        tiles.template dot_bf16<2, 5, 6>();
        if (part == 0) fetch_lines<8>(next1);
      }
      tiles.template load<7>(tile + kTileBytes, kTileRowBytes);
      if (part == 0) fetch_lines<8>(two ? next1 + 512 : next0 + 512);
      tiles.template dot_bf16<1, 4, 7>();
      fetch_lines<8>(next + 1024);
      if constexpr (two) tiles.template dot_bf16<3, 5, 7>();
      fetch_lines<8>(next + 1536);
    });
  }

  // A chunk for one or two row blocks; their sums go on from `sums` unless the chunk is the first.
  template <bool two, class X>
  static FB_INLINE void multiply(Tiles& tiles, const X& x, int64_t block, Range steps, const uint8_t* b,
                                 BlockSums* sums) {
    constexpr int64_t stride = kHalf * sizeof(float);
    if (steps.begin == 0) {
      tiles.template zero<0>(), tiles.template zero<1>();
      if constexpr (two) tiles.template zero<2>(), tiles.template zero<3>();
    } else {
      tiles.template load<0>(sums[0].half[0], stride), tiles.template load<1>(sums[0].half[1], stride);
      if constexpr (two)
        tiles.template load<2>(sums[1].half[0], stride), tiles.template load<3>(sums[1].half[1], stride);
    }
    const int64_t a_bytes = x.record_bytes();
    const uint8_t *a0 = x.record(block, steps.begin), *a1 = two ? x.record(block + 1, steps.begin) : a0;
    for (int64_t step = steps.begin; step < steps.end; ++step, a0 += a_bytes, a1 += a_bytes, b += kStepBytes)
      multiply_step<two>(tiles, a0, a1, a_bytes, b);
    tiles.template store<0>(sums[0].half[0], stride), tiles.template store<1>(sums[0].half[1], stride);
    if constexpr (two)
      tiles.template store<2>(sums[1].half[0], stride), tiles.template store<3>(sums[1].half[1], stride);
  }

  template <class X>
  static FB_INLINE void panel(Tiles& tiles, const fb_linear_args& args, const X& x, int64_t panel,
                              Range blocks, Range steps, BlockSums* sums, Work& work) {
    const uint8_t* packed = panel_of<S>(args.weight, args.k, panel);
    const uint8_t* b = packed + steps.begin * kStepBytes;
    if constexpr (Source::kDecodes) {
      for (int64_t step = steps.begin; step < steps.end; ++step)
        Source::decode(args, packed, step, work.weights + (step - steps.begin) * kStepBytes);
      b = work.weights;
    }
    for (int64_t block = blocks.begin; block < blocks.end; block += 2) {
      BlockSums* own = sums + (block - blocks.begin);
      const Range pair{block, smaller(block + 2, blocks.end)};
      if (pair.end - pair.begin == 2)
        multiply<true>(tiles, x, block, steps, b, own);
      else
        multiply<false>(tiles, x, block, steps, b, own);
      if (steps.end == x.steps) finish_panel<S>(args, panel, pair, x.rows, own);
    }
  }

  template <class X>
  static void run(const fb_linear_args& args, const X& x, const fb_worker& worker) {
    Work& work = *static_cast<Work*>(worker.scratch);
    const Panels panels(args);
    const Share share = share_of(panels, x.rows, 2 * kBlockRows, worker.thread, worker.threads);
    const Range blocks{share.rows.begin / kBlockRows, ceil_div(share.rows.end, kBlockRows)};
    if (blocks.begin >= blocks.end || share.panels.begin >= share.panels.end) return;
    Tiles tiles;
    tiles.configure(TileConfig::full());
    const int64_t group = x.steps > kChunk ? kPanels : 1;
    for (int64_t block = blocks.begin; block < blocks.end; block += kPiece) {
      const Range piece_blocks{block, smaller(block + kPiece, blocks.end)};
      for (int64_t first = share.panels.begin; first < share.panels.end; first += group)
        for (int64_t step = 0; step < x.steps; step += kChunk)
          for (int64_t p = first; p < smaller(first + group, share.panels.end); ++p)
            panel(tiles, args, x, panels.at(p), piece_blocks, {step, smaller(step + kChunk, x.steps)},
                  work.sums[p - first], work);
    }
    tiles.release();
  }
};

}  // namespace fb::FB_ISA
