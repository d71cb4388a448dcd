#include "generic.h"
#include "parts_rows.h"

namespace fb::FB_ISA {
FB_SCHEMES(FB_LINEAR_ROW)
FB_PARTS_SCHEMES(FB_LINEAR_PARTS_ROW)
}  // namespace fb::FB_ISA
