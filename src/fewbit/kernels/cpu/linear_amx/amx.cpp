#include "generic.h"

namespace fb::FB_ISA {
FB_LINEAR_AMX_ROWS(amx)
}
