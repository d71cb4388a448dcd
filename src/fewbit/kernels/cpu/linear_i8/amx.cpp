#include "tiles.h"

namespace fb::FB_ISA {
#define FB_ROW(scheme, layout) FB_LINEAR_I8_TILES_ROW_OF(scheme, layout, amx)
FB_CODE_SCHEMES(FB_ROW)
}  // namespace fb::FB_ISA
