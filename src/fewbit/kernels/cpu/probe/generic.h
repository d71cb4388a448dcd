// probe_read: every byte of the thread's share once a pass, 8 independent streams of loads per loop and nothing else.
// probe_fma:  kChains independent fused multiply-adds a round, all in registers: enough to hide a latency of 5 cycles twice over.
// probe_fill: writes random bytes into the share, so that each thread's part lies in its own node's memory.
#pragma once
#include <string.h>

#include "core/kernel_entry.h"
#include "probe.h"
#include "random.h"
#include "simd/f32x16.h"
#include "simd/share.h"

namespace fb::FB_ISA {

constexpr int kStreams = 8;
#if defined(__AVX512F__)
constexpr int kChains = 12;  // of 16 lanes; 32 registers
#else
constexpr int kChains = 6;  // of 16 lanes, two registers each with AVX2; 16 registers
#endif

inline void probe_fill(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_probe_args& a = *static_cast<const fb_probe_args*>(pointer);
  const Share share = share_of(a.bytes / 64, worker);
  Random random(static_cast<uint64_t>(worker->thread));
  for (int64_t i = share.begin * 64; i < share.end * 64; i += 8) {
    const uint64_t word = random.next();
    memcpy(a.data + i, &word, 8);
  }
}

inline void probe_read(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_probe_args& a = *static_cast<const fb_probe_args*>(pointer);
  const Share share = share_of(a.bytes / (64 * kStreams), worker);
  i32x16 all[kStreams];
  for (i32x16& x : all) x = i32x16::broadcast(-1);
  for (int64_t pass = 0; pass < a.repeats; ++pass)
    for (int64_t unit = share.begin; unit < share.end; ++unit)
#pragma GCC unroll 8
      for (int s = 0; s < kStreams; ++s) all[s] = all[s] & i32x16::load(a.data + (unit * kStreams + s) * 64);
  for (int s = 1; s < kStreams; ++s) all[0] = all[0] & all[s];
  all[0].store(a.sink + worker->thread * 16);
}

inline void probe_fma(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_probe_args& a = *static_cast<const fb_probe_args*>(pointer);
  alignas(64) float factors[kLanes], terms[kLanes];
  Random random(static_cast<uint64_t>(worker->thread));
  for (int lane = 0; lane < kLanes; ++lane) {
    factors[lane] = random.between(0.25f, 0.75f);  // so the sums stay below 8
    terms[lane] = random.between(0.5f, 2.0f);
  }
  const f32x16 factor = f32x16::load(factors), term = f32x16::load(terms);
  f32x16 sums[kChains];
  for (f32x16& sum : sums) sum = term;
  for (int64_t round = 0; round < a.repeats; ++round)
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = fma(sums[c], factor, term);
  for (int c = 1; c < kChains; ++c) sums[0] = sums[0] + sums[c];
  sums[0].store(a.sink + worker->thread * 16);
}

}  // namespace fb::FB_ISA

FB_KERNEL_ISA(probe_read, 1, nullptr, fb::FB_ISA::probe_read)
FB_KERNEL_ISA(probe_fma, 1, nullptr, fb::FB_ISA::probe_fma)
