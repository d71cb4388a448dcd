// The AMX rows over emulated tiles: the same code, so that it is tested on every machine.
#include "tiles.h"

namespace fb::FB_ISA {
#define FB_ROW(scheme, layout) FB_LINEAR_I8_TILES_ROW_OF(scheme, layout, amx_emulated)
FB_CODE_SCHEMES(FB_ROW)
}  // namespace fb::FB_ISA
