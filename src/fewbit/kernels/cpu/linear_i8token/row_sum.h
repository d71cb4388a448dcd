// RowSum<bits>: the exact integer sum of stored codes times activations of one row, for a vector of n.
//
//   Code code = RowSum<bits>::code(word)     four k of each n, unsigned bytes in a word, as the products take them
//   sum.clear();  sum.add(step, code, x);  ...8 steps...  sum.total()
//
// x points at the row's 32 k of a block, in X, the type in which this instruction set takes activations.
#pragma once
#include "linear_i8/lanes.h"

#if defined(__AVX512VNNI__)
#include "row_sum_avx512.h"
#elif defined(__AVX2__)
#include "row_sum_avx2.h"
#else
#include "row_sum_scalar.h"
#endif
