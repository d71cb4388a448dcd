#include "generic.h"
#include "int8.h"
