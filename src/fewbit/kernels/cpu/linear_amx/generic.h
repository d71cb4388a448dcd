// linear with BF16 activations on AMX tiles. Rows named bf16 round the activations only; rows named bf16w round the weights too.
//
// Error against f64 with the same rounded operands: a step's product is two chains of 16 fma and two additions, then one fma or
// addition into the sum, so with J = (steps or groups) * (parts or 1 + offset) chain links
//   |y - y_f64| <= 2^-24 (J + 20) * sum over k of |x| (|scale * code| + |offset|)     (results below 2^-126 count as zero)
#pragma once
#include "gemm.h"
#include "ring.h"
#include "sources.h"

namespace fb::FB_ISA {

template <Scheme S>
struct Plain {  // exact floats, any number of rows
  static constexpr bool kSums = false;
  using Path = Gemm<S, PlainTiles<S>>;
};
template <Scheme S>
struct Exact {
  static constexpr bool kSums = S.offset;
  using Path = Ring<S>;
};
template <Scheme S>
struct Rounded {
  static constexpr bool kSums = false;
  using Path = Gemm<S, RoundedTiles<S>>;
};

template <Scheme S, template <Scheme> class Kind>
void run_tiles(const void* pointer, int32_t phase, const fb_worker* worker) {
  const fb_linear_args& args = *static_cast<const fb_linear_args*>(pointer);
  if (*args.rows <= 0) return;
  const Activations<S, Kind<S>::kSums> x(args, *args.rows);
  if (phase == 0)
    x.round(args, *worker);
  else
    Kind<S>::Path::run(args, x, *worker);
}

}  // namespace fb::FB_ISA

#define FB_LINEAR_AMX_ROW(kind, activation, scheme, layout, isa)                                \
  FB_KERNEL(FB_PASTE(linear, FB_PASTE(scheme, FB_PASTE(activation, FB_PASTE(layout, isa)))), 2, \
            (workspace_bytes<fb::FB_ISA::scheme, fb::FB_ISA::kind<fb::FB_ISA::scheme>::kSums>), \
            (run_tiles<fb::FB_ISA::scheme, fb::FB_ISA::kind>))

#define FB_LINEAR_AMX_PLAIN(scheme, layout, isa) FB_LINEAR_AMX_ROW(Plain, bf16, scheme, layout, isa)
#define FB_LINEAR_AMX_CODES(scheme, layout, isa)      \
  FB_LINEAR_AMX_ROW(Exact, bf16, scheme, layout, isa) \
  FB_LINEAR_AMX_ROW(Rounded, bf16w, scheme, layout, isa)

#define FB_LINEAR_AMX_PARTS_AMX(scheme, codes) FB_LINEAR_AMX_PARTS(scheme, codes, amx)
#define FB_LINEAR_AMX_PARTS_EMULATED(scheme, codes) FB_LINEAR_AMX_PARTS(scheme, codes, amx_emulated)
#define FB_LINEAR_AMX_PARTS(scheme, codes, isa)                                   \
  FB_KERNEL(FB_PASTE(linear, FB_PASTE(scheme, FB_PASTE(bf16w_n32parts, isa))), 2, \
            (workspace_bytes<fb::FB_ISA::codes, false>),                          \
            (run_tiles<fb::FB_ISA::codes, fb::FB_ISA::Rounded>))

// Every scheme's rows for one instruction set.
#define FB_LINEAR_AMX_ROWS(isa)              \
  FB_LINEAR_AMX_PLAIN(f32, n32k32, isa)      \
  FB_LINEAR_AMX_PLAIN(f16, n32k32, isa)      \
  FB_LINEAR_AMX_PLAIN(bf16, n32k32, isa)     \
  FB_LINEAR_AMX_CODES(i4g32, n32k32, isa)    \
  FB_LINEAR_AMX_CODES(u4g32o, n32k32, isa)   \
  FB_LINEAR_AMX_CODES(i5g32, n32k32, isa)    \
  FB_LINEAR_AMX_CODES(u5g32o, n32k32, isa)   \
  FB_LINEAR_AMX_CODES(i8g32, n32k32, isa)    \
  FB_LINEAR_AMX_CODES(u2g16ot, n32k256, isa) \
  FB_LINEAR_AMX_CODES(i3g16t, n32k256, isa)  \
  FB_LINEAR_AMX_CODES(u4g32ot, n32k256, isa) \
  FB_LINEAR_AMX_CODES(u5g32ot, n32k256, isa) \
  FB_LINEAR_AMX_CODES(i6g16t, n32k256, isa)
