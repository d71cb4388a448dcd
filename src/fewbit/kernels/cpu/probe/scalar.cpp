#include "generic.h"

FB_KERNEL(probe_fill, 1, nullptr, fb::FB_ISA::probe_fill)
