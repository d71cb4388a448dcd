// Lines brought into L1 between tile instructions.
#pragma once
#include "simd/isa.h"

namespace fb::FB_ISA {

template <int kLines>
FB_INLINE void fetch_lines(const uint8_t* p) {
  for (int i = 0; i < kLines; ++i)
#if defined(__AMX_TILE__)
    asm volatile("prefetcht0 %0" ::"m"(p[i * 64]));  // stays where it is written
#else
    __builtin_prefetch(p + i * 64);
#endif
}

}  // namespace fb::FB_ISA
