// Also the AMX rows over emulated tiles, so that their code is tested on every machine.
#include "generic.h"
#include "tiles.h"

namespace fb::FB_ISA {
FB_CODE_SCHEMES(FB_LINEAR_I8_ROW)
#define FB_ROW(scheme, layout) FB_LINEAR_I8_TILES_ROW_OF(scheme, layout, amx_emulated)
FB_CODE_SCHEMES(FB_ROW)
}  // namespace fb::FB_ISA
