// Few rows: a weight is decoded in a register and multiplied at once; the packed bytes are the only traffic.
#pragma once
#include "tile.h"

namespace fb::FB_ISA {

// `rows` rows from row0 times `panels` neighbouring panels. Each accumulator is one chain over ascending k.
template <Scheme S, int rows, int panels>
void fused_tile(const fb_linear_args& args, int64_t row0, int64_t panel) {
  constexpr int kHalves = 2 * panels;
  const int64_t panel_bytes = S.panel_bytes(args.k);
  const uint8_t* packed = args.weight + panel * panel_bytes;
  const float* x[rows];
  f32x16 sum[rows][kHalves];
  unroll<rows>([&](auto m) FB_INLINE_LAMBDA {
    x[m] = args.x + (row0 + m) * args.x_stride;
    unroll<kHalves>([&](auto h) FB_INLINE_LAMBDA { sum[m][h] = f32x16::zero(); });
  });
  Decoder<S> weights[kHalves];

  const auto add_k = [&](auto k) FB_INLINE_LAMBDA {
    f32x16 w[kHalves];
    unroll<kHalves>([&](auto h) FB_INLINE_LAMBDA { w[h] = weights[h].at(k); });
    unroll<rows>([&](auto m) FB_INLINE_LAMBDA {
      const f32x16 a = f32x16::broadcast(x[m][k]);
      unroll<kHalves>([&](auto h) FB_INLINE_LAMBDA { sum[m][h] = fma(w[h], a, sum[m][h]); });
    });
  };
  const auto next_sub_block = [&] { unroll<rows>([&](auto m) FB_INLINE_LAMBDA { x[m] += kSubBlock; }); };

  const int64_t whole_blocks = args.k / S.block_k();
  for (int64_t b = 0; b < whole_blocks; ++b, packed += S.block_bytes()) {
    unroll<kHalves>([&](auto h) FB_INLINE_LAMBDA { weights[h].begin_block(packed + h / 2 * panel_bytes, h % 2); });
    for (int sub = 0; sub < S.sub_blocks(); ++sub) {
      constexpr int kGroup = S.group == 16 ? 16 : kSubBlock;
      unroll<kSubBlock / kGroup>([&](auto group) FB_INLINE_LAMBDA {
        unroll<kHalves>([&](auto h) FB_INLINE_LAMBDA { weights[h].begin_group(sub, group); });
        unroll_piece<kGroup>(group, add_k);
      });
      next_sub_block();
    }
  }
  if constexpr (S.plain()) {  // the rest of K: x ends there
    const int rest = static_cast<int>(args.k - whole_blocks * S.block_k());
    unroll<kHalves>([&](auto h) FB_INLINE_LAMBDA {
      weights[h].begin_block(packed + h / 2 * panel_bytes, h % 2);
      weights[h].begin_group(0, 0);
    });
    for (int k = 0; k < rest; ++k) add_k(k);
  }
  unroll<rows>([&](auto m) FB_INLINE_LAMBDA {
    unroll<kHalves>([&](auto h) FB_INLINE_LAMBDA { finish(args, row0 + m, (panel * 2 + h) * kHalf, sum[m][h]); });
  });
}

template <Scheme S, int rows>
void fused_panels(const fb_linear_args& args, Range panels) {
  int64_t panel = panels.begin;
  for (; panel + kFusedPanels <= panels.end; panel += kFusedPanels) fused_tile<S, rows, kFusedPanels>(args, 0, panel);
  for (; panel < panels.end; ++panel) fused_tile<S, rows, 1>(args, 0, panel);
}

}  // namespace fb::FB_ISA
