// linear with BF16 activations on AMX tiles. Only the activations are rounded; weights enter exactly (value_tiles.h: plain
// floats in BF16 parts; code_tiles.h: codes, scaled in f32 after the product), and sums are f32.
//
// Error against f64 with the same rounded x: a step's product is two chains of 16 fma and two additions, then one fma or addition
// into the sum, so with J = (steps or groups) * (parts or 1 + offset) chain links
//   |y - y_f64| <= 2^-24 (J + 20) * sum over k of |x| (|scale * code| + |offset|)     (results below 2^-126 count as zero)
#pragma once
#include "code_tiles.h"
#include "value_tiles.h"

namespace fb::FB_ISA {

template <Scheme S>
using CodeProducts = ScaledProducts<CodeTiles<S>>;

template <Scheme S, class Path>
void run_tiles(const void* pointer, int32_t phase, const fb_worker* worker) {
  const fb_linear_args& args = *static_cast<const fb_linear_args*>(pointer);
  if (*args.rows <= 0) return;
  const Activations<S> x(args, *args.rows);
  if (phase == 0)
    round_activations(args, x, *worker);
  else
    sweep<S, Path>(args, x, *worker);
}

}  // namespace fb::FB_ISA

#define FB_LINEAR_AMX_ROW_OF(tiles, scheme, layout, isa)                                  \
  FB_KERNEL(FB_PASTE(linear, FB_PASTE(scheme, FB_PASTE(bf16, FB_PASTE(layout, isa)))), 2, \
            workspace_bytes<fb::FB_ISA::scheme>, (run_tiles<fb::FB_ISA::scheme, tiles<fb::FB_ISA::scheme>>))

// X(tiles, scheme, layout) for every scheme
#define FB_LINEAR_AMX_SCHEMES(X)    \
  X(ValueTiles, f32, n32k32)        \
  X(ValueTiles, f16, n32k32)        \
  X(ValueTiles, bf16, n32k32)       \
  X(CodeProducts, i4g32, n32k32)    \
  X(CodeProducts, u4g32o, n32k32)   \
  X(CodeProducts, i5g32, n32k32)    \
  X(CodeProducts, u5g32o, n32k32)   \
  X(CodeProducts, i8g32, n32k32)    \
  X(CodeProducts, u2g16ot, n32k256) \
  X(CodeProducts, i3g16t, n32k256)  \
  X(CodeProducts, u4g32ot, n32k256) X(CodeProducts, u5g32ot, n32k256) X(CodeProducts, i6g16t, n32k256)
