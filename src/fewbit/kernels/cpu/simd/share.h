// A thread's contiguous share of `units` equal units of work.
#pragma once
#include <stdint.h>

#include "core/fewbit.h"
#include "isa.h"

namespace fb::FB_ISA {

struct Share {
  int64_t begin, end;
};

FB_INLINE Share share_of(int64_t units, const fb_worker* worker) {
  return {units * worker->thread / worker->threads, units * (worker->thread + 1) / worker->threads};
}

}  // namespace fb::FB_ISA
