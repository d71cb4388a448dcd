#include "generic.h"
#include "linear/parts_rows.h"

namespace fb::FB_ISA {
FB_LINEAR_AMX_ROWS(amx)
FB_PARTS_SCHEMES(FB_LINEAR_AMX_PARTS_AMX)
}  // namespace fb::FB_ISA
