// The table of compiled kernels: every FB_KERNEL entry, in link order.
#include <string.h>

#include "kernel_entry.h"

extern "C" {
[[gnu::visibility("hidden")]] extern const fb_kernel_entry __start_fb_kernels[];
[[gnu::visibility("hidden")]] extern const fb_kernel_entry __stop_fb_kernels[];

const fb_kernel* fb_find(const char* row_name) {
  for (const fb_kernel_entry* entry = __start_fb_kernels; entry != __stop_fb_kernels; ++entry)
    if (strcmp(entry->name, row_name) == 0) return &entry->kernel;
  return nullptr;
}

const char* fb_row_name(int32_t index) {
  return index >= 0 && index < __stop_fb_kernels - __start_fb_kernels ? __start_fb_kernels[index].name
                                                                      : nullptr;
}

const char* fb_version(void) { return FEWBIT_VERSION; }
}

// The section must exist even in a build without kernels. This row does nothing; tests and barrier timings use it.
static void run_nothing(const void*, int32_t, const fb_worker*) {}
FB_KERNEL(nothing, 1, nullptr, run_nothing)
