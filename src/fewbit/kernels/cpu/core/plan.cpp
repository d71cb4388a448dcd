// Every thread walks the same list of steps; barriers keep the walks together where data demands it.
#include "plan.h"

namespace fb {

bool plan_is_valid(const fb_step* steps, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!steps[i].kernel || steps[i].kernel->abi != FB_ABI) return false;
  return true;
}

void run_plan(const fb_step* steps, int64_t count, const fb_worker& worker, Barrier& barrier) {
  // Read now: once the last barrier opens, the caller may free the steps.
  const bool open_end = count && steps[count - 1].overlap;
  for (const fb_step* step = steps; step != steps + count; ++step) {
    const int32_t phases = step->kernel->phases;
    for (int32_t phase = 0; phase < phases; ++phase) {
      step->kernel->run(step->args, phase, &worker);
      const bool last = phase == phases - 1;
      if (!last || !step->overlap) barrier.wait(worker.thread);
    }
  }
  // fb_run returns when every thread is done, whatever the last step said.
  if (open_end) barrier.wait(worker.thread);
}

}  // namespace fb
