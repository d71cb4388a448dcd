// Matrices that lie across or in tiles, in pieces that stay in the first cache: a strided walk would miss on every element.
#include <string.h>

#include "codec.h"

namespace {
constexpr int64_t kLine = 64;  // bytes
constexpr int64_t kRows =
    32;  // of a tile as wide as a cache line: rows a power of two apart share few places of the cache

int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T>
void transpose_tile(const uint8_t* in, int64_t in_stride, int64_t rows, int64_t columns, uint8_t* out,
                    int64_t out_stride) {
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r)
      memcpy(out + c * out_stride + r * sizeof(T), in + r * in_stride + c * sizeof(T), sizeof(T));
}

// 8 x 8 bytes in eight words: halves, quarters and bytes off the diagonal change places.
void transpose_8x8(const uint8_t* in, int64_t in_stride, uint8_t* out, int64_t out_stride) {
  uint64_t row[8];
  for (int i = 0; i < 8; ++i) memcpy(&row[i], in + i * in_stride, 8);
  constexpr uint64_t kLow[] = {0x00000000FFFFFFFFull, 0x0000FFFF0000FFFFull, 0x00FF00FF00FF00FFull};
  for (int step = 0, apart = 4; apart; ++step, apart /= 2)
    for (int i = 0; i < 8; ++i)
      if (!(i & apart)) {
        const uint64_t other = (row[i] >> (8 * apart) ^ row[i + apart]) & kLow[step];
        row[i + apart] ^= other;
        row[i] ^= other << (8 * apart);
      }
  for (int i = 0; i < 8; ++i) memcpy(out + i * out_stride, &row[i], 8);
}

template <>
void transpose_tile<uint8_t>(const uint8_t* in, int64_t in_stride, int64_t rows, int64_t columns,
                             uint8_t* out, int64_t out_stride) {
  const int64_t whole_rows = rows & ~int64_t(7), whole_columns = columns & ~int64_t(7);
  for (int64_t c = 0; c < whole_columns; c += 8)
    for (int64_t r = 0; r < whole_rows; r += 8)
      transpose_8x8(in + r * in_stride + c, in_stride, out + c * out_stride + r, out_stride);
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = c < whole_columns ? whole_rows : 0; r < rows; ++r)
      out[c * out_stride + r] = in[r * in_stride + c];
}

template <class T>
void transpose(const uint8_t* in, int64_t rows, int64_t columns, uint8_t* out) {
  const int64_t in_stride = columns * sizeof(T), out_stride = rows * sizeof(T);
  constexpr int64_t kColumns = kLine / sizeof(T);
  for (int64_t r = 0; r < rows; r += kRows)
    for (int64_t c = 0; c < columns; c += kColumns)
      transpose_tile<T>(in + r * in_stride + c * sizeof(T), in_stride, smaller(kRows, rows - r),
                        smaller(kColumns, columns - c), out + c * out_stride + r * sizeof(T), out_stride);
}

}  // namespace

void fb_transpose(const void* in, int64_t rows, int64_t columns, int32_t element_bytes, void* out) {
  const uint8_t* from = static_cast<const uint8_t*>(in);
  uint8_t* to = static_cast<uint8_t*>(out);
  switch (element_bytes) {
    case 1:
      return transpose<uint8_t>(from, rows, columns, to);
    case 2:
      return transpose<uint16_t>(from, rows, columns, to);
    case 4:
      return transpose<uint32_t>(from, rows, columns, to);
    default:
      return transpose<uint64_t>(from, rows, columns, to);
  }
}

void fb_place_tiles(const uint8_t* in, int64_t down, int64_t across, int64_t n, int64_t k,
                    const int32_t* order, uint8_t* out) {
  // As many tiles below each other as fill a cache line are put together first, so that each line is written once.
  constexpr int64_t kMost = 4096;  // n * k is at most that
  const int64_t together = k < kLine ? kLine / k : 1;
  uint8_t rows[4 * kMost];
  int32_t place[kMost];
  const int64_t count = smaller(together, 4 * kMost / (n * k)), width = count * k;
  for (int64_t i = 0; i < n * k; ++i) place[i] = static_cast<int32_t>(order[i] / k * width + order[i] % k);
  for (int64_t a = 0; a < across; ++a)
    for (int64_t d = 0; d < down; d += count) {
      const int64_t tiles = smaller(count, down - d);
      for (int64_t t = 0; t < tiles; ++t) {
        const uint8_t* from = in + ((d + t) * across + a) * n * k;
        for (int64_t i = 0; i < n * k; ++i) rows[place[i] + t * k] = from[i];
      }
      for (int64_t row = 0; row < n; ++row)
        memcpy(out + ((a * n + row) * down + d) * k, rows + row * width, tiles * k);
    }
}
