#include "generic.h"

namespace fb::FB_ISA {
#define FB_ROW(tiles, scheme, layout) FB_LINEAR_AMX_ROW_OF(tiles, scheme, layout, amx)
FB_LINEAR_AMX_SCHEMES(FB_ROW)
}  // namespace fb::FB_ISA
