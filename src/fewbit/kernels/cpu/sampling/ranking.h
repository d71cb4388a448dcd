// The tokens of a row in descending order of logit (ties by id), as many as are asked for, without sorting the vocabulary.
//
// A token's place is one 64-bit number, (inverted order of its logit) << 32 | id, all distinct. Places are ranked band by band: the
// first band is [top - 1, top] in units of the temperature, the next ones reach ever further; a band is gathered and
// sorted when it is reached. Most requests end within a few hundred tokens. A band of more tokens than there is room for is parted.
#pragma once
#include "logits.h"

namespace fb::FB_ISA {

struct Ranked {
  int32_t id;
  float p;  // e^((logit - top) / temperature); the first has 1
};

// Floats in order as unsigned numbers; both zeros give the same.
FB_INLINE uint32_t order_of(float x) {
  uint32_t word;
  const float one_zero = x + 0.0f;
  memcpy(&word, &one_zero, 4);
  return word & 0x80000000u ? ~word : word | 0x80000000u;
}
FB_INLINE float logit_of(uint64_t place) {
  const uint32_t order = ~static_cast<uint32_t>(place >> 32),
                 word = order & 0x80000000u ? order & 0x7fffffffu : ~order;
  float x;
  memcpy(&x, &word, 4);
  return x;
}
FB_INLINE uint64_t place_of(float logit, uint32_t id) {
  return static_cast<uint64_t>(~order_of(logit)) << 32 | id;
}

class Ranking {
 public:
  static constexpr int64_t kRoom = 65536;  // tokens held at once
  static constexpr int64_t kScratchBytes =
      kRoom * static_cast<int64_t>(sizeof(Ranked) + 2 * sizeof(uint64_t));

  Ranking(const float* logits, int64_t vocab, float top_logit, float inverse_of_temperature, void* scratch)
      : x(logits), count(vocab), top(top_logit), inverse_temperature(inverse_of_temperature) {
    held = static_cast<Ranked*>(scratch);
    places = reinterpret_cast<uint64_t*>(held + kRoom);
    restart();
  }

  // Token number `rank` (0 = highest); false when no more has a logit above -inf. Asked for in order, from 0 again after rewind().
  bool at(int64_t rank, Ranked* token) {
    while (rank >= held_first + held_count)
      if (!extend()) return false;
    *token = held[rank - held_first];
    return true;
  }
  void rewind() {
    if (held_first > 0) restart();
  }

 private:
  const float* x;
  int64_t count;
  float top, inverse_temperature;
  Ranked* held;  // ranks held_first .. held_first + held_count - 1
  int64_t held_first, held_count;
  uint64_t* places;         // [2][kRoom], for sorting
  uint64_t next, band_end;  // places below `next` are ranked; band_end is past the band at hand
  double reach;             // of the band behind, below top

  void restart() {
    held_first = held_count = 0;
    next = band_end = 0;
    reach = 1;
  }

  // Ranks one more band, or a part of it; false when there is none.
  bool extend() {
    constexpr uint32_t kLastId = 0xffffffffu;
    if (next == place_of(-kLargest, kLastId)) return false;
    if (next == band_end) {
      const double bound = static_cast<double>(top) - reach / static_cast<double>(inverse_temperature);
      const float lower = bound > -static_cast<double>(kLargest) ? static_cast<float>(bound) : -kLargest;
      band_end = place_of(lower, kLastId);
      if (band_end <= next || reach > 88)
        band_end = place_of(-kLargest, kLastId);  // e^-88 is 0; or: less than the spacing of floats
      reach = reach < 4 ? reach + 1 : reach * 1.25;
    }
    uint64_t end = band_end;
    int64_t found;
    while ((found = gather(next, end, kRoom - held_count)) < 0) {
      if (held_count > 0) {  // drop what is held; a rewind will start over
        held_first += held_count;
        held_count = 0;
      } else {
        end = sort(kRoom)[kRoom / 2];  // the median of those found first
      }
    }
    append(sort(found), found);
    next = end;
    return true;
  }

  // The places in [begin, end) into places[0 ..), in the order of ids; their number, or -1 when there are more than `room`.
  int64_t gather(uint64_t begin, uint64_t end, int64_t room) const {
    const f32x16 high = f32x16::broadcast(begin ? logit_of(begin) : kLargest),
                 low = f32x16::broadcast(logit_of(end));
    int64_t found = 0;
    for (int64_t i = 0; i < count; i += kLanes) {
      const f32x16 v = load_logits(x, i, count);
      uint32_t inside = bits(less_equal(low, v)) & bits(less_equal(v, high));
      for (; inside; inside &= inside - 1) {
        const int64_t id = i + __builtin_ctz(inside);
        const uint64_t place = place_of(x[id] < kLargest ? x[id] : kLargest, static_cast<uint32_t>(id));
        if (place < begin || place >= end) continue;
        if (found == room) return -1;
        places[found++] = place;
      }
    }
    return found;
  }

  // places[0 .. found) in order; where they are then.
  const uint64_t* sort(int64_t found) const {
    uint64_t *from = places, *to = places + kRoom;
    if (found <= 32) {
      for (int64_t i = 1; i < found; ++i) {
        const uint64_t moved = from[i];
        int64_t j = i;
        for (; j > 0 && from[j - 1] > moved; --j) from[j] = from[j - 1];
        from[j] = moved;
      }
      return from;
    }
    for (int shift = 32; shift < 64;
         shift += 8) {  // byte by byte of the logit, stable; ids are in order already
      uint32_t starts[256] = {}, sum = 0;
      for (int64_t i = 0; i < found; ++i) ++starts[from[i] >> shift & 255];
      if (starts[from[0] >> shift & 255] == found) continue;
      for (uint32_t& start : starts) {
        const uint32_t size = start;
        start = sum;
        sum += size;
      }
      for (int64_t i = 0; i < found; ++i) to[starts[from[i] >> shift & 255]++] = from[i];
      uint64_t* other = from;
      from = to;
      to = other;
    }
    return from;
  }

  void append(const uint64_t* sorted, int64_t found) {
    const f32x16 maximum = f32x16::broadcast(top), factor = f32x16::broadcast(inverse_temperature);
    for (int64_t i = 0; i < found; i += kLanes) {
      const int n = static_cast<int>(found - i < kLanes ? found - i : kLanes);
      float logit[kLanes] = {}, p[kLanes];
      for (int j = 0; j < n; ++j) logit[j] = logit_of(sorted[i + j]);
      exp_nonpositive((f32x16::load(logit) - maximum) * factor).store(p);
      for (int j = 0; j < n; ++j)
        held[held_count++] = {static_cast<int32_t>(sorted[i + j] & 0xffffffffu), p[j]};
    }
  }
};

}  // namespace fb::FB_ISA
