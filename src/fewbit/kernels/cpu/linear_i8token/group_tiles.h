// Weights with a scale for each group of 32, 64 or 128 k: the tile sum of a group is scaled into f32 sums that stay in 16 vector
// registers, one row block x one half at a time, while the next group is multiplied (C = tiles 0 and 1 in turn).
//
// A chunk of at most 512 k of one half stays in L1 while all row blocks of the piece meet it; their f32 sums wait in L2 between chunks.
#pragma once
#include "panel_tiles.h"

namespace fb::FB_ISA {

template <Scheme S>
struct GroupTiles {
  static constexpr int64_t kChunkK = 512, kPieceBlocks = 32;
  static constexpr int64_t kMostGroups = kChunkK / kSubBlock;

  struct Work {
    alignas(64) uint8_t weights[2][kChunkK / kTileK][kTileBytes];
    alignas(64) int32_t code_sums[kMostGroups][kPanel];
    GroupParts parts[kMostGroups];
    alignas(64) int32_t products[2][kBlockRows * kHalf];
    alignas(64) float sums[kPieceBlocks][2][kBlockRows * kHalf];
  };
  static_assert(sizeof(Work) <= FB_SCRATCH_BYTES);

  template <int C, int A, int B>
  static FB_INLINE void dot(Tiles& tiles) {
    ChannelTiles<S>::template dot<C, A, B>(tiles);
  }

  struct Chunk {
    Range groups;     // of the weight
    int64_t group_k;  // k of a group
    int64_t k_end;    // of the chunk's last group, which may be shorter
    int tile_k;       // k of a tile: 32 for groups of 32, else 64
  };

  template <bool shifted>
  static void decode(const DecodedPanel<S>& panel, const Chunk& chunk, Work& work) {
    const int64_t k0 = chunk.groups.begin * chunk.group_k;
    for (int64_t g = chunk.groups.begin; g < chunk.groups.end; ++g) {
      panel.packed.load(g, work.parts[g - chunk.groups.begin]);
      const int64_t end = smaller((g + 1) * chunk.group_k, chunk.k_end);
      for (int half = 0; half < 2; ++half) {
        i32x16 sum = i32x16::zero();
        for (int64_t k = g * chunk.group_k; k < end; k += kSubBlock)
          panel.template decode<shifted>(k / kSubBlock, half, rows_of(work, half, k - k0), sum);
        if (chunk.tile_k == kTileK && end % kTileK) memset(rows_of(work, half, end - k0), 0, kTileBytes / 2);
        if constexpr (shifted) sum.store(work.code_sums[g - chunk.groups.begin] + half * kHalf);
      }
    }
  }
  static FB_INLINE uint8_t* rows_of(Work& work, int half, int64_t k) {
    return work.weights[half][k / kTileK] + k % kTileK / kSubBlock * (kTileBytes / 2);
  }

  template <bool shifted>
  static FB_INLINE void add(const DecodedPanel<S>& panel, const TileRows& x, int64_t first, int64_t group,
                            int64_t slot, int half, bool offset, const Work& work, const int32_t* product,
                            f32x16 (&sum)[kBlockRows]) {
    const int n = half * kHalf;
    const GroupParts& parts = work.parts[slot];
    const f32x16 scale = f32x16::load(parts.scale + n);
    const int32_t* row_sums = x.sums(group) + first;
    if (shifted || S.bits == 8 || panel.packed.form.extra_kind == kZeroPoint) {
      const i32x16 center = i32x16::load(parts.center + n) - i32x16::broadcast(panel.taken);
      const i32x16 code_sum = i32x16::load(work.code_sums[slot] + n);
      unroll<kBlockRows>([&](auto r) FB_INLINE_LAMBDA {
        const i32x16 exact = exact_sum<shifted>(i32x16::load(product + r * kHalf), center, row_sums[r],
                                                x.zeros()[first + r], code_sum);
        sum[r] = fma(scale, to_f32(exact), sum[r]);
      });
    } else {
      unroll<kBlockRows>([&](auto r) FB_INLINE_LAMBDA {
        sum[r] = fma(scale, to_f32(i32x16::load(product + r * kHalf)), sum[r]);
      });
    }
    if (offset) {
      const f32x16 by = f32x16::load(parts.offset + n);
      unroll<kBlockRows>([&](auto r) FB_INLINE_LAMBDA {
        sum[r] = fma(by, f32x16::broadcast(static_cast<float>(row_sums[r])), sum[r]);
      });
    }
  }

