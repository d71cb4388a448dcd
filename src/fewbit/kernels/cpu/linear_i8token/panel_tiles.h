// Panels as tile operands, and channel-wise weights: nothing happens between products but loads.
#pragma once
#include "generic.h"
#include "linear_amx/fetch.h"
#include "simd/tile.h"

namespace fb::FB_ISA {

using TileRows = Rows<int8_t, true>;

constexpr int64_t kStepPairBytes = 2 * kTileBytes;  // both halves of a step of 64 k
constexpr int64_t kMostSteps = 512;                 // decoded at once: 1 MiB
constexpr int64_t kPieceBytes = 1 << 20;            // of x that a panel meets before the next is decoded

// sum + the four bytes of each word
template <bool is_signed>
FB_INLINE i32x16 add_bytes(i32x16 sum, i32x16 word) {
  unroll<4>([&](auto byte) FB_INLINE_LAMBDA {
    const i32x16 up = shift_left(word, 24 - 8 * byte);
    sum = sum + (is_signed ? shift_right_signed(up, 24) : shift_right(up, 24));
  });
  return sum;
}

template <Scheme S>
struct DecodedPanel {
  static constexpr bool kSigned = S.bits < 8;
  PackedPanel packed;
  int32_t taken;  // center that the decoded codes are already less

  FB_INLINE DecodedPanel(const fb_linear_args& args, int64_t index)
      : packed(PackedPanel::of<S>(args, index)),
        taken(kSigned && packed.form.extra_kind != kZeroPoint ? packed.form.center : 0) {}

  // One block of 32 k and one half: 8 tile rows. Adds the codes to `sum` where it is wanted.
  template <bool with_sum>
  FB_INLINE void decode(int64_t block, int half, uint8_t* rows, i32x16& sum) const {
    BlockCodes<S> words;
    const int32_t less = taken;
    load_block(words, packed.codes + block * S.sub_bytes(), half);
    const i32x16 top = i32x16::broadcast(static_cast<int32_t>(0x80808080u)),
                 by = i32x16::broadcast(0x01010101 * less);
    unroll<kSteps>([&](auto step) FB_INLINE_LAMBDA {
      i32x16 word = words_at(words, step);
      if constexpr (kSigned) word = ((word | top) - by) ^ top;
      word.store(rows + step * kTileRowBytes);
      if constexpr (with_sum) sum = add_bytes<kSigned>(sum, word);
    });
  }

  static FB_INLINE void load_block(BlockCodes<S>& words, const uint8_t* block, int half) {
    words.load(block, half * kHalf);
  }
  static FB_INLINE i32x16 words_at(const BlockCodes<S>& words, int step) { return words.codes[step]; }
};

// exact = product - (what is left of the center) * sum of x - zero of x * sum of codes, of 16 n and one row
template <bool shifted>
FB_INLINE i32x16 exact_sum(i32x16 product, i32x16 center, int32_t x_sum, int32_t x_zero, i32x16 code_sum) {
  product = product - multiply_low(center, i32x16::broadcast(x_sum));
  if constexpr (shifted) product = product - multiply_low(code_sum, i32x16::broadcast(x_zero));
  return product;
}

struct IntegerSums {
  alignas(64) int32_t half[2][kBlockRows * kHalf];
};

template <Scheme S>
struct ChannelTiles {
  static constexpr int kStepsAhead = 2;
  struct Work {
    alignas(64) uint8_t weights[kMostSteps * kStepPairBytes];
    alignas(64) int32_t code_sums[kPanel];
    IntegerSums sums[64];
  };
  static_assert(sizeof(Work) <= FB_SCRATCH_BYTES);

  template <int C, int A, int B>
  static FB_INLINE void dot(Tiles& tiles) {
    if constexpr (S.bits == 8)
      tiles.template dot_s8u8<C, A, B>();
    else
      tiles.template dot_s8s8<C, A, B>();
  }

  template <bool two>
  static FB_INLINE void multiply_step(Tiles& tiles, const uint8_t* a0, const uint8_t* a1, const uint8_t* b) {
    const uint8_t *next0 = a0 + kStepsAhead * kTileBytes, *next1 = a1 + kStepsAhead * kTileBytes;
    const uint8_t* next = b + kStepsAhead * kStepPairBytes;
    tiles.template load<6>(b, kTileRowBytes);
    fetch_lines<8>(next);
    tiles.template load<4>(a0, kTileRowBytes);
    fetch_lines<8>(next + 512);
    dot<0, 4, 6>(tiles);
    fetch_lines<8>(next0);
    if constexpr (two) {
      tiles.template load<5>(a1, kTileRowBytes);
      fetch_lines<8>(next0 + 512);
      dot<2, 5, 6>(tiles);
      fetch_lines<8>(next1);
    }
    tiles.template load<7>(b + kTileBytes, kTileRowBytes);
    fetch_lines<8>(two ? next1 + 512 : next0 + 512);
    dot<1, 4, 7>(tiles);
    fetch_lines<8>(next + 1024);
    if constexpr (two) dot<3, 5, 7>(tiles);
    fetch_lines<8>(next + 1536);
  }

