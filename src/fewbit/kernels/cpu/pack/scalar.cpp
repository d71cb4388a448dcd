#include "generic.h"

namespace fb::FB_ISA {
FB_SCHEMES(FB_PACK_ROW)
}
