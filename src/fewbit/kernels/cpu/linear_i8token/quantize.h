// Activations in 8 bits with one scale for each row: x[m, k] ~ scale[m] * (q[m, k] - zero[m]), q in -128..127.
//
// How a layer's input is quantized stands in its arguments (input_kind, input_scale, input_zero), as its checkpoint declares it:
//   dynamic      scale = largest |x| / levels, zero 0                                   levels: 127, or what input_scale says
//   asymmetric   low = min(x, 0), high = max(x, 0); scale = (high - low) / 255, zero = clamp(round(-128 - low / scale))
//   fixed        scale = input_scale, zero = input_zero
// and q = clamp(round(x / scale + zero)): f32 arithmetic, rounding to nearest even, as the formats' own tools do it.
// A row whose largest is below 2^-100 counts as zeros. A row with an infinity or NaN gets scale NaN, so that all its outputs are NaN.
//
// Workspace: q of all rows; f32 scale[rows]; i32 zero[rows]; i32 sums[groups][rows]: sum of q - zero over the weight's group.
// q lies by rows for vectors (in the byte order of steps.h) and as tile operands [16 rows][64 k] for tiles.
#pragma once
#include "core/fewbit.h"
#include "linear/form.h"
#include "linear/share.h"
#include "linear_i8/steps.h"
#include "row_sum.h"

namespace fb::FB_ISA {

constexpr int kBlockRows = 16;  // rows of a tile
constexpr int kTileK = 64;      // k of a tile

enum InputKind : int32_t { kUnsaid, kDynamic, kAsymmetric, kFixed };  // unsaid: dynamic, levels 127

template <typename Code, bool tiled>
struct Rows {
  uint8_t* base;
  int64_t rows, padded, k, groups;

  FB_INLINE Rows(const fb_linear_args& args, int64_t row_count)
      : base(static_cast<uint8_t*>(args.workspace)),
        rows(row_count),
        padded(ceil_div(row_count, kBlockRows) * kBlockRows),
        k(args.k),
        groups(reinterpret_cast<const Form*>(args.weight)->groups) {}

  FB_INLINE int64_t steps() const { return ceil_div(k, kTileK); }
  // 64 more: rows a power of two apart would share a set of the cache
  FB_INLINE int64_t row_bytes() const { return aligned64(k * int64_t{sizeof(Code)}) + 64; }
  FB_INLINE int64_t code_bytes() const { return tiled ? padded * steps() * kTileK : padded * row_bytes(); }
  FB_INLINE Code* codes(int64_t row, int64_t at) const {
    if constexpr (tiled)
      return reinterpret_cast<Code*>(
          base + ((row / kBlockRows * steps() + at / kTileK) * kBlockRows + row % kBlockRows) * kTileK +
          at % kTileK);
    else
      return reinterpret_cast<Code*>(base + row * row_bytes()) + at;
  }
  FB_INLINE float* scales() const { return reinterpret_cast<float*>(base + code_bytes()); }
  FB_INLINE int32_t* zeros() const { return reinterpret_cast<int32_t*>(scales() + padded); }
  FB_INLINE int32_t* sums(int64_t group) const { return zeros() + (1 + group) * padded; }
  FB_INLINE int64_t bytes() const { return code_bytes() + (2 + k / kSubBlock) * padded * 4; }
};

struct RowScale {
  float scale;
  int32_t zero;
};

FB_INLINE RowScale fit_row(const fb_linear_args& args, const float* x) {
  f32x16 low = f32x16::zero(), high = f32x16::zero(), odd = f32x16::zero();
  for (int64_t k = 0; k < args.k; k += 16) {
    const f32x16 v = f32x16::load(x + k);
    low = min(low, v), high = max(high, v);
    odd = fma(v, f32x16::zero(), odd);  // NaN from infinities and NaN
  }
  if (bits(unordered(odd))) return {__builtin_nanf(""), 0};
  if (args.input_kind == kFixed) return {args.input_scale, args.input_zero};
  const float most = reduce_max(high), least = reduce_max(f32x16::zero() - low);
  if (args.input_kind == kAsymmetric) {
    const float width = most + least;
    if (!(width >= 0x1p-100f)) return {0, 0};
    if (width > 0x1.fffffep127f) return {__builtin_nanf(""), 0};
    const float scale = width / 255.0f, zero = -128.0f + least / scale;
    return {scale, static_cast<int32_t>(__builtin_rintf(zero < 127.0f ? zero : 127.0f))};
  }
  const float largest = most > least ? most : least;
  if (!(largest >= 0x1p-100f)) return {0, 0};
  return {largest / (args.input_kind == kDynamic && args.input_scale > 0 ? args.input_scale : 127.0f), 0};
}

// The codes of 16 values.
FB_INLINE i32x16 quantize16(const float* x, f32x16 scale, f32x16 zero) {
  const f32x16 magic = f32x16::broadcast(0x1.8p23f);  // adding it rounds to an integer, kept in the low bits
  const f32x16 wide = f32x16::load(x) / scale + zero;
  const f32x16 fitting = min(max(wide, f32x16::broadcast(-128.0f)), f32x16::broadcast(127.0f));
  return as_i32(fitting + magic) - as_i32(magic);
}

// This thread's rows. Rows that pad the last tile stay as they are: no other row's sums meet them.
template <Scheme S, typename X>
FB_INLINE void quantize(const fb_linear_args& args, const X& to, const fb_worker& worker) {
  static constexpr ByteOrder order = byte_order<S>();
  const int64_t blocks = args.k / kSubBlock;
  const int shift = reinterpret_cast<const Form*>(args.weight)->group_shift;
  const Range mine = piece(to.rows, worker.thread, worker.threads);
  for (int64_t row = mine.begin; row < mine.end; ++row) {
    const float* x = args.x + row * args.x_stride;
    const RowScale fit = fit_row(args, x);
    const bool none = !(fit.scale > 0);  // zeros, or NaN: the scale alone says it
    to.scales()[row] = fit.scale;
    to.zeros()[row] = fit.zero;
    const f32x16 scale = f32x16::broadcast(none ? 1.0f : fit.scale),
                 zero = f32x16::broadcast(static_cast<float>(fit.zero));
    int64_t block = 0;
    for (int64_t group = 0; group < to.groups; ++group) {
      const int64_t end = group + 1 == to.groups ? blocks : (group + 1) << shift;
      const int64_t count = (end - block) * kSubBlock;
      i32x16 sum = i32x16::zero();
      for (; block < end; ++block) {
        const float* at = x + block * kSubBlock;
        const i32x16 a = none ? i32x16::zero() : quantize16(at, scale, zero);
        const i32x16 b = none ? i32x16::zero() : quantize16(at + 16, scale, zero);
        store_codes(to.codes(row, block * kSubBlock), a, b, order.k);
        sum = sum + a + b;
      }
      // below 2^23: exact in f32
      to.sums(group)[row] =
          static_cast<int32_t>(reduce_add(to_f32(sum))) - fit.zero * static_cast<int32_t>(count);
    }
  }
}

}  // namespace fb::FB_ISA
