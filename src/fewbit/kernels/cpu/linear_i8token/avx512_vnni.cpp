#include "generic.h"
#include "linear/parts_rows.h"

namespace fb::FB_ISA {
FB_PARTS_INTEGER_SCHEMES(FB_LINEAR_I8TOKEN_ROW)
}
