// pack: canonical parts -> the packed layouts of linear/scheme.h. Portable 64-bit arithmetic: 8 codes become bits of a
// word in about 15 operations, in 4 with BMI2.
#pragma once
#include <string.h>

#include "core/kernel_entry.h"
#include "linear/form.h"
#include "linear/scheme.h"
#include "linear/share.h"

namespace fb::FB_ISA {

// Rows n0 .. n0+31 of the source; rows from args.n on read as zeros.
struct PanelSource {
  const fb_pack_args& args;
  int64_t n0;

  bool has(int lane) const { return n0 + lane < args.n; }
  const uint8_t* row(const void* part, int64_t stride, int lane, int element_bytes) const {
    return static_cast<const uint8_t*>(part) + (n0 + lane) * stride * element_bytes;
  }
};

// Four b-bit fields 16 bits apart -> next to each other.
FB_INLINE uint32_t squeeze(uint64_t fields, int b) {
  return static_cast<uint32_t>(
      (fields | fields >> (16 - b) | fields >> (32 - 2 * b) | fields >> (48 - 3 * b)) & ((1u << 4 * b) - 1));
}

// The b-bit fields `from` of 8 bytes -> 4 even ones in the low half-word, 4 odd ones 16 bits above.
template <int b>
FB_INLINE uint32_t pack_eight(uint64_t eight) {
  constexpr uint64_t kMask = ((1u << b) - 1) * 0x0001000100010001ull;
#ifdef __BMI2__
  return static_cast<uint32_t>(__builtin_ia32_pext_di(eight, kMask) |
                               __builtin_ia32_pext_di(eight, kMask << 8) << 16);
#else
  return squeeze(eight & kMask, b) | squeeze(eight >> 8 & kMask, b) << 16;
#endif
}

// 32 codes of one n -> the word rows of a b-bit plane (bits `from` .. from+b-1 of each code), 16 lanes apart.
template <int b>
FB_INLINE void pack_plane(const uint8_t* codes, int from, uint32_t* words) {
  constexpr int kChunks = 4 / b;  // of 8 codes in a word
  for (int r = 0; r < b; ++r) {
    uint32_t word = 0;
    for (int c = 0; c < kChunks; ++c) {
      uint64_t eight;
      memcpy(&eight, codes + 8 * (r * kChunks + c), 8);
      word |= pack_eight<b>(eight >> from) << (4 * b * c);
    }
    words[r * kHalf] = word;
  }
}

// One lane of one sub-block: k .. k+31 of row n0+lane.
template <Scheme S>
FB_INLINE void pack_codes(const PanelSource& source, int lane, int64_t k, uint8_t* sub_block, int bias) {
  constexpr int kElementBytes = S.bits <= 8 ? 1 : S.bits / 8;
  alignas(8) uint8_t codes[kSubBlock * kElementBytes] = {};
  if (source.has(lane)) {
    const int64_t count = smaller(kSubBlock, source.args.k - k);  // below 32 at the end of plain floats only
    memcpy(codes,
           source.row(source.args.codes, source.args.codes_stride, lane, kElementBytes) + k * kElementBytes,
           count * kElementBytes);
  }
  const auto plane = [&](int byte, int bits) {
    return reinterpret_cast<uint32_t*>(sub_block + byte) + lane / kHalf * (bits * kHalf) + lane % kHalf;
  };
  if constexpr (S.bits >= 8) {
    if constexpr (S.apart)
      for (int i = 0; i < kSubBlock; ++i) codes[i] ^= static_cast<uint8_t>(bias);
    uint32_t* words = plane(0, S.bits);
    for (int r = 0; r < S.bits; ++r) memcpy(words + r * kHalf, codes + 4 * r, 4);
  } else {
    // code + bias: the bias is the code's top bit, so adding it is flipping that bit
    for (int i = 0; i < kSubBlock; ++i) codes[i] ^= static_cast<uint8_t>(bias);
    pack_plane<S.low_bits()>(codes, 0, plane(0, S.low_bits()));
    if constexpr (S.high_bits() > 0)
      pack_plane<S.high_bits()>(codes, S.low_bits(), plane(S.high_plane(), S.high_bits()));
  }
}

// `columns` elements from `column` of a part -> [column][32 n].
template <class T>
FB_INLINE void pack_scales(const PanelSource& source, const void* part, int64_t stride, int64_t column,
                           int columns, uint8_t* out) {
  for (int lane = 0; lane < kPanel; ++lane)
    for (int c = 0; c < columns; ++c) {
      T value = 0;
      if (source.has(lane))
        memcpy(&value, source.row(part, stride, lane, sizeof(T)) + (column + c) * sizeof(T), sizeof(T));
      memcpy(out + (c * kPanel + lane) * sizeof(T), &value, sizeof(T));
    }
}

template <Scheme S>
void pack_panel(const PanelSource& source, uint8_t* block) {
  const fb_pack_args& args = source.args;
  for (int64_t b = 0; b < S.blocks(args.k); ++b, block += S.block_bytes()) {
    for (int sub = 0; sub < S.sub_blocks(); ++sub)
      for (int lane = 0; lane < kPanel; ++lane)
        pack_codes<S>(source, lane, b * S.block_k() + sub * kSubBlock, block + sub * S.sub_bytes(), S.bias);
    if constexpr (S.plain()) continue;
    if constexpr (S.two_level) {
      constexpr int kGroups = 256 / S.group;
      pack_scales<uint8_t>(source, args.scale, args.scale_stride, b * kGroups, kGroups, block + S.scales());
      if constexpr (S.offset)
        pack_scales<uint8_t>(source, args.offset, args.scale_stride, b * kGroups, kGroups,
                             block + S.offsets());
      pack_scales<uint16_t>(source, args.super_scale, args.super_scale_stride, b, 1,
                            block + S.super_scales());
      if constexpr (S.offset)
        pack_scales<uint16_t>(source, args.super_offset, args.super_scale_stride, b, 1,
                              block + S.super_offsets());
    } else {
      pack_scales<uint16_t>(source, args.scale, args.scale_stride, b, 1, block + S.scales());
      if constexpr (S.offset)
        pack_scales<uint16_t>(source, args.offset, args.scale_stride, b, 1, block + S.offsets());
    }
  }
}

template <Scheme S>
void run_pack(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_pack_args& args = *static_cast<const fb_pack_args*>(pointer);
  const Range panels = piece(ceil_div(args.n, kPanel), worker->thread, worker->threads);
  for (int64_t p = panels.begin; p < panels.end; ++p)
    pack_panel<S>({args, p * kPanel}, args.packed + p * S.panel_bytes(args.k));
}

// [groups] bytes, halves or words of 32 rows -> [group][32 n]; what `center` is for is in form.h.
FB_INLINE void pack_part(const PanelSource& source, const void* part, int64_t groups, int64_t bytes,
                         uint8_t center, uint8_t* out) {
  for (int lane = 0; lane < kPanel; ++lane) {
    if (!source.has(lane)) continue;
    const uint8_t* from = source.row(part, groups, lane, static_cast<int>(bytes));
    for (int64_t g = 0; g < groups; ++g) memcpy(out + (g * kPanel + lane) * bytes, from + g * bytes, bytes);
    if (center)
      for (int64_t g = 0; g < groups; ++g) out[g * kPanel + lane] += center;
  }
}

template <Scheme S>
void run_pack_parts(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_pack_args& args = *static_cast<const fb_pack_args*>(pointer);
  const Form& form = *static_cast<const Form*>(args.form);
  const PanelParts parts(form, S.panel_bytes(args.k));
  const int64_t bytes = scale_bytes(form.scale_kind);
  const Range panels = piece(ceil_div(args.n, kPanel), worker->thread, worker->threads);
  for (int64_t p = panels.begin; p < panels.end; ++p) {
    const PanelSource source{args, p * kPanel};
    uint8_t* panel = args.packed + p * parts.bytes;
    memset(panel + parts.scales, 0, parts.bytes - parts.scales);
    for (int64_t step = 0; step < args.k / kSubBlock; ++step)
      for (int lane = 0; lane < kPanel; ++lane)
        pack_codes<S>(source, lane, step * kSubBlock, panel + step * S.sub_bytes(),
                      source.has(lane) ? form.center : 0);
    pack_part(source, args.scale, form.groups, bytes, 0, panel + parts.scales);
    if (form.extra_kind == kZeroPoint)
      pack_part(source, args.offset, form.groups, 1, static_cast<uint8_t>(form.center), panel + parts.extras);
    if (form.extra_kind == kOffset)
      pack_part(source, args.offset, form.groups, bytes, 0, panel + parts.extras);
    if (form.has_super) pack_part(source, args.super_scale, 1, 4, 0, panel + parts.supers);
  }
}

}  // namespace fb::FB_ISA

#define FB_PACK_PARTS_ROW(scheme, codes) \
  FB_KERNEL_ISA(FB_PASTE(pack, FB_PASTE(scheme, n32parts)), 1, nullptr, run_pack_parts<fb::FB_ISA::codes>)
#define FB_PACK_ROW(scheme, layout) \
  FB_KERNEL_ISA(FB_PASTE(pack, FB_PASTE(scheme, layout)), 1, nullptr, run_pack<fb::FB_ISA::scheme>)
