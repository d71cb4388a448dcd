#pragma once

namespace fb::FB_ISA {

template <int bits>
struct RowSum {
  using X = int8_t;
  using Code = Words;
  Words sum;

  static FB_INLINE Code code(Words word) { return word; }
  FB_INLINE void clear() { sum = Words::broadcast(0); }
  FB_INLINE void add(int step, Code code, const X* x) {
    for (int lane = 0; lane < 16; ++lane)
      for (int byte = 0; byte < 4; ++byte)
        sum.v[lane] += static_cast<int32_t>(static_cast<uint32_t>(code.v[lane]) >> (8 * byte) & 0xff) *
                       x[4 * step + byte];
  }
  FB_INLINE Words total() const { return sum; }
};

constexpr int kMostRows = 4;
constexpr int vectors_of(int) { return 1; }

FB_INLINE void store_codes(int8_t* out, i32x16 a, i32x16 b, const uint8_t* order) {
  store_bytes(out, a, b, order);
}
FB_INLINE Words multiply_low(Words a, Words b) {
  Words product;
  for (int lane = 0; lane < 16; ++lane)
    product.v[lane] =
        static_cast<int32_t>(static_cast<uint32_t>(a.v[lane]) * static_cast<uint32_t>(b.v[lane]));
  return product;
}

}  // namespace fb::FB_ISA
