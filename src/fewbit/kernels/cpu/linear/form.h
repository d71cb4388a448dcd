// Layout n32parts: any group, any type of scale. What a weight's parts are stands at its head, so that one kernel of each kind of
// code serves them all.
//
//   Form, 128 bytes; then panels of 32 n in order; in a panel, each at a multiple of 64 bytes:
//     codes     sub-blocks of 32 k, as in scheme.h; integers stored unsigned, plus `center`
//     scales    [groups][32 n] of scale_kind
//     extras    [groups][32 n]: zero points as u8, or offsets of scale_kind
//     supers    [32 n] f32, a factor of every scale of the row
#pragma once
#include "core/fewbit.h"
#include "scheme.h"
#include "simd/f32x16.h"

namespace fb::FB_ISA {

enum ScaleKind : int32_t { kScaleF16, kScaleBf16, kScaleF32, kScaleE8m0, kScaleE4m3 };
enum ExtraKind : int32_t { kNoExtra, kZeroPoint, kOffset };

struct Form {
  int32_t groups;  // of a row
  int32_t
      group_shift;  // a scale serves 2^group_shift sub-blocks of 32 k; schemes of 16 k: two scales a sub-block, and 0 here
  int32_t scale_kind, extra_kind;
  int32_t center;     // subtracted from stored integers
  int32_t has_super;  // 1: supers are there
  int32_t reserved[10];
  float table[16];  // what the 16 codes of a table stand for
};
static_assert(sizeof(Form) == 128);

FB_INLINE int64_t aligned64(int64_t bytes) { return (bytes + 63) & ~int64_t{63}; }
FB_INLINE int64_t scale_bytes(int32_t kind) {
  return kind == kScaleF32 ? 4 : kind == kScaleF16 || kind == kScaleBf16 ? 2 : 1;
}

// Bytes of a panel, and where its parts begin.
struct PanelParts {
  int64_t scales, extras, supers, bytes;

  FB_INLINE PanelParts(const Form& form, int64_t code_bytes) {
    const int64_t lanes = int64_t{form.groups} * kPanel;
    const int64_t extra = form.extra_kind == kNoExtra     ? 0
                          : form.extra_kind == kZeroPoint ? 1
                                                          : scale_bytes(form.scale_kind);
    scales = code_bytes;
    extras = scales + aligned64(lanes * scale_bytes(form.scale_kind));
    supers = extras + aligned64(lanes * extra);
    bytes = supers + (form.has_super ? int64_t{4} * kPanel : 0);
  }
};

template <Scheme S>
FB_INLINE int64_t panel_bytes(const uint8_t* weight, int64_t k) {
  if constexpr (S.apart)
    return PanelParts(*reinterpret_cast<const Form*>(weight), S.panel_bytes(k)).bytes;
  else
    return S.panel_bytes(k);
}

// Panel `index` of a weight.
template <Scheme S>
FB_INLINE const uint8_t* panel_of(const uint8_t* weight, int64_t k, int64_t index) {
  return weight + (S.apart ? sizeof(Form) : 0) + index * panel_bytes<S>(weight, k);
}

// e4m3 in bits 8..15 of each lane -> f16 of 2^-8 its value, exactly; the subnormals of both agree.
FB_INLINE f32x16 e4m3_over_256(i32x16 byte1) {
  return low_f16((byte1 & i32x16::broadcast(0x8000)) | shift_right(byte1 & i32x16::broadcast(0x7f00), 1));
}

// 16 values of a scale or offset part.
FB_INLINE f32x16 load_part(int32_t kind, const uint8_t* p) {
  switch (kind) {
    case kScaleF16:
      return load_f16(p);
    case kScaleBf16:
      return load_bf16(p);
    case kScaleF32:
      return f32x16::load(reinterpret_cast<const float*>(p));
    case kScaleE8m0: {  // 2^(x - 127); the smallest is a subnormal
      const i32x16 x = i32x16::load_u8(p);
      return as_f32(select(less(x, i32x16::broadcast(1)), i32x16::broadcast(0x00400000), shift_left(x, 23)));
    }
    default:
      return e4m3_over_256(shift_left(i32x16::load_u8(p), 8)) * f32x16::broadcast(256.0f);
  }
}

}  // namespace fb::FB_ISA
