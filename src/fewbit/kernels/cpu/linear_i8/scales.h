// The f32 scale and offset of a weight group, for a vector of n: w = scale * (code - bias) + offset. Every product is exact.
#pragma once
#include "lanes.h"
#include "linear/scheme.h"

namespace fb::FB_ISA {

// Group g (of 16 or 32 k) of sub-block `sub`, lanes from n = `lane` of the panel.
template <Scheme S>
FB_INLINE Floats load_scale(const uint8_t* block, int sub, int g, int lane) {
  if constexpr (S.two_level) {
    const uint8_t* sub_scale = block + S.scales() + (sub * (kSubBlock / S.group) + g) * kPanel + lane;
    return load_f16_lanes(block + S.super_scales() + 2 * lane) *
           to_f32(S.signed_sub ? Words::load_i8(sub_scale) : Words::load_u8(sub_scale));
  } else {
    return load_f16_lanes(block + S.scales() + 2 * lane);
  }
}

template <Scheme S>
FB_INLINE Floats load_offset(const uint8_t* block, int sub, int g, int lane) {
  if constexpr (S.two_level) {  // the scheme subtracts it
    const uint8_t* sub_offset = block + S.offsets() + (sub * (kSubBlock / S.group) + g) * kPanel + lane;
    return load_f16_lanes(block + S.super_offsets() + 2 * lane) * Floats::broadcast(-1.0f) *
           to_f32(Words::load_u8(sub_offset));
  } else {
    return load_f16_lanes(block + S.offsets() + 2 * lane);
  }
}

}  // namespace fb::FB_ISA
