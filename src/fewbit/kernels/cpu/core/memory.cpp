// Aligned memory; large pieces get their own mapping with huge pages, since a weight is one long stream of reads.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fewbit.h"

namespace {
constexpr int64_t kHuge = 2 << 20;

struct Header {  // the 64 bytes before the memory handed out
  void* base;
  int64_t mapped_bytes;  // 0: from aligned_alloc
};

char* round_up(char* p, int64_t alignment) {
  return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(p) + alignment - 1) &
                                 ~uintptr_t(alignment - 1));
}

void* with_header(char* memory, void* base, int64_t mapped_bytes) {
  *reinterpret_cast<Header*>(memory - 64) = {base, mapped_bytes};
  return memory;
}
}  // namespace

void* fb_alloc(int64_t bytes) {
  if (bytes < 0 || bytes > INT64_MAX - 2 * kHuge) return nullptr;
  if (bytes < kHuge) {
    const int64_t total = ((bytes + 63) & ~int64_t(63)) + 64;
    char* base = static_cast<char*>(aligned_alloc(64, total));
    if (!base) return nullptr;
    memset(base, 0, total);
    return with_header(base + 64, base, 0);
  }
  // Address space for the alignment is reserved but never touched, but for the header's page.
  const int64_t mapped = bytes + kHuge + 64;
  void* base =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  char* memory = round_up(static_cast<char*>(base) + 64, kHuge);
  madvise(memory, bytes, MADV_HUGEPAGE);  // advice only: without it the memory is as good, and slower
  return with_header(memory, base, mapped);
}

void fb_free(void* memory) {
  if (!memory) return;
  const Header header = *reinterpret_cast<const Header*>(static_cast<char*>(memory) - 64);
  if (header.mapped_bytes)
    munmap(header.base, header.mapped_bytes);
  else
    free(header.base);
}
