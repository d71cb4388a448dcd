#include "generic.h"
#include "linear/parts_rows.h"

namespace fb::FB_ISA {
FB_SCHEMES(FB_PACK_ROW)
FB_PARTS_SCHEMES(FB_PACK_PARTS_ROW)
}  // namespace fb::FB_ISA
