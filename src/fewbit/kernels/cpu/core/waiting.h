// Waiting for a number to change, as threads do at barriers and between plans.
#pragma once
#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace fb {

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

// A counter that others wait on; on its own cache line, since every waiter polls it.
struct alignas(64) Epoch {
  std::atomic<uint32_t> value{0};
  alignas(64) std::atomic<int32_t> sleepers{0};

  // Sequential consistency on both sides: either the sleeper sees the new value, or the waker sees the sleeper.
  void advance() {
    value.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst))
      syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
  }
};

// A thread that waits spins, then spins and yields, then sleeps until woken.
//
// Spinning alone meets nearly every wait inside a plan. Yielding costs under a microsecond when the processor has nothing
// else to run, and hands it to the partner when the two share one (more threads than processors). Sleeping is for what
// lasts: waking takes tens of microseconds on a virtual machine, so a thread that sleeps at one barrier makes all others
// late at the next. (Shortening the spin after each sleep was tried: one hiccup of the host then left every thread asleep
// at every barrier, 31 us each with 16 threads.)
constexpr int64_t kSpin_ns = 5'000, kYield_ns = 200'000;
constexpr int kPausesPerClock = 16;  // reading the clock costs about as much as a few pauses

inline bool spin_until_past(const Epoch& epoch, uint32_t seen) {
  int64_t begin_ns = 0;
  for (;;) {
    for (int i = 0; i < kPausesPerClock; ++i) {
      if (epoch.value.load(std::memory_order_acquire) != seen) return true;
      __builtin_ia32_pause();
    }
    const int64_t now = now_ns();
    if (!begin_ns) begin_ns = now;
    if (now - begin_ns >= kYield_ns) return false;
    if (now - begin_ns >= kSpin_ns) sched_yield();
  }
}

// Returns when epoch.value != seen, with everything written before the advance visible.
inline void wait_until_past(Epoch& epoch, uint32_t seen) {
  if (spin_until_past(epoch, seen)) return;
  epoch.sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (epoch.value.load(std::memory_order_seq_cst) == seen)
    syscall(SYS_futex, &epoch.value, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
  epoch.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace fb