  // The chunk for one row block and half.
  template <bool shifted>
  static void multiply(Tiles& tiles, const DecodedPanel<S>& panel, const TileRows& x, const Chunk& chunk,
                       int64_t block, int half, Work& work, float* stored) {
    f32x16 sum[kBlockRows];
    unroll<kBlockRows>([&](auto r) FB_INLINE_LAMBDA {
      sum[r] = chunk.groups.begin == 0 ? f32x16::zero() : f32x16::load(stored + r * kHalf);
    });
    const int64_t k0 = chunk.groups.begin * chunk.group_k, count = chunk.groups.end - chunk.groups.begin;
    const bool offset = panel.packed.form.extra_kind == kOffset;
    const uint8_t* a = x.base + block * x.steps() * kTileBytes;
    const auto group = [&](int64_t g, auto turn) FB_INLINE_LAMBDA {
      constexpr int C = decltype(turn)::value;
      tiles.template zero<C>();
      const int64_t begin = k0 + g * chunk.group_k, end = smaller(begin + chunk.group_k, chunk.k_end);
      for (int64_t k = begin; k < end; k += chunk.tile_k) {
        tiles.template load<2 + C>(a + k / kTileK * kTileBytes + k % kTileK, kTileRowBytes);
        tiles.template load<4 + C>(rows_of(work, half, k - k0), kTileRowBytes);
        dot<C, 2 + C, 4 + C>(tiles);
        fetch_lines<16>(a + (k / kTileK + 4) * kTileBytes);
      }
      tiles.template store<C>(work.products[C], kTileRowBytes);
      if (g > 0)
        add<shifted>(panel, x, block * kBlockRows, chunk.groups.begin + g - 1, g - 1, half, offset, work,
                     work.products[1 - C], sum);
    };
    int64_t g = 0;
    for (; g + 2 <= count; g += 2) {
      group(g, Turn<0>{});
      group(g + 1, Turn<1>{});
    }
    if (g < count) group(g++, Turn<0>{});
    add<shifted>(panel, x, block * kBlockRows, chunk.groups.end - 1, count - 1, half, offset, work,
                 work.products[(count - 1) % 2], sum);
    unroll<kBlockRows>([&](auto r) FB_INLINE_LAMBDA { sum[r].store(stored + r * kHalf); });
  }

  template <bool shifted>
  static void run_panel(Tiles& tiles, const fb_linear_args& args, const TileRows& x, int64_t index,
                        Range blocks, Work& work) {
    const DecodedPanel<S> panel(args, index);
    const int64_t group_k = int64_t{kSubBlock} << panel.packed.form.group_shift, of_chunk = kChunkK / group_k;
    for (int64_t g = 0; g < x.groups; g += of_chunk) {
      const Range groups{g, smaller(g + of_chunk, x.groups)};
      const Chunk chunk{groups, group_k, smaller(groups.end * group_k, x.k),
                        group_k == kSubBlock ? kSubBlock : kTileK};
      decode<shifted>(panel, chunk, work);
      for (int half = 0; half < 2; ++half)
        for (int64_t block = blocks.begin; block < blocks.end; ++block)
          multiply<shifted>(tiles, panel, x, chunk, block, half, work, work.sums[block - blocks.begin][half]);
    }
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      const int64_t first = block * kBlockRows, count = smaller(kBlockRows, x.rows - first);
      for (int64_t r = 0; r < count; ++r)
        for (int half = 0; half < 2; ++half)
          finish(args, first + r, index * kPanel + half * kHalf,
                 f32x16::load(work.sums[block - blocks.begin][half] + r * kHalf) *
                     f32x16::broadcast(x.scales()[first + r]));
    }
  }

  static void run(const fb_linear_args& args, const TileRows& x, const Panels& panels, Range own,
                  Range blocks, const fb_worker& worker) {
    Work& work = *static_cast<Work*>(worker.scratch);
    Tiles tiles;
    TileConfig config = TileConfig::full();
    if (reinterpret_cast<const Form*>(args.weight)->group_shift == 0)
      for (int turn : {0, 1})
        config.shape(2 + turn, kBlockRows, kSubBlock).shape(4 + turn, kSubBlock / 4, kTileRowBytes);
    tiles.configure(config);
    for (int64_t block = blocks.begin; block < blocks.end; block += kPieceBlocks) {
      const Range some{block, smaller(block + kPieceBlocks, blocks.end)};
      for (int64_t place = own.begin; place < own.end; ++place) {
        if (args.input_kind <= kDynamic)
          run_panel<false>(tiles, args, x, panels.at(place), some, work);
        else
          run_panel<true>(tiles, args, x, panels.at(place), some, work);
      }
    }
    tiles.release();
  }

 private:
  template <int T>
  struct Turn {
    static constexpr int value = T;
  };
};

}  // namespace fb::FB_ISA
