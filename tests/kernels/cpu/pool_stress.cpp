// Stress of the thread pool, for the thread sanitizer: plans whose every phase reads what all threads wrote in the phase
// before, without atomics. A missing or leaky barrier is a data race, and usually also a wrong number.
//   pool_stress [threads] [plans]
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

#include "fewbit.h"

namespace {

struct Ring {  // step s: slot[t] = 1 + max over all threads of the other buffer's slots
  long* from;
  long* to;
  long expected;  // of every slot of `from`
  bool* wrong;
};

void advance(const void* pointer, int32_t phase, const fb_worker* worker) {
  const Ring& ring = *static_cast<const Ring*>(pointer);
  const long* from = phase == 0 ? ring.from : ring.to;
  long* to = phase == 0 ? ring.to : ring.from;
  for (int32_t t = 0; t < worker->threads; ++t)
    if (from[t * 16] != ring.expected + phase) ring.wrong[worker->thread] = true;
  to[worker->thread * 16] = ring.expected + phase + 1;
  static_cast<char*>(worker->scratch)[worker->scratch_bytes - 1] = 1;
}

constexpr fb_kernel kTwoPhases = {FB_ABI, 2, nullptr, advance};

bool run_plans(fb_pool* pool, int32_t threads, int plans) {
  std::vector<long> a(threads * 16), b(threads * 16);
  std::vector<char> wrong(threads);
  long value = 0;
  for (int p = 0; p < plans; ++p) {
    const int count = 1 + p % 7;
    std::vector<Ring> rings;
    for (int s = 0; s < count; ++s, value += 2)
      rings.push_back({a.data(), b.data(), value, reinterpret_cast<bool*>(wrong.data())});
    std::vector<fb_step> steps;  // freed after each run: a thread that still looks at it is a race
    for (const Ring& ring : rings) steps.push_back({&kTwoPhases, &ring, 0, 0});
    if (fb_run(pool, steps.data(), count)) return false;
  }
  for (char w : wrong)
    if (w) return false;
  return true;
}

struct Caller {
  fb_pool* pool;
  int32_t threads;
  int plans;
  bool ok;
};

void* call(void* pointer) {
  Caller& c = *static_cast<Caller*>(pointer);
  c.ok = run_plans(c.pool, c.threads, c.plans);
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const int32_t threads = argc > 1 ? atoi(argv[1]) : 4;
  const int plans = argc > 2 ? atoi(argv[2]) : 200;
  fb_pool* pool = fb_pool_create(threads, nullptr);
  Caller callers[3];
  pthread_t handles[3];
  for (int i = 0; i < 3; ++i) callers[i] = {pool, threads, plans, false};
  for (int i = 0; i < 3; ++i) pthread_create(&handles[i], nullptr, call, &callers[i]);
  bool ok = true;
  for (int i = 0; i < 3; ++i) pthread_join(handles[i], nullptr), ok = ok && callers[i].ok;
  fb_pool_destroy(pool);
  puts(ok ? "ok" : "wrong: a phase saw values of another");
  return !ok;
}
