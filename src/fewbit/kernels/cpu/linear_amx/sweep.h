// The order of work of a thread, shared by all kinds of tiles.
//
//   for each piece of at most 512 rows                       its partial sums lie in the thread's scratch
//     for each group of panels (4, or 1 when x fits in L2)   so that the x of a chunk is read from L2 and not from L3
//       for each chunk of 512 k
//         for each panel of the group: decode the chunk's weights once (while the first row block runs), then all row blocks
//
// A sum is a chain over ascending k, chunk by chunk, whatever the rows beside it: a row's bits depend on nothing else.
#pragma once
#include "core/kernel_entry.h"
#include "linear/finish.h"
#include "linear/share.h"
#include "simd/tile.h"

namespace fb::FB_ISA {

constexpr int kStep = 32;  // k of a step
constexpr int kBlockRows = kTileRows;
constexpr int kChunkSteps = 16;   // 512 k: decoded weights take 32 to 96 KiB
constexpr int kPieceBlocks = 32;  // 512 rows
constexpr int kGroupPanels = 4;
constexpr int64_t kResidentBytes = 512 << 10;  // x up to this size stays in L2 beside the rest

// Partial sums of 16 rows x one panel, as two f32 tiles.
struct BlockSums {
  float half[2][kBlockRows * kHalf];
};

template <class Path>
struct Scratch {
  alignas(64) typename Path::Slot weights[kChunkSteps];
  alignas(64) float products[2][kBlockRows * kHalf];
  alignas(64) BlockSums sums[kGroupPanels][kPieceBlocks];
};

// What a path multiplies in one call: steps of one panel by row blocks. X gives rows, steps, and the record of a block and step.
template <class X>
struct Piece {
  const uint8_t* packed;  // the panel
  const X& x;
  Range steps, blocks;
  BlockSums* sums;  // of blocks.begin; holds the chain of the steps before, if there are any
};

// The packed block that holds a step, and the step's sub-block in it.
template <Scheme S>
FB_INLINE const uint8_t* block_of(const uint8_t* packed, int64_t step) {
  return packed + step / S.sub_blocks() * S.block_bytes();
}
template <Scheme S>
FB_INLINE int sub_block_of(int64_t step) {
  return static_cast<int>(step % S.sub_blocks());
}

// Fetches the packed bytes of one step that is several steps ahead, over the end of the panel into the next one.
template <Scheme S>
FB_INLINE void prefetch_step(const uint8_t* packed, int64_t step) {
  constexpr int kStepsAhead = 6;
  constexpr int bytes = S.block_bytes() / S.sub_blocks();
  const uint8_t* p = packed + (step + kStepsAhead) * bytes;
  for (int i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
}

template <Scheme S>
FB_INLINE void finish_panel(const fb_linear_args& args, int64_t panel, Range blocks, int64_t rows,
                            const BlockSums* sums) {
  for (int64_t block = blocks.begin; block < blocks.end; ++block, ++sums) {
    const int64_t first = block * kBlockRows, count = smaller(kBlockRows, rows - first);
    for (int64_t r = 0; r < count; ++r)
      for (int half = 0; half < 2; ++half)
        finish(args, first + r, panel * kPanel + half * kHalf, f32x16::load(sums->half[half] + r * kHalf));
  }
}

template <Scheme S, class Path, class X>
FB_INLINE void sweep(const fb_linear_args& args, const X& x, const fb_worker& worker) {
  using PathScratch = Scratch<Path>;
  static_assert(sizeof(PathScratch) <= FB_SCRATCH_BYTES);
  PathScratch& scratch = *static_cast<PathScratch*>(worker.scratch);
  const Panels panels(args);
  const Share share = share_of(panels, x.rows, kBlockRows, worker.thread, worker.threads);
  const Range blocks{share.rows.begin / kBlockRows, ceil_div(share.rows.end, kBlockRows)};
  if (blocks.begin >= blocks.end || share.panels.begin >= share.panels.end) return;

  Tiles tiles;
  tiles.configure(Path::config(static_cast<int>(smaller(x.rows, kBlockRows))));
  for (int64_t block = blocks.begin; block < blocks.end; block += kPieceBlocks) {
    const Range piece_blocks{block, smaller(block + kPieceBlocks, blocks.end)};
    const bool resident =
        (piece_blocks.end - piece_blocks.begin) * x.steps * x.record_bytes() <= kResidentBytes;
    const int64_t group = resident ? 1 : kGroupPanels;
    for (int64_t panel = share.panels.begin; panel < share.panels.end; panel += group) {
      const int64_t end = smaller(panel + group, share.panels.end);
      for (int64_t step = 0; step < x.steps; step += kChunkSteps)
        for (int64_t p = panel; p < end; ++p)
          Path::multiply(tiles,
                         {args.weight + panels.at(p) * S.panel_bytes(args.k),
                          x,
                          {step, smaller(step + kChunkSteps, x.steps)},
                          piece_blocks,
                          scratch.sums[p - panel]},
                         scratch);
      for (int64_t p = panel; p < end; ++p)
        finish_panel<S>(args, panels.at(p), piece_blocks, x.rows, scratch.sums[p - panel]);
    }
  }
  tiles.release();
}

}  // namespace fb::FB_ISA
