// Words (32-bit lanes of codes or sums) and Floats of the integer dot product, as wide as suits the instruction set:
//   dot<steps, bits>(codes, signs, x, start)   start + sum of code * x over `steps` words of 4 k
//   byte_codes(word)                           four 8-bit codes in the form that dot wants: code + 128, or with kSignedCodes |code|
//   store_bytes(out, a, b, order)              32 integers to bytes, each 16 permuted: out[16h + i] = (h ? b : a)[order[i]]
#pragma once
#include "simd/unroll.h"

#if defined(__AVX512VNNI__)
#include "lanes_avx512.h"
#elif defined(__AVX2__)
#include "lanes_avx2.h"
#else
#include "lanes_scalar.h"
#endif
