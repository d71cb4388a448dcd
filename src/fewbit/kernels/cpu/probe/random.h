// Random operands, since a unit draws less power and runs faster on zeros.
#pragma once
#include <stdint.h>

#include "simd/isa.h"

namespace fb::FB_ISA {

struct Random {  // splitmix64
  uint64_t state;
  FB_INLINE explicit Random(uint64_t seed) : state(seed) {}
  FB_INLINE uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  FB_INLINE float between(float low, float high) {
    return low + (high - low) * static_cast<float>(next() >> 40) * 0x1p-24f;
  }
};

}  // namespace fb::FB_ISA
