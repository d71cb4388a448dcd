// Up to 6 bits: vpmaddubsw adds two products into 16 bits, saturating, and |x| <= 128, so that `chain` results fit in 16 bits:
//   b = 2, 3, 4: 8 * 2 * 15 * 128 = 30720;  b = 5: 4 * 2 * 31 * 128 = 31744;  b = 6: 2 * 2 * 63 * 128 = 32256.   All < 32767.
// 8 bits: one result alone could reach 2 * 255 * 128, so codes and activations are widened to 16 bits and vpmaddwd adds two
// products into 32: as many instructions (vpsignb, vpmaddubsw, vpmaddwd, vpaddd for 32 products, which -128 would overflow).
#pragma once

namespace fb::FB_ISA {

template <int bits>
struct RowSum {
  static constexpr int kChain = bits <= 4 ? 8 : bits == 5 ? 4 : 2;
  using X = int8_t;
  using Code = Words;
  __m256i pairs, sum;

  static FB_INLINE Code code(Words word) { return word; }
  FB_INLINE void clear() { sum = _mm256_setzero_si256(); }
  FB_INLINE void add(int step, Code code, const X* x) {
    const __m256i products = _mm256_maddubs_epi16(code.v, broadcast_step(x, step));
    pairs = step % kChain == 0 ? products : _mm256_add_epi16(pairs, products);
    if (step % kChain == kChain - 1)
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  FB_INLINE Words total() const { return {sum}; }
};

template <>
struct RowSum<8> {
  using X = int16_t;
  struct Code {
    __m256i low, high;  // of n 0..3 and 4..7: [n][4 k]
  };
  __m256i low, high;  // [n][2]

  static FB_INLINE Code code(Words word) {
    return {_mm256_cvtepu8_epi16(_mm256_castsi256_si128(word.v)),
            _mm256_cvtepu8_epi16(_mm256_extracti128_si256(word.v, 1))};
  }
  FB_INLINE void clear() { low = high = _mm256_setzero_si256(); }
  FB_INLINE void add(int step, Code code, const X* x) {
    int64_t four;
    memcpy(&four, x + 4 * step, 8);
    const __m256i all = _mm256_set1_epi64x(four);
    low = _mm256_add_epi32(low, _mm256_madd_epi16(code.low, all));
    high = _mm256_add_epi32(high, _mm256_madd_epi16(code.high, all));
  }
  FB_INLINE Words total() const {  // hadd: n 0 1 4 5 | 2 3 6 7
    return {_mm256_permute4x64_epi64(_mm256_hadd_epi32(low, high), 0xd8)};
  }
};

constexpr int kMostRows = 4;
constexpr int vectors_of(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }

FB_INLINE void store_codes(int8_t* out, i32x16 a, i32x16 b, const uint8_t* order) {
  store_bytes(out, a, b, order);
}
FB_INLINE void store_codes(int16_t* out, i32x16 a, i32x16 b, const uint8_t*) {
  const auto store = [](int16_t* to, i32x16 v) FB_INLINE_LAMBDA {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm256_permute4x64_epi64(_mm256_packs_epi32(v.lo, v.hi), 0xd8));
  };
  store(out, a), store(out + 16, b);
}
FB_INLINE Words multiply_low(Words a, Words b) { return {_mm256_mullo_epi32(a.v, b.v)}; }

}  // namespace fb::FB_ISA
