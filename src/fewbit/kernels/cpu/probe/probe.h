// Probes measure the machine's roofs: they run as steps of a plan, on the pool that kernels run on, and are timed from outside.
#pragma once
#include <stdint.h>

struct fb_probe_args {  // 8-byte members only: mirrored in roofs.py
  uint8_t* data;        // shared out over the threads in runs of 64 bytes; read and fill
  int64_t bytes;
  int64_t repeats;  // passes over the data, or rounds of the arithmetic loop
  float* sink;      // one cache line (16 floats) for each thread: keeps results alive
};
