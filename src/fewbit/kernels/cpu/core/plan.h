// What one thread does with a plan.
#pragma once
#include "barrier.h"
#include "fewbit.h"

namespace fb {

bool plan_is_valid(const fb_step* steps, int64_t count);
void run_plan(const fb_step* steps, int64_t count, const fb_worker& worker, Barrier& barrier);

}  // namespace fb
