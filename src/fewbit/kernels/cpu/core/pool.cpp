// The thread pool: pinned threads that wait for a plan, run it together with the caller, and wait again.
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include <new>

#include "plan.h"

namespace {

struct alignas(64) Member {  // a thread's own state, on its own cache lines
  fb_pool* pool;
  pthread_t handle;
  fb_worker worker;
};

bool pin(pthread_t thread, int32_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  CPU_SET(cpu, &set);
  return pthread_setaffinity_np(thread, sizeof set, &set) == 0;
}

}  // namespace

struct fb_pool {
  // the plan at hand: written by the caller before `plans` advances, read by the others after it
  const fb_step* steps;
  int64_t count;
  bool stop;

  fb::Epoch plans;
  fb::Barrier barrier;
  Member* members;
  int32_t threads;

  pthread_mutex_t one_caller;
  int32_t caller_cpu;  // -1: thread 0 is not pinned
  bool caller_pinned;
  pthread_t caller;
  cpu_set_t caller_affinity;  // what it was before
};

namespace {

void* serve(void* member_pointer) {
  Member& me = *static_cast<Member*>(member_pointer);
  fb_pool& pool = *me.pool;
  for (uint32_t seen = 0;; ++seen) {
    fb::wait_until_past(pool.plans, seen);
    if (pool.stop) return nullptr;
    fb::run_plan(pool.steps, pool.count, me.worker, pool.barrier);
  }
}

void pin_caller(fb_pool& pool) {
  if (pool.caller_cpu < 0 || pool.caller_pinned) return;
  pool.caller_pinned = true;
  pool.caller = pthread_self();
  pthread_getaffinity_np(pool.caller, sizeof pool.caller_affinity, &pool.caller_affinity);
  pin(pool.caller, pool.caller_cpu);
}

void free_members(fb_pool* pool) {
  for (int32_t i = 0; i < pool->threads; ++i) fb_free(pool->members[i].worker.scratch);
  free(pool->members);
  pool->~fb_pool();
  free(pool);
}

// Ends threads 1 .. started-1 and frees everything.
void end_threads(fb_pool* pool, int32_t started) {
  pool->stop = true;
  pool->plans.advance();
  for (int32_t i = 1; i < started; ++i) pthread_join(pool->members[i].handle, nullptr);
  free_members(pool);
}

}  // namespace

fb_pool* fb_pool_create(int32_t threads, const int32_t* cpus) {
  if (threads < 1 || threads > fb::Barrier::kGroup * fb::Barrier::kMaxGroups) return nullptr;
  void* memory = aligned_alloc(alignof(fb_pool), sizeof(fb_pool));
  void* members = aligned_alloc(alignof(Member), sizeof(Member) * threads);
  if (!memory || !members) {
    free(memory);
    free(members);
    return nullptr;
  }
  fb_pool* pool = new (memory) fb_pool{};
  pool->threads = threads;
  pool->members = static_cast<Member*>(members);
  pool->caller_cpu = cpus ? cpus[0] : -1;
  pool->barrier.init(threads);
  pthread_mutex_init(&pool->one_caller, nullptr);

  bool scratch_ok = true;
  for (int32_t i = 0; i < threads; ++i) {
    Member* m = new (&pool->members[i]) Member{};
    m->pool = pool;
    m->worker = {i, threads, fb_alloc(FB_SCRATCH_BYTES), FB_SCRATCH_BYTES};
    scratch_ok = scratch_ok && m->worker.scratch;
  }
  if (!scratch_ok) {
    free_members(pool);
    return nullptr;
  }
  for (int32_t i = 1; i < threads; ++i) {
    if (pthread_create(&pool->members[i].handle, nullptr, serve, &pool->members[i])) {
      end_threads(pool, i);
      return nullptr;
    }
    if (cpus) pin(pool->members[i].handle, cpus[i]);  // a cpu that is not ours leaves the thread unpinned
  }
  return pool;
}

void fb_pool_destroy(fb_pool* pool) {
  if (!pool) return;
  if (pool->caller_pinned && pthread_equal(pool->caller, pthread_self()))
    pthread_setaffinity_np(pool->caller, sizeof pool->caller_affinity, &pool->caller_affinity);
  pthread_mutex_destroy(&pool->one_caller);
  end_threads(pool, pool->threads);
}

int32_t fb_pool_threads(const fb_pool* pool) { return pool->threads; }

int32_t fb_run(fb_pool* pool, const fb_step* steps, int64_t count) {
  if (!fb::plan_is_valid(steps, count)) return -1;
  if (count <= 0) return 0;
  pthread_mutex_lock(&pool->one_caller);
  pin_caller(*pool);
  pool->steps = steps;
  pool->count = count;
  if (pool->threads > 1) pool->plans.advance();
  fb::run_plan(steps, count, pool->members[0].worker, pool->barrier);
  pthread_mutex_unlock(&pool->one_caller);
  return 0;
}
