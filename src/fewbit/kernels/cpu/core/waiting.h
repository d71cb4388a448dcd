// Waiting for a number to change: spin for a while, since the wait inside a plan is usually about a microsecond, then
// sleep in the kernel, since a thread that spins while its partner has no core only delays it.
#pragma once
#include <linux/futex.h>
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

// How long one thread spins. It adapts: a wait that ended asleep halves the patience (the machine is oversubscribed, or
// there is no work), one that was met while spinning doubles it again.
class Patience {
 public:
  // Returns when epoch.value != seen, with everything written before the advance visible.
  void wait(Epoch& epoch, uint32_t seen) {
    if (spin(epoch, seen)) {
      if (spin_ns_ < kLongest_ns) spin_ns_ *= 2;
      return;
    }
    if (spin_ns_ > kShortest_ns) spin_ns_ /= 2;
    epoch.sleepers.fetch_add(1, std::memory_order_seq_cst);
    while (epoch.value.load(std::memory_order_seq_cst) == seen)
      syscall(SYS_futex, &epoch.value, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    epoch.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }

 private:
  static constexpr int64_t kShortest_ns = 2'000, kLongest_ns = 100'000;
  static constexpr int kPausesPerClock = 16;  // reading the clock costs about as much as a few pauses
  int64_t spin_ns_ = kLongest_ns;

  bool spin(Epoch& epoch, uint32_t seen) const {
    int64_t end_ns = 0;
    for (;;) {
      for (int i = 0; i < kPausesPerClock; ++i) {
        if (epoch.value.load(std::memory_order_acquire) != seen) return true;
        __builtin_ia32_pause();
      }
      const int64_t now = now_ns();
      if (!end_ns) end_ns = now + spin_ns_;
      if (now >= end_ns) return false;
    }
  }
};

}  // namespace fb
