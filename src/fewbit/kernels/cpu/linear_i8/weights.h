// Packed weights of 32 k and a vector of n, as integer codes ready for 8 dot-product steps, with their f32 scales.
#pragma once
#include "scales.h"
#include "steps.h"

namespace fb::FB_ISA {

// A constant repeated in both half words.
constexpr int32_t both_halves(int low16) {
  return static_cast<int32_t>(static_cast<uint32_t>(low16) * 0x10001u);
}

// `count` bits that lie at bit `from` of each half word, moved to bit `to`, everything else cleared.
FB_INLINE Words move_field(Words word, int from, int to, int count) {
  const Words moved = from > to   ? shift_right(word, from - to)
                      : from < to ? shift_left(word, to - from)
                                  : word;
  return moved & Words::broadcast(both_halves(((1 << count) - 1) << to));
}

// codes[step]: byte i of a lane is the stored code of k = step_k(step, i), unsigned; an 8-bit code enters as
// byte_codes makes it.
// The planes start at this vector's first lane; their word rows are 64 bytes (16 n) apart.
template <Scheme S>
FB_INLINE void load_codes(const uint8_t* low_plane, const uint8_t* high_plane, Words* codes) {
  constexpr int low = S.low_bits(), high = S.high_bits();
  if constexpr (low == 8) {
    unroll<kSteps>([&](auto step)
                       FB_INLINE_LAMBDA { codes[step] = byte_codes(Words::load(low_plane + 64 * step)); });
  } else {
    constexpr int fields = 8 / low;  // steps of a word row
    unroll<kSteps>([&](auto step) FB_INLINE_LAMBDA {
      const Words word = Words::load(low_plane + 64 * (step / fields));
      codes[step] = shift_right(word, step % fields * low) & Words::broadcast(0x01010101 * ((1 << low) - 1));
      if constexpr (high > 0) {
        // bytes 0 and 2 are k and k + 1, so their bits lie alike in the two half words; bytes 1 and 3 alike
        constexpr int per_word = 32 / high;
        const int k0 = step_k<S>(step, 0), k1 = step_k<S>(step, 1);
        const Words above = Words::load(high_plane + 64 * (k0 / per_word));
        codes[step] = codes[step] | move_field(above, field_bit(k0 % per_word, high), low, high) |
                      move_field(above, field_bit(k1 % per_word, high), 8 + low, high);
      }
    });
  }
}

// What the codes that load_codes gives are biased by.
template <Scheme S>
constexpr int dot_bias() {
  return S.bits == 8 && kSignedCodes ? 0 : S.bias;
}

// One vector of n within a block, sub-block `sub`.
template <Scheme S>
struct WeightGroup {
  static constexpr int kGroups = kGroup / S.group, kStepsPerGroup = kSteps / kGroups;
  Words codes[kSteps];
  const uint8_t* low_plane;
  Floats scale[kGroups], offset[kGroups];  // w = scale * (code - bias) + offset

  FB_INLINE void load(const uint8_t* block, int sub, int lane) {
    const uint8_t* words = block + sub * S.sub_bytes();
    const int half = lane / kHalf, at = lane % kHalf * 4;
    low_plane = words + half * (64 * S.low_bits()) + at;
    load_codes<S>(low_plane, words + S.high_plane() + half * (64 * S.high_bits()) + at, codes);
    unroll<kGroups>([&](auto g) FB_INLINE_LAMBDA {
      scale[g] = load_scale<S>(block, sub, g, lane);
      if constexpr (S.offset) offset[g] = load_offset<S>(block, sub, g, lane);
    });
  }
};

}  // namespace fb::FB_ISA
