#include "angles.h"
#include "generic.h"
