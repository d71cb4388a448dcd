#include "gather_rows.h"
#include "generic.h"
