// Where the BF16 weight tiles of gemm.h come from.
//
//   PlainTiles    plain floats, exactly: bf16 is one part and lies in the packed panel as tiles already; f16 (11 significant bits) is
//                 two parts, f32 (24) three, each the upper 8 bits of what the ones before leave. (f32 weights below 2^-110 lose
//                 low bits: tile products take subnormals as zero.)
//   RoundedTiles  codes decoded to f32 and rounded to BF16, to nearest even: one product a step whatever the group
#pragma once
#include "bf16_pairs.h"
#include "linear/decode_parts.h"
#include "simd/bf16.h"
#include "sweep.h"

namespace fb::FB_ISA {

// use(even, odd, row of the tile, half) for the 32 k of a step.
template <Scheme S, class F>
FB_INLINE void each_pair(const fb_linear_args& args, const uint8_t* packed, int64_t step, F use) {
  Decoder<S> weights[2];
  prefetch_step<S>(packed, step);
  unroll<2>([&](auto h) FB_INLINE_LAMBDA {
    weights[h].begin_panel(args, packed);
    weights[h].begin_block(block_of<S>(packed, step), h);
  });
  each_k(weights, sub_block_of<S>(step), [&](int k0, auto i) FB_INLINE_LAMBDA {
    if (i % 2) return;
    unroll<2>([&](auto h)
                  FB_INLINE_LAMBDA { use(weights[h].at(i), weights[h].at(i + 1), (k0 + i) / 2, int{h}); });
  });
}

// To nearest even; subnormals may become zeros, as which tile products take them.
FB_INLINE i32x16 rounded_pair(f32x16 even, f32x16 odd) {
#ifdef __AVX512BF16__
  alignas(64) static constexpr uint16_t interleave[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                          21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                          11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i apart = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd.v, even.v));
  return {_mm512_permutexvar_epi16(_mm512_load_si512(interleave), apart)};
#else
  return pack_bf16_pair(even, odd);
#endif
}

template <Scheme S>
struct PlainTiles {
  static constexpr int kParts = S.element == Element::f32 ? 3 : S.element == Element::f16 ? 2 : 1;
  static constexpr bool kDecodes = S.element != Element::bf16;

  static FB_INLINE void decode(const fb_linear_args& args, const uint8_t* packed, int64_t step,
                               uint8_t* slot) {
    each_pair<S>(args, packed, step, [&](f32x16 even, f32x16 odd, int row, int half) FB_INLINE_LAMBDA {
      for (int part = 0; part < kParts; ++part) {
        truncated_pair(even, odd).store(slot + (part * 2 + half) * kTileBytes + row * kTileRowBytes);
        even = truncation_rest(even), odd = truncation_rest(odd);
      }
    });
  }
};

template <Scheme S>
struct RoundedTiles {
  static constexpr int kParts = 1;
  static constexpr bool kDecodes = true;

  static FB_INLINE void decode(const fb_linear_args& args, const uint8_t* packed, int64_t step,
                               uint8_t* slot) {
    each_pair<S>(args, packed, step, [&](f32x16 even, f32x16 odd, int row, int half) FB_INLINE_LAMBDA {
      rounded_pair(even, odd).store(slot + half * kTileBytes + row * kTileRowBytes);
    });
  }
};

}  // namespace fb::FB_ISA
