// Decoder of layout n32parts: the interface of decode.h over parts that lie apart.
//
// Integers: fma(code, scale, offset) with the offset, -center * scale or -zero * scale. One rounding, that of the fma, if the
// product is exact: center is a power of two, and zero points come with scales of 16 bits only.
#pragma once
#include "decode.h"
#include "form.h"
#include "simd/lookup.h"

namespace fb::FB_ISA {

template <Scheme S>
  requires(S.apart)
struct Decoder<S> {
  static constexpr int kLow = S.low_bits(), kHigh = S.high_bits();
  static constexpr int kFields = 4;
  static constexpr int kLowPerWord = 32 / kLow, kHighPerWord = kHigh ? 32 / kHigh : 8;
  static constexpr int kPeriod = kLowPerWord > kHighPerWord ? kLowPerWord : kHighPerWord;
  static constexpr bool kInteger = S.element == Element::code;
  static constexpr int kGroupsPerStep = kSubBlock / S.group;

  FB_INLINE void begin_panel(const fb_linear_args& args, const uint8_t* panel) {
    form_ = reinterpret_cast<const Form*>(args.weight);
    const PanelParts parts(*form_, S.panel_bytes(args.k));
    panel_ = panel;
    scales_ = panel + parts.scales, extras_ = panel + parts.extras, supers_ = panel + parts.supers;
  }

  FB_INLINE void begin_block(const uint8_t* packed, int half) {
    block_ = packed;
    half_ = half;
    step_ = (packed - panel_) / S.sub_bytes();
    if (form_->has_super) super_ = f32x16::load(reinterpret_cast<const float*>(supers_) + half * kHalf);
  }

  FB_INLINE void begin_sub_block(int) {
    low_ = block_ + half_ * (64 * kLow);
    if constexpr (kHigh > 0) high_ = block_ + S.high_plane() + half_ * (64 * kHigh);
  }

  FB_INLINE void begin_group(int group) {
    const int64_t at = ((step_ * kGroupsPerStep + group) >> form_->group_shift) * kPanel + half_ * kHalf;
    const int64_t bytes = scale_bytes(form_->scale_kind);
    f32x16 scale = load_part(form_->scale_kind, scales_ + at * bytes);
    if (form_->has_super) scale = scale * super_;
    if constexpr (kInteger) {
      if (form_->extra_kind == kZeroPoint)
        offset_ = scale * (f32x16::zero() - to_f32(i32x16::load_u8(extras_ + at)));
      else if (form_->extra_kind == kOffset)
        offset_ = load_part(form_->scale_kind, extras_ + at * bytes);
      else
        offset_ = scale * f32x16::broadcast(static_cast<float>(-form_->center));
    }
    if constexpr (S.element == Element::e4m3) scale = scale * f32x16::broadcast(256.0f);
    scale_[0] = scale;
    if constexpr (kInteger)
      unroll<kFields - 1>([&](auto i) FB_INLINE_LAMBDA {
        scale_[i + 1] = scale * f32x16::broadcast(1.0f / static_cast<float>(1u << ((i + 1) * kLow % 32)));
      });
  }

  FB_INLINE f32x16 at(int i) const {
    const i32x16 word = i32x16::load(low_ + 64 * (i / kLowPerWord));
    if constexpr (S.element == Element::table) {
      const int bit = field_bit(i % kLowPerWord, kLow);
      return look_up16(form_->table, shift_right(word, bit) & i32x16::broadcast(15)) * scale_[0];
    } else if constexpr (S.bits == 8) {
      const int byte = i % 4;
      if constexpr (kInteger) {
        if (byte == 3) return fma(to_f32(shift_right(word, 24)), scale_[0], offset_);
        return fma(to_f32(word & i32x16::broadcast(0xff << (8 * byte))), scale_[byte], offset_);
      }
      const i32x16 byte1 = byte == 0   ? shift_left(word, 8)
                           : byte == 1 ? word
                                       : shift_right(word, 8 * (byte - 1));
      if constexpr (S.element == Element::e4m3) return e4m3_over_256(byte1) * scale_[0];
      return low_f16(byte1 & i32x16::broadcast(0xff00)) * scale_[0];  // e5m2 is the upper byte of an f16
    } else {
      const int bit = field_bit(i % kLowPerWord, kLow);
      const int field = bit / kLow % kFields, place = field * kLow;
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

  FB_INLINE void advance() {
    low_ += 64 * (kPeriod / kLowPerWord);
    if constexpr (kHigh > 0) high_ += 64 * (kPeriod / kHighPerWord);
  }

 private:
  const Form* form_;
  const uint8_t *panel_, *scales_, *extras_, *supers_;
  const uint8_t *block_, *low_, *high_;
  int64_t step_;
  int half_;
  f32x16 super_, scale_[kFields], offset_;
};

}  // namespace fb::FB_ISA
