// sample: one token per row of logits, and its log-probability. A row is one unit of work.
//
// Tokens are ranked by logit, highest first, ties by id. temperature 0 takes the first. Otherwise the ranked list is cut to top_k
// tokens, then to the shortest prefix that reaches top_p of their probability, then to tokens with p >= min_p * p of the first; the
// token is the first whose cumulative probability exceeds `uniform`. Cumulative sums are in double, in the order of ranks.
// A row with a NaN is flagged and answers token 0 with logprob NaN. A row of -inf alone answers token 0 with -inf.
#pragma once
#include "core/kernel_entry.h"
#include "ranking.h"
#include "simd/share.h"

namespace fb::FB_ISA {

struct Filter {
  int64_t top_k;  // no limit: INT64_MAX
  double top_p, min_p;
};

// Weights of the tokens that stay; `total` of all when nothing is cut.
struct Kept {
  int64_t tokens;
  double weight;
};

inline Kept apply(const Filter& filter, double total, Ranking& ranking) {
  Kept kept{INT64_MAX, total};
  Ranked token;
  if (filter.top_k < INT64_MAX) {
    kept = {0, 0};
    for (ranking.rewind(); kept.tokens < filter.top_k && ranking.at(kept.tokens, &token); ++kept.tokens)
      kept.weight += static_cast<double>(token.p);
  }
  if (filter.top_p < 1) {
    const double wanted = filter.top_p * kept.weight;
    Kept prefix{0, 0};
    ranking.rewind();
    do {  // at least one
      if (!ranking.at(prefix.tokens, &token)) break;
      prefix.weight += static_cast<double>(token.p);
    } while (++prefix.tokens < kept.tokens && prefix.weight < wanted);
    kept = prefix;
  }
  if (filter.min_p > 0) {
    Kept prefix{0, 0};
    for (ranking.rewind(); prefix.tokens < kept.tokens && ranking.at(prefix.tokens, &token);
         ++prefix.tokens) {
      if (prefix.tokens && static_cast<double>(token.p) < filter.min_p) break;
      prefix.weight += static_cast<double>(token.p);
    }
    kept = prefix;
  }
  return kept;
}

// The first kept token whose cumulative weight exceeds uniform * weight; the last one with any weight if rounding lets none.
inline int32_t choose(const Kept& kept, double uniform, Ranking& ranking) {
  Ranked token{}, chosen{};
  double cumulative = 0;
  ranking.rewind();
  for (int64_t rank = 0; rank < kept.tokens && ranking.at(rank, &token) && token.p > 0; ++rank) {
    chosen = token;
    cumulative += static_cast<double>(token.p);
    if (cumulative > uniform * kept.weight) break;
  }
  return chosen.id;
}

struct LogProbability {
  float top, log_sum;  // of e^(logit - top)
  float of(float logit) const { return ((logit < kLargest ? logit : kLargest) - top) - log_sum; }
};

FB_INLINE float log_of(double sum) {
  float lanes[kLanes];
  log(f32x16::broadcast(static_cast<float>(sum))).store(lanes);
  return lanes[0];
}

inline void sample_row(const fb_sample_args& a, int64_t row, void* scratch) {
  const float* x = a.logits + row * a.logits_stride;
  int32_t* top_ids = a.top_ids + row * FB_TOP_LOGPROBS;
  float* top_logprobs = a.top_logprobs + row * FB_TOP_LOGPROBS;
  const int64_t top_n = a.top_n[row] < FB_TOP_LOGPROBS ? a.top_n[row] : FB_TOP_LOGPROBS;
  const Highest highest = find_highest(x, a.vocab);
  a.nan[row] = highest.nan;
  a.ids[row] = highest.nan ? 0 : static_cast<int32_t>(highest.id);
  a.logprob[row] = highest.nan ? __builtin_nanf("") : kMinusInfinity;
  for (int64_t i = 0; i < top_n; ++i) top_ids[i] = 0, top_logprobs[i] = a.logprob[row];
  if (highest.nan || !(highest.logit > kMinusInfinity)) return;

  const LogProbability logprob{highest.logit, log_of(sum_exponentials(x, a.vocab, highest.logit, 1.0f))};
  const float temperature = a.temperature[row];
  if (temperature > 0) {  // else, NaN included, the highest
    // within the normal numbers, so that 0 * inverse is 0 and -inf * inverse is -inf
    const float inverse = temperature < 0x1p-126f  ? 0x1p126f
                          : temperature > 0x1p126f ? 0x1p-126f
                                                   : 1 / temperature;
    const bool cut = a.top_k[row] > 0 && a.top_k[row] < a.vocab;
    const Filter filter{cut ? a.top_k[row] : INT64_MAX, static_cast<double>(a.top_p[row]),
                        static_cast<double>(a.min_p[row])};
    Ranking ranking(x, a.vocab, highest.logit, inverse, scratch);
    const double total = cut ? 0 : sum_exponentials(x, a.vocab, highest.logit, inverse);
    a.ids[row] = choose(apply(filter, total, ranking), static_cast<double>(a.uniform[row]), ranking);
  }
  a.logprob[row] = logprob.of(x[a.ids[row]]);
  if (top_n > 0) {
    Ranking ranking(x, a.vocab, highest.logit, 1.0f, scratch);
    Ranked token;
    for (int64_t i = 0; i < top_n; ++i) {
      const bool there = ranking.at(i, &token);
      top_ids[i] = there ? token.id : 0;
      top_logprobs[i] = there ? logprob.of(x[token.id]) : kMinusInfinity;
    }
  }
}

inline void sample(const void* pointer, int32_t, const fb_worker* worker) {
  static_assert(Ranking::kScratchBytes <= FB_SCRATCH_BYTES);
  const fb_sample_args& a = *static_cast<const fb_sample_args*>(pointer);
  const Share share = share_of(*a.rows, worker);
  for (int64_t row = share.begin; row < share.end; ++row) sample_row(a, row, worker->scratch);
}

}  // namespace fb::FB_ISA

FB_KERNEL_ISA(sample_f32, 1, nullptr, fb::FB_ISA::sample)
