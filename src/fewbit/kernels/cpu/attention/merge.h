// The result of one row over some chunks, not yet normalized: maximum score m, sum l of exp(score - m), and
// o[head_dim] = sum of exp(score - m) * v. Chunks are folded in one after the other, always in order.
#pragma once
#include "simd/math.h"

namespace fb::FB_ISA {

struct RowState {
  float m, l;
};

// (state, o) gains (more, o_more). Weight is the exponential of the scores' unit.
template <class Weight>
FB_INLINE void fold(RowState& state, float* o, RowState more, const float* o_more, int64_t head_dim) {
  const float m = state.m > more.m ? state.m : more.m;
  float weights[kLanes] = {state.m - m, more.m - m};
  Weight::of(f32x16::load(weights)).store(weights);
  state = {m, __builtin_fmaf(state.l, weights[0], more.l * weights[1])};
  const f32x16 old_weight = f32x16::broadcast(weights[0]), new_weight = f32x16::broadcast(weights[1]);
  for (int64_t d = 0; d < head_dim; d += kLanes)
    fma(f32x16::load(o + d), old_weight, f32x16::load(o_more + d) * new_weight).store(o + d);
}

FB_INLINE void write_normalized(const float* o, float l, float* out, int64_t head_dim) {
  const f32x16 inverse = f32x16::broadcast(1.0f / l);
  for (int64_t d = 0; d < head_dim; d += kLanes) (f32x16::load(o + d) * inverse).store(out + d);
}

}  // namespace fb::FB_ISA
