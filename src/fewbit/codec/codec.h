/* Decoding of checkpoint bytes, one function a step of numpy that would be slow: no Python, no state, no threads, so that
 * many threads may call them at once. Portable: what these do is bound by memory soon after g++ has vectorised them.
 * Callers have checked every size. Arrays are contiguous, little-endian, of any alignment. */
#ifndef FEWBIT_CODEC_H
#define FEWBIT_CODEC_H
#include <stdint.h>

#define FB_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

enum { FB_SIGN_NONE = 0, FB_SIGN_OFFSET = 1, FB_SIGN_TWOS = 2 };

/* out u8 [rows, count]: the codes of each row's bit stream, lowest bits first. count * bits <= row_bytes * 8, 1 <= bits <= 8.
 * sign: FB_SIGN_OFFSET subtracts 2^(bits-1), FB_SIGN_TWOS extends the top bit.
 * order: NULL, or u8 [8]: of each eight codes, code j of the output lies at order[j] of the stream; count is then a multiple
 * of 8. */
FB_API void fb_unpack_bits(const uint8_t* packed, int64_t rows, int64_t row_bytes, int32_t bits, int32_t sign,
                           const uint8_t* order, int64_t count, uint8_t* out);

/* in [rows, columns] of elements of 1, 2, 4 or 8 bytes, out [columns, rows]. */
FB_API void fb_transpose(const void* in, int64_t rows, int64_t columns, int32_t element_bytes, void* out);

/* in u8 [down, across, n * k], tiles of a weight whose byte i is element order[i] = row * k + column, out u8 [across * n, down * k]. */
FB_API void fb_place_tiles(const uint8_t* in, int64_t down, int64_t across, int64_t n, int64_t k,
                           const int32_t* order, uint8_t* out);

/* words u32 [words, count], fields of 2, 4 or 8 bits. out u8 [words * 32 / bits, count]: row w * 32/bits + j has field order[j]
 * (of each eight; NULL: j) of words[w]. */
FB_API void fb_unpack_fields(const uint32_t* words, int64_t rows, int64_t count, int32_t bits,
                             const uint8_t* order, uint8_t* out);

/* Rows [count, width], `stride` bytes apart in a mapped file. Returns how many were copied before the file ended. */
FB_API int64_t fb_copy_columns(const uint8_t* mapped, int64_t width, int64_t stride, int64_t count,
                               uint8_t* out);

/* The parts of `count` blocks of the GGML type with this id, NULL where the type has none. 0, or -1 for a type that is not
 * decoded here. */
FB_API int32_t fb_unpack_blocks(int32_t type, const uint8_t* blocks, int64_t count, uint8_t* codes,
                                uint8_t* scale, uint8_t* offset, uint8_t* super_scale, uint8_t* super_offset);

#ifdef __cplusplus
}
#endif
#endif
