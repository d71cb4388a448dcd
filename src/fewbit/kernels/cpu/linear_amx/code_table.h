// Packed codes -> BF16 integers (code - bias) in tile operand order [k/2][16 n][k parity], by table look-up.
//
// In a packed plane of b < 8 bits a half word already belongs to (n, k parity) and holds the codes of consecutive k/2 from bit 0
// up. So for each k/2 one shift brings 32 codes into the low bits of 32 half words, and one vpermw looks all of them up.
// Bits above the index are other codes: vpermw ignores all but 5 bits (vpermi2w 6), and shorter tables are repeated.
#pragma once
#include "bf16_pairs.h"
#include "linear/scheme.h"
#include "simd/unroll.h"

namespace fb::FB_ISA {

constexpr uint16_t bf16_of_integer(int value) {  // |value| <= 256
  if (value == 0) return 0;
  unsigned magnitude = static_cast<unsigned>(value < 0 ? -value : value), exponent = 0;
  while (magnitude >> (exponent + 1)) ++exponent;
  const unsigned fraction = (magnitude << 7 >> exponent) & 0x7f;
  return static_cast<uint16_t>((value < 0 ? 0x8000u : 0u) | (127 + exponent) << 7 | fraction);
}
static_assert(bf16_of_integer(1) == 0x3f80 && bf16_of_integer(-3) == 0xc040 && bf16_of_integer(31) == 0x41f8);

struct alignas(64) CodeTable {
  uint16_t value[64];
};
template <Scheme S>
constexpr CodeTable code_table() {
  CodeTable table{};
  for (int i = 0; i < 64; ++i) table.value[i] = bf16_of_integer(i % (1 << S.bits) - S.bias);
  return table;
}

// Both half words of each lane through the table; `wide`: 6 bits of index count, else 5.
template <bool wide>
FB_INLINE i32x16 look_up(const CodeTable& table, i32x16 index) {
#ifdef __AVX512BW__
  const __m512i low = _mm512_load_si512(table.value);
  if constexpr (wide)
    return {_mm512_permutex2var_epi16(low, index.v, _mm512_load_si512(table.value + 32))};
  else
    return {_mm512_permutexvar_epi16(index.v, low)};
#else
  uint16_t half[32];
  index.store(half);
  for (uint16_t& h : half) h = table.value[h & (wide ? 63 : 31)];
  return i32x16::load(half);
#endif
}

// The 32 k of a sub-block and one half of 16 n -> 16 tile rows.
template <Scheme S>
FB_INLINE void code_pairs(const uint8_t* sub_block, int half, uint8_t* tile) {
  constexpr int low_bits = S.low_bits(), high_bits = S.high_bits();
  const uint8_t* low = sub_block + half * (64 * low_bits);
  if constexpr (
      S.bits ==
      8) {  // word r holds k = 4r .. 4r + 3 as two's complement; a float of 8 significant bits truncates exactly
    unroll<16>([&](auto row) FB_INLINE_LAMBDA {
      const i32x16 word = i32x16::load(low + row / 2 * 64);
      const int byte = row % 2 * 2;
      const f32x16 even = to_f32(shift_right_signed(shift_left(word, 24 - 8 * byte), 24));
      const f32x16 odd = to_f32(shift_right_signed(shift_left(word, 16 - 8 * byte), 24));
      truncated_pair(even, odd).store(tile + row * 64);
    });
  } else {
    static constexpr CodeTable table = code_table<S>();
    const uint8_t* high = sub_block + S.high_plane() + half * (64 * high_bits);
    unroll<16>([&](auto row) FB_INLINE_LAMBDA {
      constexpr int low_fields = 16 / low_bits;  // of a half word
      i32x16 index = shift_right(i32x16::load(low + row / low_fields * 64), row % low_fields * low_bits);
      if constexpr (
          high_bits >
          0) {  // what a left shift carries into the next half word is below low_bits, where `index` counts
        constexpr int high_fields = 16 / high_bits;
        const i32x16 word = i32x16::load(high + row / high_fields * 64);
        const int from = row % high_fields * high_bits;
        const i32x16 moved =
            from > low_bits ? shift_right(word, from - low_bits) : shift_left(word, low_bits - from);
        index = merge(i32x16::broadcast(((1 << low_bits) - 1) * 0x10001), index, moved);
      }
      look_up<(S.bits > 5)>(table, index).store(tile + row * 64);
    });
  }
}

}  // namespace fb::FB_ISA
