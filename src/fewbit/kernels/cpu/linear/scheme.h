// The 13 weight schemes, and where their bits lie in the packed layouts n32k32 and n32k256.
//
// Weight W[N,K]: panels of 32 n in order; in a panel, blocks of 32 k (two-level scales: 256 k) in order. A block is one
// contiguous piece, a multiple of 64 bytes:
//   for each 32-k sub-block, for each bit plane:  u32 words [half of 16 n][row: `bits` of them][16 lanes of n]
//   group scales:      f16 scale[32 n], then f16 offset[32 n] if there is one
//   two-level scales:  u8|i8 sub-scale[256/group][32 n], u8 sub-offset[256/group][32 n] if any,
//                      f16 super-scale[32 n], f16 super-offset[32 n] if any
// Codes of 3, 5 and 6 bits lie in two planes, 2+1, 4+1 and 4+2; the first holds the low bits. A word of a b-bit plane
// holds 32/b consecutive k of one n: even k ascending in the low half word, odd k in the high one (so a 16-bit lane is
// (n, k parity), the operand order of 16-bit tile products); 8-bit and wider codes lie in plain order.
#pragma once
#include <stdint.h>

#include "simd/isa.h"

namespace fb::FB_ISA {

constexpr int kPanel = 32;     // n of a panel
constexpr int kHalf = 16;      // n of a word row: one vector
constexpr int kSubBlock = 32;  // k of a sub-block

enum class Element { code, f32, f16, bf16, e4m3, e5m2, table };

struct Scheme {
  Element element;
  int bits;  // of a code or a plain float
  int bias;  // subtracted from the stored code; 0 = unsigned. 8-bit codes are stored as two's complement instead
  int group;           // k that share a scale
  bool offset;         // w = q * scale + offset
  bool two_level;      // scale = super-scale (f16, per 256 k) * sub-scale (8 bits, per group)
  bool signed_sub;     // sub-scales are i8
  bool apart = false;  // layout n32parts: scales lie behind the panel's codes, and form.h says what they are

  constexpr bool plain() const { return !apart && element != Element::code; }
  constexpr int low_bits() const { return bits == 3 ? 2 : bits == 5 || bits == 6 ? 4 : bits; }
  constexpr int high_bits() const { return bits - low_bits(); }
  constexpr int block_k() const { return two_level ? 256 : kSubBlock; }
  constexpr int sub_blocks() const { return block_k() / kSubBlock; }
  constexpr int sub_bytes() const { return bits * kSubBlock * kPanel / 8; }
  constexpr int high_plane() const { return low_bits() * kSubBlock * kPanel / 8; }  // byte of a sub-block
  constexpr int scales() const { return sub_blocks() * sub_bytes(); }               // byte of a block
  constexpr int scales_bytes() const {
    return plain() || apart ? 0 : two_level ? 256 / group * kPanel : 2 * kPanel;
  }
  constexpr int offsets() const { return scales() + scales_bytes(); }
  constexpr int super_scales() const { return offsets() + (offset ? scales_bytes() : 0); }
  constexpr int super_offsets() const { return super_scales() + 2 * kPanel; }
  constexpr int block_bytes() const { return super_scales() + (two_level ? (offset ? 4 : 2) * kPanel : 0); }
  constexpr int64_t blocks(int64_t k) const { return (k + block_k() - 1) / block_k(); }
  constexpr int64_t panel_bytes(int64_t k) const { return blocks(k) * block_bytes(); }
};

//                                 element     bits bias group offset two_level signed_sub
constexpr Scheme f32{Element::f32, 32, 0, 32, false, false, false};
constexpr Scheme f16{Element::f16, 16, 0, 32, false, false, false};
constexpr Scheme bf16{Element::bf16, 16, 0, 32, false, false, false};
constexpr Scheme i4g32{Element::code, 4, 8, 32, false, false, false};
constexpr Scheme u4g32o{Element::code, 4, 0, 32, true, false, false};
constexpr Scheme i5g32{Element::code, 5, 16, 32, false, false, false};
constexpr Scheme u5g32o{Element::code, 5, 0, 32, true, false, false};
constexpr Scheme i8g32{Element::code, 8, 128, 32, false, false, false};
constexpr Scheme u2g16ot{Element::code, 2, 0, 16, true, true, false};
constexpr Scheme i3g16t{Element::code, 3, 4, 16, false, true, true};
constexpr Scheme u4g32ot{Element::code, 4, 0, 32, true, true, false};
constexpr Scheme u5g32ot{Element::code, 5, 0, 32, true, true, false};
constexpr Scheme i6g16t{Element::code, 6, 32, 16, false, true, true};

// Kinds of code in layout n32parts. `table`: 4-bit codes that stand for the 16 floats of the weight's form.
constexpr Scheme apart(Element element, int bits, int group = 32) {
  return {element, bits, 0, group, false, false, false, true};
}
constexpr Scheme codes2 = apart(Element::code, 2), codes3 = apart(Element::code, 3),
                 codes4 = apart(Element::code, 4);
constexpr Scheme codes5 = apart(Element::code, 5), codes6 = apart(Element::code, 6),
                 codes8 = apart(Element::code, 8);
constexpr Scheme e4m3_codes = apart(Element::e4m3, 8), e5m2_codes = apart(Element::e5m2, 8);
constexpr Scheme table_codes = apart(Element::table, 4), table_codes16 = apart(Element::table, 4, 16);
static_assert(codes3.block_bytes() == 384 && e4m3_codes.block_bytes() == 1024);

static_assert(u4g32o.block_bytes() == 640 && u4g32ot.block_bytes() == 4736 && i6g16t.block_bytes() == 6720);

// X(scheme, layout) for every scheme
#define FB_SCHEMES(X) \
  X(f32, n32k32)      \
  X(f16, n32k32)      \
  X(bf16, n32k32)     \
  X(i4g32, n32k32)    \
  X(u4g32o, n32k32)   \
  X(i5g32, n32k32)    \
  X(u5g32o, n32k32)   \
  X(i8g32, n32k32)    \
  X(u2g16ot, n32k256) X(i3g16t, n32k256) X(u4g32ot, n32k256) X(u5g32ot, n32k256) X(i6g16t, n32k256)

// Bit position of the b-bit field of k (counted within its word's 32/b values).
constexpr int field_bit(int k, int b) { return b >= 8 ? k * b : (k % 2) * 16 + k / 2 * b; }

}  // namespace fb::FB_ISA
