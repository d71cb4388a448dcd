// The order in which 8-bit dot products take the 32 k of a group: 8 steps of 4 k, a step being one 32-bit word per n.
//
// A packed word of a b-bit plane holds 32/b fields, even k in its low half and odd k in its high half. One shift and one mask
// by 0x0f0f0f0f (or 0x03030303) therefore leave four codes of one n as four bytes, and the k of these bytes are
//   4-bit low plane, word row r, step 2r + i:   8r + 2i + {0, 4, 1, 5}
//   2-bit low plane, word row r, step 4r + i:  16r + 2i + {0, 8, 1, 9}
//   8-bit plane, step r:                        4r + {0, 1, 2, 3}
// Integer sums are exact in any order, so the weights stay as they are and the activations are stored in this order once.
// A run of 16 k is four whole steps in each case: groups of 16 need nothing special.
#pragma once
#include "linear/scheme.h"

namespace fb::FB_ISA {

constexpr int kGroup = 32;     // k that 8-bit activations share a scale over
constexpr int kSteps = 8;      // of a group of 32 k
constexpr int kStepBytes = 4;  // k of a step

template <Scheme S>
constexpr int step_k(int step, int byte) {
  constexpr int low = S.low_bits();
  if (low == 8) return 4 * step + byte;
  constexpr int fields = 8 / low;  // steps that one word row gives: 2 or 4
  return step / fields * (32 / low) + step % fields * 2 + byte / 2 + byte % 2 * (16 / low);
}

// order[16h + i] = k - 16h of stored byte i of half h: both halves of a group permute alike (see above).
struct ByteOrder {
  uint8_t k[16];
};
template <Scheme S>
constexpr ByteOrder byte_order() {
  ByteOrder order{};
  for (int i = 0; i < 16; ++i) order.k[i] = static_cast<uint8_t>(step_k<S>(i / kStepBytes, i % kStepBytes));
  return order;
}

constexpr bool is_permutation_of_16(ByteOrder order) {
  unsigned seen = 0;
  for (uint8_t k : order.k) seen |= k < 16 ? 1u << k : 0;
  return seen == 0xffff;
}
static_assert(is_permutation_of_16(byte_order<u4g32o>()) && is_permutation_of_16(byte_order<i6g16t>()));
static_assert(is_permutation_of_16(byte_order<u2g16ot>()) && is_permutation_of_16(byte_order<i8g32>()));

}  // namespace fb::FB_ISA

// every scheme of integer codes
#define FB_CODE_SCHEMES(X) \
  X(i4g32, n32k32)         \
  X(u4g32o, n32k32)        \
  X(i5g32, n32k32)         \
  X(u5g32o, n32k32)        \
  X(i8g32, n32k32)         \
  X(u2g16ot, n32k256) X(i3g16t, n32k256) X(u4g32ot, n32k256) X(u5g32ot, n32k256) X(i6g16t, n32k256)
