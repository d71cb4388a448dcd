// The barrier of a pool: threads count themselves in by groups, the last one advances an epoch that the others watch.
// The epoch's value takes the role of the sense in a sense-reversing barrier: nothing has to be reset for the next use.
#pragma once
#include "waiting.h"

namespace fb {

class Barrier {
 public:
  static constexpr int kGroup = 8;        // threads that share a counter's cache line
  static constexpr int kMaxGroups = 128;  // so at most 1024 threads

  void init(int32_t threads) {
    threads_ = threads;
    groups_ = (threads + kGroup - 1) / kGroup;
  }

  void wait(int32_t thread) {
    if (threads_ == 1) return;
    const uint32_t seen =
        epoch_.value.load(std::memory_order_acquire);  // cannot advance before this thread arrives
    const int32_t group = thread / kGroup;
    const int32_t members = group == groups_ - 1 ? threads_ - group * kGroup : kGroup;
    if (!arrive(arrived_[group], members) || !arrive(groups_arrived_, groups_)) {
      wait_until_past(epoch_, seen);
      return;
    }
    epoch_.advance();
  }

 private:
  struct alignas(64) Counter {
    std::atomic<int32_t> count{0};
  };
  Counter arrived_[kMaxGroups];
  Counter groups_arrived_;
  Epoch epoch_;
  int32_t threads_ = 1, groups_ = 1;

  // True for the last of `members`, who also resets the counter: nobody else touches it until the epoch advances.
  static bool arrive(Counter& counter, int32_t members) {
    if (counter.count.fetch_add(1, std::memory_order_acq_rel) != members - 1) return false;
    counter.count.store(0, std::memory_order_relaxed);
    return true;
  }
};

}  // namespace fb
