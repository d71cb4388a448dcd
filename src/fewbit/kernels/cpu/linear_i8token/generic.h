// linear with 8-bit activations, one scale for each row, over layout n32parts: y[m,n] = sx[m] * (chain over groups) + bias.
//
// x is quantized once (quantize.h). A weight is w = s[n,g] * (u - c[n,g]) + o[n,g], u the stored code, c its center or zero point.
// For the groups g of the weight ascending, from sum = 0:
//
//   sum = fma(s, float(sum over k in g of (q - zx) * (u - c)), sum)
//   sum = fma(o, float(sum over k in g of (q - zx)), sum)                if the scheme has offsets
//
// and y = sum * sx. The integer sums are exact on every ISA: they are taken as  sum q u - c sum (q - zx) - zx sum u  in 32 bits that
// wrap, and their true value fits (K at most 65536, 32768 with zero points: kernel.py). float() rounds to nearest even. So scalar,
// AVX2, VNNI and AMX give the same bits, at any M and thread count.
//
// Error. Against exact products of the rounded activations each link of the chain adds 2^-24 of its sum, float() and sx one more:
// with G groups |y - y_rounded| <= 2^-24 (2 G + 3) sum over k of |sx (q - zx) w|. The rounding of x itself: |x - sx (q - zx)| <= sx / 2.
#pragma once
#include "core/kernel_entry.h"
#include "linear/finish.h"
#include "linear_i8/weights.h"
#include "quantize.h"

namespace fb::FB_ISA {

constexpr int kAheadBytes = 3072;  // prefetched in the packed stream

// What the 32 n of a group multiply by.
struct GroupParts {
  alignas(64) float scale[kPanel];
  alignas(64) float offset[kPanel];
  alignas(64) int32_t center[kPanel];
};

struct PackedPanel {
  const Form& form;
  const uint8_t *codes, *scales, *extras;

  template <Scheme S>
  static FB_INLINE PackedPanel of(const fb_linear_args& args, int64_t index) {
    const Form& form = *reinterpret_cast<const Form*>(args.weight);
    const PanelParts parts(form, S.panel_bytes(args.k));
    const uint8_t* panel = panel_of<S>(args.weight, args.k, index);
    return {form, panel, panel + parts.scales, panel + parts.extras};
  }
  FB_INLINE void load(int64_t group, GroupParts& to) const {
    const int64_t bytes = scale_bytes(form.scale_kind);
    for (int half = 0; half < kPanel; half += kHalf) {
      const int64_t at = group * kPanel + half;
      load_part(form.scale_kind, scales + at * bytes).store(to.scale + half);
      if (form.extra_kind == kOffset) load_part(form.scale_kind, extras + at * bytes).store(to.offset + half);
      (form.extra_kind == kZeroPoint ? i32x16::load_u8(extras + at) : i32x16::broadcast(form.center))
          .store(to.center + half);
    }
  }
};

// The codes of word row `step` (0..7) of a block of 32 k, a vector of n, as unsigned bytes.
template <Scheme S>
struct BlockCodes {
  Words codes[kSteps];
  FB_INLINE void load(const uint8_t* block, int lane) {
    const int half = lane / kHalf, at = lane % kHalf * 4;
    const uint8_t* low = block + half * (64 * S.low_bits()) + at;
    if constexpr (S.bits == 8)
      unroll<kSteps>([&](auto step) FB_INLINE_LAMBDA { codes[step] = Words::load(low + 64 * step); });
    else
      load_codes<S>(low, block + S.high_plane() + half * (64 * S.high_bits()) + at, codes);
  }
};

// `rows` rows from `first` by `vectors` vectors of n from `lane` of a panel, into sums[row][32 n].
template <Scheme S, int rows, int vectors, bool shifted, typename X>
void multiply_tile(const PackedPanel& panel, const X& x, int64_t first, int lane, float (*sums)[kPanel]) {
  using Sum = RowSum<S.bits>;
  static constexpr typename Sum::X ones[kSubBlock] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                                      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const int64_t blocks = x.k / kSubBlock;
  const auto* codes = x.codes(first, 0);
  const int64_t stride = x.row_bytes() / int64_t{sizeof(typename Sum::X)};
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) Floats::zero().store(sums[r] + lane + v * kWordLanes);
  int64_t block = 0;
  for (int64_t group = 0; group < x.groups; ++group) {
    Sum sum[rows][vectors], all[vectors];
    unroll<rows>([&](auto r) FB_INLINE_LAMBDA {
      unroll<vectors>([&](auto v) FB_INLINE_LAMBDA { sum[r][v].clear(); });
    });
    if constexpr (shifted) unroll<vectors>([&](auto v) FB_INLINE_LAMBDA { all[v].clear(); });
    const int64_t end = group + 1 == x.groups ? blocks : (group + 1) << panel.form.group_shift;
    for (; block < end; ++block) {
      const uint8_t* packed = panel.codes + block * S.sub_bytes();
      for (int byte = lane == 0 ? 0 : S.sub_bytes(); byte < S.sub_bytes(); byte += 64)
        __builtin_prefetch(packed + kAheadBytes + byte);
      BlockCodes<S> words[vectors];
      unroll<vectors>([&](auto v) FB_INLINE_LAMBDA { words[v].load(packed, lane + v * kWordLanes); });
      const auto* at = codes + block * kSubBlock;
      unroll<kSteps>([&](auto step) FB_INLINE_LAMBDA {
        unroll<vectors>([&](auto v) FB_INLINE_LAMBDA {
          const typename Sum::Code code = Sum::code(words[v].codes[step]);
          unroll<rows>([&](auto r) FB_INLINE_LAMBDA { sum[r][v].add(step, code, at + r * stride); });
          if constexpr (shifted) all[v].add(step, code, ones);
        });
      });
    }
    GroupParts parts;
    panel.load(group, parts);
    const bool offset = panel.form.extra_kind == kOffset;
    const int32_t* row_sums = x.sums(group) + first;
    unroll<vectors>([&](auto v) FB_INLINE_LAMBDA {
      const int n = lane + v * kWordLanes;
      const Words center = Words::load(parts.center + n);
      const Floats scale = Floats::load(parts.scale + n);
      unroll<rows>([&](auto r) FB_INLINE_LAMBDA {
        Words exact = sum[r][v].total() - multiply_low(center, Words::broadcast(row_sums[r]));
        if constexpr (shifted)
          exact = exact - multiply_low(all[v].total(), Words::broadcast(x.zeros()[first + r]));
        Floats s = fma(scale, to_f32(exact), Floats::load(sums[r] + n));
        if (offset)
          s = fma(Floats::load(parts.offset + n), Floats::broadcast(static_cast<float>(row_sums[r])), s);
        s.store(sums[r] + n);
      });
    });
  }
}

