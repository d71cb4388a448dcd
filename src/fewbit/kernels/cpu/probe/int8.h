// probe_int8: kProducts independent products of 8-bit codes and 8-bit activations a round, added up in registers: vpdpbusd where there
// is VNNI, with AVX2 vpmaddubsw and an addition of 16-bit words, which wrap here (a kernel must widen them now and then).
#pragma once
#include <immintrin.h>
#include <string.h>

#include "core/kernel_entry.h"
#include "probe.h"
#include "random.h"

namespace fb::FB_ISA {

#if defined(__AVX512VNNI__)
using Bytes = __m512i;
constexpr int kProducts = 12;
FB_INLINE Bytes multiply_add(Bytes sum, Bytes codes, Bytes x) { return _mm512_dpbusd_epi32(sum, codes, x); }
#else
using Bytes = __m256i;
constexpr int kProducts = 6;
FB_INLINE Bytes multiply_add(Bytes sum, Bytes codes, Bytes x) {
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, x));
}
#endif

FB_INLINE Bytes random_bytes(Random& random) {
  alignas(64) uint64_t words[sizeof(Bytes) / 8];
  for (uint64_t& word : words) word = random.next();
  Bytes bytes;
  memcpy(&bytes, words, sizeof bytes);
  return bytes;
}

inline void probe_int8(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_probe_args& a = *static_cast<const fb_probe_args*>(pointer);
  Random random(static_cast<uint64_t>(worker->thread));
  Bytes sums[kProducts], codes[kProducts], x = random_bytes(random);
  for (int c = 0; c < kProducts; ++c) sums[c] = random_bytes(random), codes[c] = random_bytes(random);
  for (int64_t round = 0; round < a.repeats; ++round) {
    asm volatile("" : "+x"(x));  // or the compiler multiplies once and only adds
#pragma GCC unroll 12
    for (int c = 0; c < kProducts; ++c) sums[c] = multiply_add(sums[c], codes[c], x);
  }
  alignas(64) float out[16] = {};
  for (int c = 1; c < kProducts; ++c) sums[0] = sums[0] ^ sums[c];
  memcpy(out, &sums[0], sizeof(Bytes));
  a.sink[worker->thread * 16] = out[0];
}

}  // namespace fb::FB_ISA

FB_KERNEL_ISA(probe_int8, 1, nullptr, fb::FB_ISA::probe_int8)
