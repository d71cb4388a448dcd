// The eight AMX tiles (16 rows of 64 bytes) as a value: `Tiles` is the hardware where __AMX_TILE__ is on, and elsewhere an emulation
// in the exact order and rounding of the instruction set manual, so that a tile kernel's logic runs anywhere, bit for bit.
//
//   Tiles tiles;  tiles.configure(config);  tiles.load<0>(p, stride_bytes);  tiles.dot_bf16<C, A, B>();  tiles.store<C>(p, stride_bytes);
//
// dot<C, A, B>: C[m, n] += sum over k of A[m, k] * B[k, n].  A: M rows of K elements.  B: K/2 rows (bf16, VNNI2) or K/4 rows (8 bit,
// VNNI4) of N words.  C: M rows of N f32 or i32.  M, N, K come from the configured shapes; tile numbers are template arguments since
// the hardware encodes them in the instruction. Stores are not forwarded to tile loads: write operands well before loading them.
#pragma once
#include <stdint.h>
#include <string.h>

#include "isa.h"

namespace fb::FB_ISA {

constexpr int kTileRows = 16, kTileRowBytes = 64, kTileBytes = 1024;

struct alignas(64) TileConfig {  // the memory operand of ldtilecfg
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  constexpr TileConfig& shape(int tile, int tile_rows, int tile_row_bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(tile_row_bytes);
    return *this;
  }
  // All eight tiles 16 x 64 B.
  static constexpr TileConfig full() {
    TileConfig c;
    for (int t = 0; t < 8; ++t) c.shape(t, kTileRows, kTileRowBytes);
    return c;
  }
};
static_assert(sizeof(TileConfig) == 64);

#if defined(__AMX_TILE__)

// volatile keeps the order among tile instructions; "memory" keeps plain stores before tile loads that read them.
struct HardwareTiles {
  FB_INLINE void configure(const TileConfig& config) { asm volatile("ldtilecfg %0" ::"m"(config)); }
  FB_INLINE void release() { asm volatile("tilerelease"); }
  template <int T>
  FB_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T>
  FB_INLINE void load(const void* p, int64_t stride_bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride_bytes), "i"(T) : "memory");
  }
  template <int T>
  FB_INLINE void load_once(const void* p, int64_t stride_bytes) {  // hint: not read again soon
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride_bytes), "i"(T) : "memory");
  }
  template <int T>
  FB_INLINE void store(void* p, int64_t stride_bytes) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(stride_bytes), "i"(T) : "memory");
  }
  template <int C, int A, int B>
  FB_INLINE void dot_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
  template <int C, int A, int B>
  FB_INLINE void dot_s8s8() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
  template <int C, int A, int B>
  FB_INLINE void dot_s8u8() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
  template <int C, int A, int B>
  FB_INLINE void dot_u8s8() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
  template <int C, int A, int B>
  FB_INLINE void dot_u8u8() {
    asm volatile("tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};
using Tiles = HardwareTiles;

#else

FB_INLINE float flush_subnormal(float x) {  // keeps the sign
  return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x;
}

struct EmulatedTiles {
  TileConfig config;
  uint8_t data[8][kTileRows][kTileRowBytes];

  void configure(const TileConfig& c) {
    config = c;
    memset(data, 0, sizeof data);
  }
  void release() {}
  template <int T>
  void zero() {
    memset(data[T], 0, kTileBytes);
  }
  template <int T>
  void load(const void* p, int64_t stride_bytes) {
    zero<T>();
    for (int r = 0; r < config.rows[T]; ++r)
      memcpy(data[T][r], static_cast<const uint8_t*>(p) + r * stride_bytes, config.row_bytes[T]);
  }
  template <int T>
  void load_once(const void* p, int64_t stride_bytes) {
    load<T>(p, stride_bytes);
  }
  template <int T>
  void store(void* p, int64_t stride_bytes) const {
    for (int r = 0; r < config.rows[T]; ++r)
      memcpy(static_cast<uint8_t*>(p) + r * stride_bytes, data[T][r], config.row_bytes[T]);
  }

  template <typename V>
  V get(int tile, int row, int i) const {
    V v;
    memcpy(&v, data[tile][row] + i * static_cast<int>(sizeof(V)), sizeof(V));
    return v;
  }
  template <typename V>
  void set(int tile, int row, int i, V v) {
    memcpy(data[tile][row] + i * static_cast<int>(sizeof(V)), &v, sizeof(V));
  }

  // Per C row and n: two running sums over the pairs of k, for the even and the odd elements, each step one fused multiply-add;
  // then even + odd, then C += that. Subnormal inputs and results count as zero everywhere (DAZ, FTZ); round to nearest even.
  template <int C, int A, int B>
  [[gnu::noinline]] void dot_bf16() {
    for (int m = 0; m < config.rows[C]; ++m)
      for (int n = 0; n < config.row_bytes[C] / 4; ++n) {
        float sum[2] = {0, 0};
        for (int k = 0; k < config.row_bytes[A] / 4; ++k)
          for (int odd = 0; odd < 2; ++odd)
            sum[odd] = flush_subnormal(__builtin_fmaf(widened(get<uint16_t>(A, m, 2 * k + odd)),
                                                      widened(get<uint16_t>(B, k, 2 * n + odd)), sum[odd]));
        const float both = flush_subnormal(sum[0] + sum[1]);
        set<float>(C, m, n, flush_subnormal(flush_subnormal(get<float>(C, m, n)) + both));
      }
    clear_beyond<C>();
  }
  template <int C, int A, int B>
  [[gnu::noinline]] void dot_s8s8() {
    dot_8bit<C, A, B, int8_t, int8_t>();
  }
  template <int C, int A, int B>
  [[gnu::noinline]] void dot_s8u8() {
    dot_8bit<C, A, B, int8_t, uint8_t>();
  }
  template <int C, int A, int B>
  [[gnu::noinline]] void dot_u8s8() {
    dot_8bit<C, A, B, uint8_t, int8_t>();
  }
  template <int C, int A, int B>
  [[gnu::noinline]] void dot_u8u8() {
    dot_8bit<C, A, B, uint8_t, uint8_t>();
  }

 private:
  static float widened(uint16_t bf16) {
    const uint32_t word = static_cast<uint32_t>(bf16) << 16;
    float x;
    memcpy(&x, &word, 4);
    return flush_subnormal(x);
  }
  template <int C, int A, int B, typename VA, typename VB>
  void dot_8bit() {  // i32 sums wrap
    for (int m = 0; m < config.rows[C]; ++m)
      for (int n = 0; n < config.row_bytes[C] / 4; ++n) {
        uint32_t sum = get<uint32_t>(C, m, n);
        for (int k = 0; k < config.row_bytes[A]; ++k)
          sum += static_cast<uint32_t>(get<VA>(A, m, k) * get<VB>(B, k / 4, 4 * n + k % 4));
        set<uint32_t>(C, m, n, sum);
      }
    clear_beyond<C>();
  }
  template <int T>
  void clear_beyond() {
    for (int r = 0; r < kTileRows; ++r) {
      const int kept = r < config.rows[T] ? config.row_bytes[T] : 0;
      memset(data[T][r] + kept, 0, static_cast<size_t>(kTileRowBytes - kept));
    }
  }
};
using Tiles = EmulatedTiles;

#endif

}  // namespace fb::FB_ISA