// `count` rows from `first`, as many at once as the greatest power of two below: each number of rows is code of its own.
template <Scheme S, bool shifted, int rows, typename X>
FB_INLINE void multiply_rows(const fb_linear_args& args, const PackedPanel& panel, int64_t index, const X& x,
                             int64_t first, int64_t count, float (*sums)[kPanel]) {
  constexpr int vectors = vectors_of(rows);
  for (; count >= rows; first += rows, count -= rows) {
    for (int lane = 0; lane < kPanel; lane += vectors * kWordLanes)
      multiply_tile<S, rows, vectors, shifted>(panel, x, first, lane, sums);
    for (int r = 0; r < rows; ++r)
      for (int half = 0; half < 2; ++half)
        finish(args, first + r, index * kPanel + half * kHalf,
               f32x16::load(sums[r] + half * kHalf) * f32x16::broadcast(x.scales()[first + r]));
  }
  if constexpr (rows > 1) multiply_rows<S, shifted, rows / 2>(args, panel, index, x, first, count, sums);
}

template <Scheme S>
void run_linear_i8token(const void* pointer, int32_t phase, const fb_worker* worker) {
  const fb_linear_args& args = *static_cast<const fb_linear_args*>(pointer);
  if (*args.rows <= 0) return;
  const Rows<typename RowSum<S.bits>::X, false> x(args, *args.rows);
  if (phase == 0) return quantize<S>(args, x, *worker);
  alignas(64) float sums[kMostRows][kPanel];
  const Panels panels(args);
  const Share share = share_of(panels, x.rows, kMostRows, worker->thread, worker->threads);
  for (int64_t place = share.panels.begin; place < share.panels.end; ++place) {
    const int64_t index = panels.at(place);
    const PackedPanel panel = PackedPanel::of<S>(args, index);
    const int64_t count = share.rows.end - share.rows.begin;
    if (args.input_kind <= kDynamic)
      multiply_rows<S, false, kMostRows>(args, panel, index, x, share.rows.begin, count, sums);
    else
      multiply_rows<S, true, kMostRows>(args, panel, index, x, share.rows.begin, count, sums);
  }
}

template <Scheme S>
int64_t row_workspace_bytes(const void* pointer, int64_t max_rows) {
  if (max_rows <= 0) return 0;
  return Rows<typename RowSum<S.bits>::X, false>(*static_cast<const fb_linear_args*>(pointer), max_rows)
      .bytes();
}

}  // namespace fb::FB_ISA

#define FB_LINEAR_I8TOKEN_ROW(scheme, codes)                             \
  FB_KERNEL_ISA(FB_PASTE(linear, FB_PASTE(scheme, i8token_n32parts)), 2, \
                row_workspace_bytes<fb::FB_ISA::codes>, run_linear_i8token<fb::FB_ISA::codes>)
