// The part of the softmax of a row that both chunk kernels share.
#pragma once
#include "simd/f32x16.h"
#include "work.h"

namespace fb::FB_ISA {

// The 16-token groups that hold a range.
FB_INLINE TokenRange whole_groups(TokenRange t) {
  return {t.begin / kLanes * kLanes, (t.end + kLanes - 1) / kLanes * kLanes};
}

// Highest score of the seen tokens of a row; within their groups, unseen tokens get -inf.
FB_INLINE float mask_and_find_highest(float* scores, TokenRange seen) {
  const f32x16 nothing = f32x16::broadcast(-__builtin_inff());
  const TokenRange groups = whole_groups(seen);
  f32x16 highest = nothing;
  for (int64_t t = groups.begin; t < groups.end; t += kLanes) {
    f32x16 s = f32x16::load(scores + t);
    if (t < seen.begin || t + kLanes > seen.end) {
      const i32x16 token = i32x16::broadcast(static_cast<int32_t>(t)) + i32x16::iota();
      s = select(less(token, i32x16::broadcast(static_cast<int32_t>(seen.begin))), nothing, s);
      s = select(less(token, i32x16::broadcast(static_cast<int32_t>(seen.end))), s, nothing);
      s.store(scores + t);
    }
    highest = max(highest, s);
  }
  return reduce_max(highest);
}

}  // namespace fb::FB_ISA
