// Pieces that GGML's blocks have in common. Loops of 16 or 32 bytes, which the compiler turns into vectors.
#pragma once
#include <stdint.h>
#include <string.h>

namespace fb::codec {

// Where the parts of a block go; null where the type has none.
struct Parts {
  uint8_t *codes, *scale, *offset, *super_scale, *super_offset;
};

inline void copy_f16(uint8_t* to, const uint8_t* from) { memcpy(to, from, 2); }

// n bytes -> their low nibbles, then their high ones.
template <int n>
inline void nibbles(const uint8_t* __restrict packed, uint8_t* __restrict codes) {
  for (int i = 0; i < n; ++i) {
    codes[i] = packed[i] & 15;
    codes[i + n] = packed[i] >> 4;
  }
}

template <int n>
inline void subtract(uint8_t* codes, int bias) {
  for (int i = 0; i < n; ++i) codes[i] = static_cast<uint8_t>(codes[i] - bias);
}

// Runs of 32: codes[32 r + i] |= bit `r` of bits[i], moved to `to`.
template <int runs>
inline void add_bit_runs(const uint8_t* __restrict bits, int to, uint8_t* __restrict codes) {
  for (int r = 0; r < runs; ++r)
    for (int i = 0; i < 32; ++i) codes[32 * r + i] |= (bits[i] >> r & 1) << to;
}

// 64 bytes -> 256 two-bit fields: of each 32 bytes, shifts 0, 2, 4, 6 are four consecutive runs of 32.
inline void pair_runs(const uint8_t* __restrict packed, uint8_t* __restrict codes) {
  for (int half = 0; half < 2; ++half)
    for (int r = 0; r < 4; ++r)
      for (int i = 0; i < 32; ++i) codes[128 * half + 32 * r + i] = packed[32 * half + i] >> (2 * r) & 3;
}

// 128 bytes -> 256 nibbles: each 32 bytes are 32 low nibbles, then 32 high ones.
inline void nibble_runs(const uint8_t* __restrict packed, uint8_t* __restrict codes) {
  for (int run = 0; run < 4; ++run) nibbles<32>(packed + 32 * run, codes + 64 * run);
}

}  // namespace fb::codec
