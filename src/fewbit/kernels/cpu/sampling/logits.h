// One pass over the logits of a row: highest, where it is, NaNs. And the normalizer of their softmax.
// A logit of +inf counts as FLT_MAX (so several share the probability), -inf is a token that cannot be chosen.
#pragma once
#include "simd/math.h"

namespace fb::FB_ISA {

constexpr float kLargest = 0x1.fffffep127f;
constexpr float kMinusInfinity = -__builtin_inff();

FB_INLINE f32x16 finite_top(f32x16 x) { return min(f32x16::broadcast(kLargest), x); }  // lets NaN through

// x[i .. i+16), -inf beyond the end.
FB_INLINE f32x16 load_logits(const float* x, int64_t i, int64_t count) {
  if (i + kLanes <= count) return finite_top(f32x16::load(x + i));
  const i32x16 left = i32x16::broadcast(static_cast<int32_t>(count - i));
  return select(less(i32x16::iota(), left),
                finite_top(f32x16::load_partial(x + i, static_cast<int>(count - i))),
                f32x16::broadcast(kMinusInfinity));
}

struct Highest {
  float logit;
  int64_t id;  // the lowest id with that logit; 0 when all are -inf
  bool nan;
};

inline Highest find_highest(const float* x, int64_t count) {
  // Four accumulators hide the latency; the maximum does not depend on the order (there is no NaN, or it is flagged).
  f32x16 highest[4];
  for (f32x16& h : highest) h = f32x16::broadcast(kMinusInfinity);
  i32x16 nan = i32x16::zero();
  const i32x16 one = i32x16::broadcast(1);
  for (int64_t i = 0; i < count; i += 4 * kLanes)
    for (int j = 0; j < 4; ++j) {
      if (i + j * kLanes >= count) break;
      const f32x16 v = load_logits(x, i + j * kLanes, count);
      nan = select(unordered(v), one, nan);
      highest[j] = max(v, highest[j]);  // keeps the old one when v is NaN
    }
  const float top = reduce_max(max(max(highest[0], highest[1]), max(highest[2], highest[3])));
  const f32x16 every = f32x16::broadcast(top);
  int64_t id = 0;
  if (top > kMinusInfinity)
    for (int64_t i = 0; i < count; i += kLanes)
      if (const uint32_t found = bits(less_equal(every, load_logits(x, i, count)))) {
        id = i + __builtin_ctz(found);
        break;
      }
  return {top, id, bits(less(i32x16::zero(), nan)) != 0};
}

// Sum of e^((x - top) * inverse_temperature) over all tokens. 16 lanes within blocks of 4096 tokens, blocks added in double.
inline double sum_exponentials(const float* x, int64_t count, float top, float inverse_temperature) {
  const f32x16 maximum = f32x16::broadcast(top), factor = f32x16::broadcast(inverse_temperature);
  double total = 0;
  for (int64_t block = 0; block < count; block += 4096) {
    const int64_t end = block + 4096 < count ? block + 4096 : count;
    f32x16 even = f32x16::zero(), odd = f32x16::zero();
    for (int64_t i = block; i < end; i += 2 * kLanes) {
      even = even + exp_nonpositive((load_logits(x, i, end) - maximum) * factor);
      if (i + kLanes < end) odd = odd + exp_nonpositive((load_logits(x, i + kLanes, end) - maximum) * factor);
    }
    total += static_cast<double>(reduce_add(even + odd));
  }
  return total;
}

}  // namespace fb::FB_ISA
