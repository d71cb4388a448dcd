// unroll<N>(f): f(0), f(1), ... f(N-1), with the index a compile-time constant on vector ISAs, so that shift counts become
// immediates and arrays of vectors live in registers (GCC's own unrolling comes too late for the latter). The scalar
// instantiation loops: it is there to be right, and unrolled it would compile for minutes.
// unroll_piece<N>(p, f): the same for piece p of a longer sequence, f(p*N), ..., f(p*N + N-1); p as unroll gives it.
#pragma once
#include <utility>

#include "isa.h"

namespace fb::FB_ISA {

#define FB_INLINE_LAMBDA __attribute__((always_inline))

#ifdef __AVX2__
template <int I>
struct Index {
  FB_INLINE constexpr operator int() const { return I; }
};

template <class F, int... I>
FB_INLINE void unroll_sequence(F& f, std::integer_sequence<int, I...>) {
  (f(Index<I>{}), ...);
}

template <int N, class F>
FB_INLINE void unroll(F f) {
  unroll_sequence(f, std::make_integer_sequence<int, N>{});
}

template <int N, int P, class F>
FB_INLINE void unroll_piece(Index<P>, F f) {
  unroll<N>([&](auto i) FB_INLINE_LAMBDA { f(Index<P * N + i>{}); });
}
#else
template <int N, class F>
FB_INLINE void unroll(F f) {
  for (int i = 0; i < N; ++i) f(i);
}

template <int N, class F>
FB_INLINE void unroll_piece(int piece, F f) {
  for (int i = 0; i < N; ++i) f(piece * N + i);
}
#endif

}  // namespace fb::FB_ISA
