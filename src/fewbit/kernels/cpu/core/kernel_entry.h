// How a kernel gets into the library's table: FB_KERNEL puts one constant entry into the linker section
// "fb_kernels", whose bounds the linker defines. So a new kernel file registers itself without a generated list and
// without a static initializer (which would run code of its ISA when the library is loaded).
#pragma once
#include "fewbit.h"

// 32 bytes and 32-byte aligned, so that the entries of all object files form one array.
struct alignas(32) fb_kernel_entry {
  const char* name;
  fb_kernel kernel;
};
static_assert(sizeof(fb_kernel_entry) == 32);

#define FB_PASTE2(a, b) a##_##b
#define FB_PASTE(a, b) FB_PASTE2(a, b)
#define FB_STRING2(a) #a
#define FB_STRING(a) FB_STRING2(a)

// FB_KERNEL(linear_f32_f32_n32k32_avx2, 1, nullptr, run): name as an identifier, phases, workspace function, run.
#define FB_KERNEL(name, phases, workspace, run)                                                           \
  [[gnu::used, gnu::section("fb_kernels")]] static constexpr fb_kernel_entry FB_PASTE(fb_entry, name) = { \
      FB_STRING(name), {FB_ABI, phases, workspace, run}};

// The same with the stem of the file (scalar, avx2, avx512, ...) appended to the name: CMake defines FB_ISA per file.
#define FB_KERNEL_ISA(prefix, phases, workspace, run) \
  FB_KERNEL_ISA_(FB_PASTE(prefix, FB_ISA), phases, workspace, run)
#define FB_KERNEL_ISA_(name, phases, workspace, run) FB_KERNEL(name, phases, workspace, run)

// Everything a kernel file defines lies in its ISA's own namespace: `namespace FB_ISA_NAMESPACE { ... }`. Otherwise the
// linker may keep the AVX-512 copy of an inline function for everybody. Avoid std templates in kernels for that reason.
#define FB_ISA_NAMESPACE fb::FB_ISA
