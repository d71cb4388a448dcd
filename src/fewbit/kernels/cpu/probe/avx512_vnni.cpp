#include "int8.h"
