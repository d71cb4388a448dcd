#include "linear/parts_rows.h"
#include "tiles.h"

namespace fb::FB_ISA {
#define FB_ROW(scheme, codes) FB_LINEAR_I8TOKEN_TILES(scheme, codes, amx)
FB_PARTS_INTEGER_SCHEMES(FB_ROW)
}  // namespace fb::FB_ISA
