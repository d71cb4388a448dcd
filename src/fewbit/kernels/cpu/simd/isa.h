// The name of the instruction set this translation unit is compiled for.
// Everything in simd/ and in each generic.h lives in fb::FB_ISA, so that the linker never merges an inline function
// compiled for one ISA with its namesake compiled for another. For the same reason kernels use no std:: templates.
#pragma once

#ifndef FB_ISA  // normally given by CMake from the file stem
#if defined(__AMX_TILE__)
#define FB_ISA amx
#elif defined(__AVX512BF16__)
#define FB_ISA avx512_bf16
#elif defined(__AVX512VNNI__)
#define FB_ISA avx512_vnni
#elif defined(__AVX512F__)
#define FB_ISA avx512
#elif defined(__AVX2__)
#define FB_ISA avx2
#else
#define FB_ISA scalar
#endif
#endif

#define FB_INLINE inline __attribute__((always_inline))
