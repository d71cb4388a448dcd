// Packed block -> f32 weights, one vector of 16 n per k.
//
// Codes are not shifted down to bit 0: `word & mask` leaves q * 2^p, which converts exactly, and a scale divided by 2^p
// (exact: a power of two, far from underflow) makes up for it. That saves one of five instructions per weight vector.
// A word is cut into units of 4 low-plane fields, so four such scales per group are enough.
// A biased code is decoded as fma(code, scale, -bias*scale): the exact result (code-bias)*scale fits in f32, so the one
// rounding of the fma changes nothing (a zero may get another sign than code-bias times scale; a sum never shows it).
#pragma once
#include "scheme.h"
#include "simd/f32x16.h"
#include "simd/unroll.h"

namespace fb::FB_ISA {

// The 16 n of one half panel, within one block; begin_block, then begin_group for each group (or sub-block), then at(k).
template <Scheme S>
struct Decoder {
  static constexpr int kLow = S.low_bits(), kHigh = S.high_bits();
  static constexpr int kFields = 4;  // low-plane fields of a unit
  static constexpr int kLowPerWord = 32 / kLow, kHighPerWord = kHigh ? 32 / kHigh : 1;

  const uint8_t* block;  // of this half: n offsets included
  const uint8_t* low;    // word rows of the current sub-block
  const uint8_t* high;
  f32x16 super_scale, super_offset;
  f32x16 scale[kFields];  // scale / 2^(field * kLow)
  f32x16 offset;

  FB_INLINE void begin_block(const uint8_t* packed, int half) {
    block = packed;
    half_ = half;
    if constexpr (S.two_level) {
      super_scale = load_f16(block + S.super_scales() + half * 2 * kHalf);
      if constexpr (S.offset) super_offset = load_f16(block + S.super_offsets() + half * 2 * kHalf);
    }
  }

  // sub: sub-block in the block; group: group in the sub-block
  FB_INLINE void begin_group(int sub, int group) {
    low = block + sub * S.sub_bytes() + half_ * (64 * kLow);
    if constexpr (kHigh > 0) high = block + sub * S.sub_bytes() + S.high_plane() + half_ * (64 * kHigh);
    if constexpr (!S.plain()) {
      if constexpr (S.two_level) {
        const int at = (sub * (kSubBlock / S.group) + group) * kPanel + half_ * kHalf;
        const uint8_t* sub_scale = block + S.scales() + at;
        scale[0] = super_scale * to_f32(S.signed_sub ? i32x16::load_i8(sub_scale) : i32x16::load_u8(sub_scale));
        if constexpr (S.offset) {
          const f32x16 product = super_offset * to_f32(i32x16::load_u8(block + S.offsets() + at));
          offset = as_f32(as_i32(product) ^ i32x16::broadcast(INT32_MIN));
        }
      } else {
        scale[0] = load_f16(block + S.scales() + half_ * 2 * kHalf);
        if constexpr (S.offset) offset = load_f16(block + S.offsets() + half_ * 2 * kHalf);
      }
      if constexpr (!S.offset) offset = scale[0] * f32x16::broadcast(-S.bias);
      unroll<kFields - 1>([&](auto i) FB_INLINE_LAMBDA {
        scale[i + 1] = scale[0] * f32x16::broadcast(1.0f / static_cast<float>(1u << ((i + 1) * kLow)));
      });
    }
  }

  // k within the sub-block, and within the current group
  FB_INLINE f32x16 at(int k) const {
    if constexpr (S.element == Element::f32) return f32x16::load(reinterpret_cast<const float*>(low + 64 * k));
    const i32x16 word = i32x16::load(low + 64 * (k / kLowPerWord));
    if constexpr (S.element == Element::bf16) return k % 2 ? odd_bf16(word) : even_bf16(word);
    if constexpr (S.element == Element::f16) return k % 2 ? odd_f16(word) : even_f16(word);
    if constexpr (S.element == Element::code) return fma_code(k, word);
  }

 private:
  int half_;

  FB_INLINE f32x16 fma_code(int k, i32x16 word) const {
    if constexpr (S.bits == 8) {
      const int byte = k % 4;
      const i32x16 mask = i32x16::broadcast(static_cast<int32_t>(0xffu << (8 * byte)));
      if (byte == 3) return to_f32(word & mask) * scale[3];  // sign and all
      return fma(to_f32((word ^ i32x16::broadcast(static_cast<int32_t>(0x80808080u))) & mask), scale[byte], offset);
    } else {
      const int bit = field_bit(k % kLowPerWord, kLow);
      const int field = bit / kLow % kFields, place = field * kLow;  // bit within the unit
      i32x16 code = shift_right(word, bit - place) & i32x16::broadcast(((1 << kLow) - 1) << place);
      if constexpr (kHigh > 0) {
        const int from = field_bit(k % kHighPerWord, kHigh), to = place + kLow;
        const i32x16 high_word = i32x16::load(high + 64 * (k / kHighPerWord));
        const i32x16 moved = from > to ? shift_right(high_word, from - to) : shift_left(high_word, to - from);
        code = code | (moved & i32x16::broadcast(((1 << kHigh) - 1) << to));
      }
      return fma(to_f32(code), scale[field], offset);
    }
  }
};

}  // namespace fb::FB_ISA
