// What this machine provides: CPUID says what the core has, XCR0 what the kernel saves, and for AMX a permission call
// per process what it may use.
#include <cpuid.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fewbit.h"

namespace {
struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);  // leaves zeros above the highest leaf
  return r;
}

bool bit(uint32_t word, int index) { return word >> index & 1; }

uint64_t xcr0() {
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

bool ask_for_tiles() {
  constexpr long kArchReqXcompPerm = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0;
}

struct List {
  char* out;
  int32_t out_bytes, length = 0;

  void add(bool present, const char* name) {
    if (!present) return;
    if (length) put(',');
    for (; *name; ++name) put(*name);
  }
  void put(char c) {
    if (length + 1 < out_bytes) out[length] = c, out[length + 1] = 0;
    ++length;
  }
};
}  // namespace

int32_t fb_cpu_features(char* out, int32_t out_bytes) {
  const Registers one = cpuid(1, 0), seven = cpuid(7, 0), seven_one = cpuid(7, 1);
  const uint64_t saved = bit(one.ecx, 27) ? xcr0() : 0;
  const bool ymm = (saved & 0x6) == 0x6 && bit(one.ecx, 28);
  const bool zmm = ymm && (saved & 0xe0) == 0xe0 && bit(seven.ebx, 16);
  const bool tiles = (saved & 0x60000) == 0x60000 && bit(seven.edx, 24) && ask_for_tiles();

  if (out_bytes > 0) out[0] = 0;
  List list{out, out_bytes};
  list.add(ymm && bit(seven.ebx, 5), "avx2");
  list.add(ymm && bit(one.ecx, 12), "fma");
  list.add(ymm && bit(one.ecx, 29), "f16c");
  list.add(bit(seven.ebx, 8), "bmi2");
  list.add(zmm, "avx512f");
  list.add(zmm && bit(seven.ebx, 30), "avx512bw");
  list.add(zmm && bit(seven.ebx, 31), "avx512vl");
  list.add(zmm && bit(seven.ebx, 17), "avx512dq");
  list.add(zmm && bit(seven.ecx, 1), "avx512vbmi");
  list.add(zmm && bit(seven.ecx, 11), "avx512_vnni");
  list.add(zmm && bit(seven_one.eax, 5), "avx512_bf16");
  list.add(zmm && bit(seven.edx, 23), "avx512_fp16");
  list.add(tiles, "amx_tile");
  list.add(tiles && bit(seven.edx, 25), "amx_int8");
  list.add(tiles && bit(seven.edx, 22), "amx_bf16");
  return list.length;
}
