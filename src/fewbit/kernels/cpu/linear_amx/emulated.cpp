// The AMX rows without AMX: the same code over emulated tiles, so that it is tested on every machine.
#include "generic.h"

namespace fb::FB_ISA {
#define FB_ROW(tiles, scheme, layout) FB_LINEAR_AMX_ROW_OF(tiles, scheme, layout, amx_emulated)
FB_LINEAR_AMX_SCHEMES(FB_ROW)
}  // namespace fb::FB_ISA
