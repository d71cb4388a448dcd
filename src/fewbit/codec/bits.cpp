// Bit streams to one code a byte: eight codes are `bits` bytes, spread over the eight bytes of a word in three steps.
#include <string.h>

#include "codec.h"

namespace {

constexpr uint64_t every(int width, uint64_t field) {  // `field` at each multiple of `width` bits
  uint64_t word = 0;
  for (int at = 0; at < 64; at += width) word |= field << at;
  return word;
}

// 8 b bits -> b bits at each byte. Each step parts runs of fields: the upper half of a run moves up, to a run of its own.
template <int b>
uint64_t spread(uint64_t word) {
  if constexpr (b == 8) return word;
  constexpr uint64_t kFour = (uint64_t(1) << 4 * b) - 1;
  constexpr uint64_t kTwo = every(32, (uint64_t(1) << 2 * b) - 1), kOne = every(16, (uint64_t(1) << b) - 1);
  word = (word & kFour) | (word & ~kFour) << (32 - 4 * b);
  word = (word & kTwo) | (word & ~kTwo) << (16 - 2 * b);
  return (word & kOne) | (word & ~kOne) << (8 - b);
}

// Eight codes of b bits as signed bytes: code ^ flip, minus `less`; the borrow is kept out of the next byte.
template <int b>
uint64_t with_sign(uint64_t codes, int sign) {
  constexpr uint64_t kHalf = every(8, uint64_t(1) << (b - 1)), kTop = every(8, 0x80);
  if (sign == FB_SIGN_NONE) return codes;
  if constexpr (b == 8) return sign == FB_SIGN_OFFSET ? codes ^ kTop : codes;
  if (sign == FB_SIGN_TWOS) codes ^= kHalf;
  return ((codes | kTop) - kHalf) ^ kTop;
}

// Widths that divide a byte, in order: loops that become vector interleaves.
template <int b>
void unpack_bytes(const uint8_t* __restrict packed, int sign, int64_t bytes, uint8_t* __restrict out) {
  const uint8_t flip = sign == FB_SIGN_TWOS ? 1 << (b - 1) : 0,
                less = sign == FB_SIGN_NONE ? 0 : 1 << (b - 1);
  constexpr int kFields = 8 / b;
  for (int64_t i = 0; i < bytes; ++i)
    for (int f = 0; f < kFields; ++f)
      out[kFields * i + f] = static_cast<uint8_t>(((packed[i] >> (b * f) & ((1 << b) - 1)) ^ flip) - less);
}

template <int b>
void unpack_row(const uint8_t* packed, const uint8_t* end, int sign, const uint8_t* order, int64_t count,
                uint8_t* out) {
  int64_t at = 0;
  if constexpr (b == 2 || b == 4)
    if (!order) {
      const int64_t bytes = count * b / 8 / b * b;  // whole eights
      unpack_bytes<b>(packed, sign, bytes, out);
      packed += bytes;
      at = bytes * 8 / b;
    }
  for (; at < count; at += 8, packed += b) {
    uint64_t word = 0;
    if (end - packed >= 8)
      memcpy(&word, packed, 8);  // bits beyond the eight codes are masked away
    else
      for (int i = 0; i < b && packed + i < end; ++i) word |= uint64_t(packed[i]) << (8 * i);
    if constexpr (b < 8) word &= (uint64_t(1) << (8 * b)) - 1;
    word = with_sign<b>(spread<b>(word), sign);
    if (order) {
      uint8_t codes[8];
      memcpy(codes, &word, 8);
      for (int j = 0; j < 8; ++j) out[at + j] = codes[order[j]];
    } else {
      memcpy(out + at, &word, count - at < 8 ? count - at : 8);
    }
  }
}

template <int b>
void unpack(const uint8_t* packed, int64_t rows, int64_t row_bytes, int sign, const uint8_t* order,
            int64_t count, uint8_t* out) {
  const uint8_t* end = packed + rows * row_bytes;
  for (int64_t row = 0; row < rows; ++row)
    unpack_row<b>(packed + row * row_bytes, end, sign, order, count, out + row * count);
}

template <int b>
void unpack_fields(const uint32_t* words, int64_t rows, int64_t count, const uint8_t* order, uint8_t* out) {
  constexpr uint32_t kMask = (1u << b) - 1;
  for (int64_t row = 0; row < rows; ++row)
    for (int j = 0; j < 32 / b; ++j, out += count) {
      const int shift = b * (order ? j / 8 * 8 + order[j % 8] : j);
      const uint32_t* __restrict from = words + row * count;
      uint8_t* __restrict to = out;
      for (int64_t i = 0; i < count; ++i) to[i] = from[i] >> shift & kMask;
    }
}

}  // namespace

void fb_unpack_bits(const uint8_t* packed, int64_t rows, int64_t row_bytes, int32_t bits, int32_t sign,
                    const uint8_t* order, int64_t count, uint8_t* out) {
  constexpr decltype(&unpack<1>) kByBits[] = {unpack<1>, unpack<2>, unpack<3>, unpack<4>,
                                              unpack<5>, unpack<6>, unpack<7>, unpack<8>};
  kByBits[bits - 1](packed, rows, row_bytes, sign, order, count, out);
}

void fb_unpack_fields(const uint32_t* words, int64_t rows, int64_t count, int32_t bits, const uint8_t* order,
                      uint8_t* out) {
  const auto unpack = bits == 2 ? unpack_fields<2> : bits == 4 ? unpack_fields<4> : unpack_fields<8>;
  unpack(words, rows, count, order, out);
}
