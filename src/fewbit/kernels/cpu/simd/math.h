// exp, log and silu over f32x16: one polynomial with explicit fma, so every ISA gives the same bits.
#pragma once
#include "f32x16.h"

namespace fb::FB_ISA {

// e^x. x = n ln2 + r, |r| <= ln2/2; e^r = 1 + r + r^2 q(r), q of degree 4 (Lawson fit, 3e-9 before rounding).
// Relative error over all normal results <= 8.4e-8 (tests/kernels/cpu/test_simd.py measures it). Results below 2^-126 are 0,
// above FLT_MAX are +inf, NaN stays NaN.
FB_INLINE f32x16 exp(f32x16 x) {
  const f32x16 lowest = f32x16::broadcast(-0x1.5d589ep6f);  // ln(2^-126)
  const f32x16 highest = f32x16::broadcast(0x1.62e42ep6f);  // ln(FLT_MAX), rounded down
  const f32x16 magic = f32x16::broadcast(0x1.8p23f);  // adding it rounds to an integer, kept in the low bits
  const f32x16 clamped = min(highest, max(lowest, x));  // operand order lets NaN through
  const f32x16 shifted = fma(clamped, f32x16::broadcast(0x1.715476p0f), magic);
  const f32x16 n = shifted - magic;
  f32x16 r = fnma(n, f32x16::broadcast(0x1.62e4p-1f),
                  clamped);  // ln2 in two parts: the first has 15 bits, so n*ln2_hi is exact
  r = fnma(n, f32x16::broadcast(0x1.7f7d1cp-20f), r);
  f32x16 q = f32x16::broadcast(0x1.6a23cap-10f);
  q = fma(q, r, f32x16::broadcast(0x1.123a22p-7f));
  q = fma(q, r, f32x16::broadcast(0x1.5558f4p-5f));
  q = fma(q, r, f32x16::broadcast(0x1.555492p-3f));
  q = fma(q, r, f32x16::broadcast(0x1.fffffcp-2f));
  const f32x16 p = fma(r * r, q, r) + f32x16::broadcast(1.0f);
  f32x16 y =
      as_f32(as_i32(p) + shift_left(as_i32(shifted), 23));  // p * 2^n by adding n to the exponent field
  y = select(less(x, lowest), f32x16::zero(), y);
  y = select(less(highest, x), f32x16::broadcast(__builtin_inff()), y);
  return select(unordered(x), x, y);
}

// e^x for x <= 0 (softmax, where the maximum is subtracted first): the same bits as exp(x), three steps shorter.
FB_INLINE f32x16 exp_nonpositive(f32x16 x) {
  const f32x16 lowest = f32x16::broadcast(-0x1.5d589ep6f);
  const f32x16 magic = f32x16::broadcast(0x1.8p23f);
  const f32x16 clamped = max(lowest, x);
  const f32x16 shifted = fma(clamped, f32x16::broadcast(0x1.715476p0f), magic);
  const f32x16 n = shifted - magic;
  f32x16 r = fnma(n, f32x16::broadcast(0x1.62e4p-1f), clamped);
  r = fnma(n, f32x16::broadcast(0x1.7f7d1cp-20f), r);
  f32x16 q = f32x16::broadcast(0x1.6a23cap-10f);
  q = fma(q, r, f32x16::broadcast(0x1.123a22p-7f));
  q = fma(q, r, f32x16::broadcast(0x1.5558f4p-5f));
  q = fma(q, r, f32x16::broadcast(0x1.555492p-3f));
  q = fma(q, r, f32x16::broadcast(0x1.fffffcp-2f));
  const f32x16 p = fma(r * r, q, r) + f32x16::broadcast(1.0f);
  const f32x16 power =
      as_f32(shift_left(as_i32(shifted), 23) + i32x16::broadcast(127 << 23));  // 2^n, n in -126..0
  return select(less(x, lowest), f32x16::zero(), p * power);  // NaN: less is false and p is NaN
}

// ln(x) for normal x > 0, relative error <= 7.8e-8. x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = f - f^2/2 + f^3 P(f), f = m - 1, P of degree 7.
// 0 and subnormals give -inf, negatives and NaN give NaN, +inf gives +inf.
FB_INLINE f32x16 log(f32x16 x) {
  const i32x16 offset = i32x16::broadcast(0x3f3504f3);  // bits of sqrt(1/2)
  const i32x16 delta = as_i32(x) - offset;
  const f32x16 e = to_f32(shift_right_signed(delta, 23));
  const f32x16 f = as_f32((delta & i32x16::broadcast(0x7fffff)) + offset) - f32x16::broadcast(1.0f);
  f32x16 p = f32x16::broadcast(-0x1.38b580p-4f);
  p = fma(p, f, f32x16::broadcast(0x1.055b6ap-3f));
  p = fma(p, f, f32x16::broadcast(-0x1.0d8542p-3f));
  p = fma(p, f, f32x16::broadcast(0x1.22da1cp-3f));
  p = fma(p, f, f32x16::broadcast(-0x1.547244p-3f));
  p = fma(p, f, f32x16::broadcast(0x1.99a008p-3f));
  p = fma(p, f, f32x16::broadcast(-0x1.000226p-2f));
  p = fma(p, f, f32x16::broadcast(0x1.555554p-2f));
  const f32x16 square = f * f;
  f32x16 y = fma(square * f, p, e * f32x16::broadcast(0x1.7f7d1cp-20f));  // low part of e ln2
  y = fnma(f32x16::broadcast(0.5f), square, y) + f;
  y = fma(e, f32x16::broadcast(0x1.62e4p-1f), y);
  y = select(less(x, f32x16::broadcast(0x1p-126f)), f32x16::broadcast(-__builtin_inff()), y);
  y = select(less(x, f32x16::zero()), f32x16::broadcast(__builtin_nanf("")), y);
  return select(less_equal(x, f32x16::broadcast(0x1.fffffep127f)), y,
                x);  // +inf and NaN are their own result
}

// x * sigmoid(x) = x / (1 + e^-x), relative error <= 1.8e-7; -0 for x below -88.7, where the true value is under 3e-37.
FB_INLINE f32x16 silu(f32x16 x) { return x / (f32x16::broadcast(1.0f) + exp(f32x16::zero() - x)); }

// What stands between gate and up projection: g * sigmoid(alpha g) * (u + shift), g = min(gate, limit), u = up within +-limit.
// alpha 1, shift 0, limit inf is silu(gate) * up, bit for bit. NaN goes through.
struct Gate {
  float alpha, shift, limit;
};
FB_INLINE f32x16 gated(f32x16 gate, f32x16 up, const Gate& form) {
  if (form.limit < __builtin_inff()) {
    const f32x16 limit = f32x16::broadcast(form.limit);
    gate = min(limit, gate);
    up = max(f32x16::zero() - limit, min(limit, up));
  }
  if (form.shift != 0) up = up + f32x16::broadcast(form.shift);
  const f32x16 slope = f32x16::broadcast(form.alpha);
  return gate / (f32x16::broadcast(1.0f) + exp(f32x16::zero() - slope * gate)) * up;
}

}  // namespace fb::FB_ISA
