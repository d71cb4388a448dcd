#include "generic.h"

namespace fb::FB_ISA {
FB_CODE_SCHEMES(FB_LINEAR_I8_ROW)
}  // namespace fb::FB_ISA
