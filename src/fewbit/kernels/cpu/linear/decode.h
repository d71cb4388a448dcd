// Packed block -> f32 weights, one vector of 16 n per k.
//
// Codes are not shifted down to bit 0: `word & mask` leaves q * 2^p, which converts exactly, and a scale divided by 2^p
// (exact: a power of two, far from underflow) makes up for it. That saves one of five instructions per weight vector.
// A word is cut into units of 4 low-plane fields, so four such scales per group are enough.
// A biased code is decoded as fma(code, scale, -bias*scale): the exact result (code-bias)*scale fits in f32, so the one
// rounding of the fma changes nothing (a zero may get another sign than code-bias times scale; a sum never shows it).
#pragma once
#include "core/fewbit.h"
#include "scheme.h"
#include "simd/f32x16.h"
#include "simd/unroll.h"

namespace fb::FB_ISA {

// The 16 n of one half panel. Order of use: begin_panel, begin_block, then each_k (below) for each sub-block.
template <Scheme S>
struct Decoder {
  static constexpr int kLow = S.low_bits(), kHigh = S.high_bits();
  static constexpr int kFields = 4;  // low-plane fields of a unit
  static constexpr int kLowPerWord = 32 / kLow, kHighPerWord = kHigh ? 32 / kHigh : 8;
  // k after which the same instructions come again: a whole number of words of each plane
  static constexpr int kPeriod = kLowPerWord > kHighPerWord ? kLowPerWord : kHighPerWord;

  FB_INLINE void begin_panel(const fb_linear_args&, const uint8_t*) {}

  FB_INLINE void begin_block(const uint8_t* packed, int half) {
    block_ = packed;
    half_ = half;
    if constexpr (S.two_level) {
      super_scale_ = load_f16(packed + S.super_scales() + half * 2 * kHalf);
      if constexpr (S.offset) super_offset_ = load_f16(packed + S.super_offsets() + half * 2 * kHalf);
    }
  }

  FB_INLINE void begin_sub_block(int sub) {
    low_ = block_ + sub * S.sub_bytes() + half_ * (64 * kLow);
    if constexpr (kHigh > 0) high_ = block_ + sub * S.sub_bytes() + S.high_plane() + half_ * (64 * kHigh);
  }

  // The scales of a group; index within the block.
  FB_INLINE void begin_group(int group) {
    if constexpr (S.plain()) return;
    if constexpr (S.two_level) {
      const int at = group * kPanel + half_ * kHalf;
      const uint8_t* sub_scale = block_ + S.scales() + at;
      scale_[0] =
          super_scale_ * to_f32(S.signed_sub ? i32x16::load_i8(sub_scale) : i32x16::load_u8(sub_scale));
      if constexpr (S.offset) {
        const f32x16 product = super_offset_ * to_f32(i32x16::load_u8(block_ + S.offsets() + at));
        offset_ = as_f32(as_i32(product) ^ i32x16::broadcast(INT32_MIN));
      }
    } else {
      scale_[0] = load_f16(block_ + S.scales() + half_ * 2 * kHalf);
      if constexpr (S.offset) offset_ = load_f16(block_ + S.offsets() + half_ * 2 * kHalf);
    }
    if constexpr (!S.offset) offset_ = scale_[0] * f32x16::broadcast(-S.bias);
    unroll<kFields - 1>([&](auto i) FB_INLINE_LAMBDA {
      scale_[i + 1] = scale_[0] * f32x16::broadcast(1.0f / static_cast<float>(1u << ((i + 1) * kLow % 32)));
    });
  }

  // Weights of the i-th k since the sub-block began, or since advance() was called; i < kPeriod.
  FB_INLINE f32x16 at(int i) const {
    if constexpr (S.element == Element::f32)
      return f32x16::load(reinterpret_cast<const float*>(low_ + 64 * i));
    const i32x16 word = i32x16::load(low_ + 64 * (i / kLowPerWord));
    if constexpr (S.element == Element::bf16) return i % 2 ? odd_bf16(word) : even_bf16(word);
    if constexpr (S.element == Element::f16) return i % 2 ? odd_f16(word) : even_f16(word);
    if constexpr (S.element == Element::code) return weight_of_code(i, word);
  }

  FB_INLINE void advance() {
    low_ += 64 * (kPeriod / kLowPerWord);
    if constexpr (kHigh > 0) high_ += 64 * (kPeriod / kHighPerWord);
  }

 private:
  const uint8_t* block_;
  const uint8_t* low_;  // word rows at hand of each plane, this half's
  const uint8_t* high_;
  int half_;
  f32x16 super_scale_, super_offset_;
  f32x16 scale_[kFields];  // scale / 2^(field * kLow)
  f32x16 offset_;

  FB_INLINE f32x16 weight_of_code(int i, i32x16 word) const {
    if constexpr (S.bits == 8) {
      const int byte = i % 4;
      const i32x16 mask = i32x16::broadcast(static_cast<int32_t>(0xffu << (8 * byte)));
      if (byte == 3) return to_f32(word & mask) * scale_[3];  // sign and all
      return fma(to_f32((word ^ i32x16::broadcast(static_cast<int32_t>(0x80808080u))) & mask), scale_[byte],
                 offset_);
    } else {
      const int bit = field_bit(i % kLowPerWord, kLow);
      const int field = bit / kLow % kFields, place = field * kLow;  // bit within the unit
      i32x16 code = shift_right(word, bit - place) & i32x16::broadcast(((1 << kLow) - 1) << place);
      if constexpr (kHigh > 0) {
        const int from = field_bit(i % kHighPerWord, kHigh), to = place + kLow;
        const i32x16 high_word = i32x16::load(high_ + 64 * (i / kHighPerWord));
        const i32x16 moved = from > to ? shift_right(high_word, from - to) : shift_left(high_word, to - from);
        code = code | (moved & i32x16::broadcast(((1 << kHigh) - 1) << to));
      }
      return fma(to_f32(code), scale_[field], offset_);
    }
  }
};

// use(k0, i) for the 32 k of a sub-block, k = k0 + i ascending; weights[h].at(i) then gives W[:, k] of half h. i is a
// constant where unroll gives one.
template <Scheme S, int halves, class F>
FB_INLINE void each_k(Decoder<S> (&weights)[halves], int sub, F use) {
  constexpr int kPeriod = Decoder<S>::kPeriod;
  unroll<halves>([&](auto h) FB_INLINE_LAMBDA { weights[h].begin_sub_block(sub); });
  for (int k0 = 0; k0 < kSubBlock; k0 += kPeriod) {
    unroll<kPeriod>([&](auto i) FB_INLINE_LAMBDA {
      if (i % S.group == 0 && (k0 + i) % S.group == 0)
        unroll<halves>(
            [&](auto h) FB_INLINE_LAMBDA { weights[h].begin_group((sub * kSubBlock + k0 + i) / S.group); });
      use(k0, i);
    });
    unroll<halves>([&](auto h) FB_INLINE_LAMBDA { weights[h].advance(); });
  }
}

}  // namespace fb::FB_ISA
