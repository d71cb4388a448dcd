// embedding: one row of a packed weight back to f32, exactly. The bytes of one n lie 64 bytes apart, so this is scalar
// code; a row of 4096 takes some microseconds, and a tied embedding needs no second copy of the head.
#pragma once
#include <string.h>

#include "core/kernel_entry.h"
#include "linear/form.h"
#include "linear/scheme.h"
#include "linear/share.h"
#include "simd/f32x16.h"

namespace fb::FB_ISA {

FB_INLINE float f16_at(const uint8_t* p) {
  uint16_t lanes[kHalf] = {};
  memcpy(lanes, p, 2);
  float values[kHalf];
  load_f16(lanes).store(values);
  return values[0];
}

// One n (lane of 32) of a block.
template <Scheme S>
struct Lane {
  const uint8_t* block;
  int lane;

  // Field of k (within the sub-block) in a plane of b bits that starts at `plane`.
  FB_INLINE uint32_t field(const uint8_t* plane, int b, int k) const {
    const int per_word = 32 / b;
    uint32_t word;
    memcpy(&word, plane + lane / kHalf * (64 * b) + k / per_word * 64 + lane % kHalf * 4, 4);
    return word >> field_bit(k % per_word, b) & (0xffffffffu >> (32 - b));
  }

  // The code of k (within the sub-block), unsigned.
  FB_INLINE uint32_t code(const uint8_t* sub_block, int k) const {
    uint32_t bits = field(sub_block, S.low_bits(), k);
    if constexpr (S.high_bits() > 0)
      bits |= field(sub_block + S.high_plane(), S.high_bits(), k) << S.low_bits();
    return bits;
  }

  FB_INLINE float plain(uint32_t bits) const {
    if constexpr (S.element == Element::f16) return f16_at(reinterpret_cast<const uint8_t*>(&bits));
    if constexpr (S.element == Element::bf16) bits <<= 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
  }

  FB_INLINE void scales(int group, float& scale, float& offset) const {
    offset = 0;
    if constexpr (S.two_level) {
      const uint8_t* sub = block + S.scales() + group * kPanel + lane;
      scale = f16_at(block + S.super_scales() + 2 * lane) *
              (S.signed_sub ? static_cast<float>(static_cast<int8_t>(*sub)) : *sub);
      if constexpr (S.offset)
        offset = -(f16_at(block + S.super_offsets() + 2 * lane) * block[S.offsets() + group * kPanel + lane]);
    } else {
      scale = f16_at(block + S.scales() + 2 * lane);
      if constexpr (S.offset) offset = f16_at(block + S.offsets() + 2 * lane);
    }
  }

  void decode(int count, float* out) const {
    float scale = 0, offset = 0;
    for (int k = 0; k < count; ++k) {
      const uint32_t code = this->code(block + k / kSubBlock * S.sub_bytes(), k % kSubBlock);
      if constexpr (S.plain()) {
        out[k] = plain(code);
      } else {
        if (k % S.group == 0) scales(k / S.group, scale, offset);
        const int value = S.bits == 8 ? static_cast<int8_t>(code) : static_cast<int>(code) - S.bias;
        out[k] = S.offset ? __builtin_fmaf(static_cast<float>(value), scale, offset)
                          : static_cast<float>(value) * scale;
      }
    }
  }
};

template <Scheme S>
void run_embedding(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_embedding_args& args = *static_cast<const fb_embedding_args*>(pointer);
  const int64_t blocks = S.blocks(args.k);
  const Range units =
      piece(*args.rows * blocks, worker->thread, worker->threads);  // a unit: one block of one row
  for (int64_t u = units.begin; u < units.end; ++u) {
    const int64_t row = u / blocks, b = u % blocks, n = args.ids[row], k = b * S.block_k();
    const uint8_t* block = args.weight + n / kPanel * S.panel_bytes(args.k) + b * S.block_bytes();
    Lane<S>{block, static_cast<int>(n % kPanel)}.decode(static_cast<int>(smaller(S.block_k(), args.k - k)),
                                                        args.y + row * args.y_stride + k);
  }
}

// One n of a panel of layout n32parts.
template <Scheme S>
struct PartsLane {
  const Form& form;
  const uint8_t* panel;
  PanelParts parts;
  int lane;

  FB_INLINE float part_at(const uint8_t* part, int64_t group) const {
    alignas(64) uint8_t one[64] = {};
    const int64_t bytes = scale_bytes(form.scale_kind);
    memcpy(one, part + (group * kPanel + lane) * bytes, bytes);
    float values[kHalf];
    load_part(form.scale_kind, one).store(values);
    return values[0];
  }

  FB_INLINE float code_value(uint32_t code) const {
    if constexpr (S.element == Element::code) return static_cast<float>(code);
    if constexpr (S.element == Element::table) return form.table[code];
    if constexpr (S.element == Element::e5m2) code <<= 8;
    if constexpr (S.element == Element::e4m3) code = (code & 0x80) << 8 | (code & 0x7f) << 7;
    const uint16_t half = static_cast<uint16_t>(code);
    return f16_at(reinterpret_cast<const uint8_t*>(&half)) * (S.element == Element::e4m3 ? 256.0f : 1.0f);
  }

  // 32 k of one step.
  void decode(int64_t step, float* out) const {
    const Lane<S> codes{panel + step * S.sub_bytes(), lane};
    float scale = 0, offset = 0, zero = 0;
    for (int k = 0; k < kSubBlock; ++k) {
      if (k % S.group == 0) {
        const int64_t group = (step * (kSubBlock / S.group) + k / S.group) >> form.group_shift;
        scale = part_at(panel + parts.scales, group);
        if (form.has_super) {
          float super;
          memcpy(&super, panel + parts.supers + 4 * lane, 4);
          scale *= super;
        }
        if (form.extra_kind == kOffset) offset = part_at(panel + parts.extras, group);
        zero = static_cast<float>(form.extra_kind == kZeroPoint ? panel[parts.extras + group * kPanel + lane]
                                                                : form.center);
      }
      const float value = code_value(codes.code(codes.block, k)) - zero;
      out[k] = form.extra_kind == kOffset ? __builtin_fmaf(value, scale, offset) : value * scale;
    }
  }
};

template <Scheme S>
void run_embedding_parts(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_embedding_args& args = *static_cast<const fb_embedding_args*>(pointer);
  const Form& form = *reinterpret_cast<const Form*>(args.weight);
  const int64_t steps = args.k / kSubBlock;
  const Range units = piece(*args.rows * steps, worker->thread, worker->threads);
  for (int64_t u = units.begin; u < units.end; ++u) {
    const int64_t row = u / steps, step = u % steps, n = args.ids[row];
    const PartsLane<S> lane{form, panel_of<S>(args.weight, args.k, n / kPanel),
                            PanelParts(form, S.panel_bytes(args.k)), static_cast<int>(n % kPanel)};
    lane.decode(step, args.y + row * args.y_stride + step * kSubBlock);
  }
}

}  // namespace fb::FB_ISA

#define FB_EMBEDDING_PARTS_ROW(scheme, codes)                                    \
  FB_KERNEL_ISA(FB_PASTE(embedding, FB_PASTE(scheme, f32_n32parts)), 1, nullptr, \
                run_embedding_parts<fb::FB_ISA::codes>)
#define FB_EMBEDDING_ROW(scheme, layout)                                                  \
  FB_KERNEL_ISA(FB_PASTE(embedding, FB_PASTE(scheme, FB_PASTE(f32, layout))), 1, nullptr, \
                run_embedding<fb::FB_ISA::scheme>)
