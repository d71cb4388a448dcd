// The AMX rows without AMX: the same code over emulated tiles, so that it is tested on every machine.
#include "generic.h"
#include "linear/parts_rows.h"

namespace fb::FB_ISA {
FB_LINEAR_AMX_ROWS(amx_emulated)
FB_PARTS_SCHEMES(FB_LINEAR_AMX_PARTS_EMULATED)
}  // namespace fb::FB_ISA
