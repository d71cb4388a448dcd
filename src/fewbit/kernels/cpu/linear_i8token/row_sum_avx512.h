// vpdpbusd: unsigned codes by signed activations, four products at once into 32 bits, nothing saturates.
#pragma once

namespace fb::FB_ISA {

template <int bits>
struct RowSum {
  using X = int8_t;
  using Code = Words;
  Words sum;

  static FB_INLINE Code code(Words word) { return word; }
  FB_INLINE void clear() { sum = Words::zero(); }
  FB_INLINE void add(int step, Code code, const X* x) {
    sum.v = _mm512_dpbusd_epi32(sum.v, code.v, broadcast_step(x, step));
  }
  FB_INLINE Words total() const { return sum; }
};

constexpr int kMostRows = 16;  // that meet one vector of codes
constexpr int vectors_of(int rows) { return rows <= 8 ? 2 : 1; }

FB_INLINE void store_codes(int8_t* out, i32x16 a, i32x16 b, const uint8_t* order) {
  store_bytes(out, a, b, order);
}
FB_INLINE Words multiply_low(Words a, Words b) { return {_mm512_mullo_epi32(a.v, b.v)}; }

}  // namespace fb::FB_ISA