  template <bool two>
  static FB_INLINE void multiply(Tiles& tiles, const TileRows& x, int64_t block, Range steps,
                                 const uint8_t* b, IntegerSums* sums) {
    constexpr int64_t stride = kHalf * 4;
    if (steps.begin == 0) {
      tiles.template zero<0>(), tiles.template zero<1>();
      if constexpr (two) tiles.template zero<2>(), tiles.template zero<3>();
    } else {
      tiles.template load<0>(sums[0].half[0], stride), tiles.template load<1>(sums[0].half[1], stride);
      if constexpr (two)
        tiles.template load<2>(sums[1].half[0], stride), tiles.template load<3>(sums[1].half[1], stride);
    }
    const uint8_t* a0 = x.base + (block * x.steps() + steps.begin) * kTileBytes;
    const uint8_t* a1 = a0 + (two ? x.steps() * kTileBytes : 0);
    for (int64_t step = steps.begin; step < steps.end;
         ++step, a0 += kTileBytes, a1 += kTileBytes, b += kStepPairBytes)
      multiply_step<two>(tiles, a0, a1, b);
    tiles.template store<0>(sums[0].half[0], stride), tiles.template store<1>(sums[0].half[1], stride);
    if constexpr (two)
      tiles.template store<2>(sums[1].half[0], stride), tiles.template store<3>(sums[1].half[1], stride);
  }

  template <bool shifted>
  static void decode_steps(const DecodedPanel<S>& panel, const TileRows& x, Range steps, Work& work) {
    const int64_t blocks = x.k / kSubBlock;
    for (int half = 0; half < 2; ++half) {
      i32x16 sum = steps.begin == 0 ? i32x16::zero() : i32x16::load(work.code_sums + half * kHalf);
      for (int64_t block = 2 * steps.begin; block < 2 * steps.end; ++block) {
        uint8_t* rows = work.weights + (block / 2 - steps.begin) * kStepPairBytes + half * kTileBytes +
                        block % 2 * (kTileBytes / 2);
        if (block < blocks)
          panel.template decode<shifted>(block, half, rows, sum);
        else
          memset(rows, 0, kTileBytes / 2);
      }
      sum.store(work.code_sums + half * kHalf);
    }
  }

  template <bool shifted>
  static void finish_block(const fb_linear_args& args, const DecodedPanel<S>& panel, const TileRows& x,
                           int64_t index, int64_t block, const GroupParts& parts, const Work& work,
                           const IntegerSums& sums) {
    const int64_t first = block * kBlockRows, count = smaller(kBlockRows, x.rows - first);
    const bool offset = panel.packed.form.extra_kind == kOffset;
    const int32_t* row_sums = x.sums(0) + first;
    for (int half = 0; half < 2; ++half) {
      const int n = half * kHalf;
      const i32x16 center = i32x16::load(parts.center + n) - i32x16::broadcast(panel.taken);
      const i32x16 code_sum = i32x16::load(work.code_sums + n);
      const f32x16 scale = f32x16::load(parts.scale + n);
      for (int64_t r = 0; r < count; ++r) {
        const i32x16 exact = exact_sum<shifted>(i32x16::load(sums.half[half] + r * kHalf), center,
                                                row_sums[r], x.zeros()[first + r], code_sum);
        f32x16 s = fma(scale, to_f32(exact), f32x16::zero());
        if (offset)
          s = fma(f32x16::load(parts.offset + n), f32x16::broadcast(static_cast<float>(row_sums[r])), s);
        finish(args, first + r, index * kPanel + n, s * f32x16::broadcast(x.scales()[first + r]));
      }
    }
  }

  template <bool shifted>
  static void run_panel(Tiles& tiles, const fb_linear_args& args, const TileRows& x, int64_t index,
                        Range blocks, Work& work) {
    const DecodedPanel<S> panel(args, index);
    GroupParts parts;
    panel.packed.load(0, parts);
    for (int64_t step = 0; step < x.steps(); step += kMostSteps) {
      const Range steps{step, smaller(step + kMostSteps, x.steps())};
      decode_steps<shifted>(panel, x, steps, work);
      for (int64_t block = blocks.begin; block < blocks.end; block += 2) {
        IntegerSums* sums = work.sums + (block - blocks.begin);
        if (block + 1 < blocks.end)
          multiply<true>(tiles, x, block, steps, work.weights, sums);
        else
          multiply<false>(tiles, x, block, steps, work.weights, sums);
        if (steps.end == x.steps())
          for (int64_t b = block; b < smaller(block + 2, blocks.end); ++b)
            finish_block<shifted>(args, panel, x, index, b, parts, work, work.sums[b - blocks.begin]);
      }
    }
  }

  static void run(const fb_linear_args& args, const TileRows& x, const Panels& panels, Range own,
                  Range blocks, const fb_worker& worker) {
    Work& work = *static_cast<Work*>(worker.scratch);
    Tiles tiles;
    tiles.configure(TileConfig::full());
    const int64_t fitting = kPieceBytes / (x.steps() * kTileBytes) / 2 * 2;
    const int64_t piece = fitting < 2 ? 2 : smaller(fitting, 64);
    for (int64_t block = blocks.begin; block < blocks.end; block += piece) {
      const Range some{block, smaller(block + piece, blocks.end)};
      for (int64_t place = own.begin; place < own.end; ++place) {
        if (args.input_kind <= kDynamic)
          run_panel<false>(tiles, args, x, panels.at(place), some, work);
        else
          run_panel<true>(tiles, args, x, panels.at(place), some, work);
      }
    }
    tiles.release();
  }
};

}  // namespace fb::FB_ISA
