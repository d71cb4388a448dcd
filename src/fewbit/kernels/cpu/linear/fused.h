// Few rows: a weight is decoded in a register and multiplied at once; the packed bytes are the only traffic.
#pragma once
#include "tile.h"

namespace fb::FB_ISA {

// All `rows` rows times `halves` neighbouring half panels from `half` on, in the order of Panels; more than two begin at a gate. Each accumulator is one chain over ascending k.
template <Scheme S, int rows, int halves>
void fused_tile(const fb_linear_args& args, int64_t half) {
  const Panels panels(args);
  const int64_t bytes = panel_bytes<S>(args.weight, args.k) * (panels.apart ? panels.apart : 1);
  const uint8_t* packed = panel_of<S>(args.weight, args.k, panels.at(half / 2));
  const int first_half = half % 2;
  const float* x[rows];
  f32x16 sum[rows][halves];
  unroll<rows>([&](auto m) FB_INLINE_LAMBDA {
    x[m] = args.x + m * args.x_stride;
    unroll<halves>([&](auto h) FB_INLINE_LAMBDA { sum[m][h] = f32x16::zero(); });
  });
  Decoder<S> weights[halves];
  unroll<halves>([&](auto h) FB_INLINE_LAMBDA { weights[h].begin_panel(args, packed + h / 2 * bytes); });

  const auto add_k = [&](int k0, auto i) FB_INLINE_LAMBDA {
    f32x16 w[halves];
    unroll<halves>([&](auto h) FB_INLINE_LAMBDA { w[h] = weights[h].at(i); });
    unroll<rows>([&](auto m) FB_INLINE_LAMBDA {
      const f32x16 a = f32x16::broadcast(x[m][k0 + i]);
      unroll<halves>([&](auto h) FB_INLINE_LAMBDA { sum[m][h] = fma(w[h], a, sum[m][h]); });
    });
  };
  const auto begin_block = [&] FB_INLINE_LAMBDA {
    unroll<halves>([&](auto h) FB_INLINE_LAMBDA {
      weights[h].begin_block(packed + h / 2 * bytes, (first_half + h) % 2);
    });
  };

  const int64_t whole_blocks = args.k / S.block_k();
  for (int64_t b = 0; b < whole_blocks; ++b, packed += S.block_bytes()) {
    begin_block();
    for (int sub = 0; sub < S.sub_blocks(); ++sub) {
      for (int h = 0; h < halves; h += 2) prefetch_ahead<S>(packed + h / 2 * bytes, sub);
      each_k(weights, sub, add_k);
      unroll<rows>([&](auto m) FB_INLINE_LAMBDA { x[m] += kSubBlock; });
    }
  }
  if constexpr (S.plain()) {  // the rest of K: x ends there
    begin_block();
    unroll<halves>([&](auto h) FB_INLINE_LAMBDA { weights[h].begin_sub_block(0); });
    const int rest = static_cast<int>(args.k - whole_blocks * S.block_k());
    for (int i = 0; i < rest; ++i) add_k(0, i);
  }
  unroll<rows>([&](auto m) FB_INLINE_LAMBDA {
    unroll<halves>([&](auto h) FB_INLINE_LAMBDA {
      finish(args, m, panels.at((half + h) / 2) * kPanel + (half + h) % 2 * kHalf, sum[m][h]);
    });
  });
}

template <Scheme S, int rows>
void fused_panels(const fb_linear_args& args, Range panels) {
  constexpr int kTogether = fused_halves(rows);
  int64_t half = panels.begin * 2;
  for (; half + kTogether <= panels.end * 2; half += kTogether) fused_tile<S, rows, kTogether>(args, half);
  if constexpr (kTogether > 2)
    for (; half < panels.end * 2; half += 2) fused_tile<S, rows, 2>(args, half);
}

}  // namespace fb::FB_ISA
