// Lanes of the integer dot product without vector instructions: 16 at a time, as arrays.
#pragma once
#include "simd/f32x16.h"

namespace fb::FB_ISA {

using Words = i32x16;
using Floats = f32x16;
constexpr int kWordLanes = 16;
constexpr bool kSignedCodes =
    false;  // 8-bit codes enter as code + 128, and the activations' sum takes 128 away again

FB_INLINE Words byte_codes(Words word) { return word ^ Words::broadcast(static_cast<int32_t>(0x80808080u)); }
FB_INLINE Floats load_f16_lanes(const void* p) { return load_f16(p); }

// sum[lane] + sum over `steps` and bytes of code (unsigned) * x (signed)
template <int steps, int>
FB_INLINE Words dot(const Words* code, const void*, const int8_t* x, int32_t start) {
  Words sum = Words::broadcast(start);
  for (int step = 0; step < steps; ++step)
    for (int lane = 0; lane < 16; ++lane)
      for (int byte = 0; byte < 4; ++byte)
        sum.v[lane] += static_cast<int32_t>(static_cast<uint32_t>(code[step].v[lane]) >> (8 * byte) & 0xff) *
                       x[4 * step + byte];
  return sum;
}

FB_INLINE void store_bytes(int8_t* out, i32x16 a, i32x16 b, const uint8_t* order) {
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<int8_t>(a.v[order[i]]);
    out[16 + i] = static_cast<int8_t>(b.v[order[i]]);
  }
}

}  // namespace fb::FB_ISA
