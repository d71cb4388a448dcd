// What attention computes, cut into items and shared out over the threads by cost.
//
// The query heads that share a key/value head are folded into rows: folded row r of a sequence is token r / group, head r % group
// of the group. An item is one sequence, one key/value head and a block of folded rows. Its keys are walked in chunks of 256 tokens
// (aligned to the sequence's start), each from scratch, merged in order; so neither the block, nor the thread, nor the batch that a
// row finds itself in can change its bits. That leaves every cut between two chunks free to be a boundary between threads.
#pragma once
#include "core/kernel_entry.h"
#include "simd/isa.h"

namespace fb::FB_ISA {

constexpr int kChunkTokens = 256, kChunkPages = kChunkTokens / FB_PAGE_TOKENS;

struct TokenRange {
  int64_t begin, end;
  FB_INLINE bool empty() const { return begin >= end; }
};

// `t` clipped to the chunk that starts at token `start`, and counted from there.
FB_INLINE TokenRange within_chunk(TokenRange t, int64_t start) {
  return {t.begin > start ? t.begin - start : 0, t.end < start + kChunkTokens ? t.end - start : kChunkTokens};
}

struct Item {
  int64_t seq, kv_head;
  int64_t first_row, rows;  // folded rows of the sequence
  int64_t first_position;   // of folded row 0
  int64_t group, window;    // query heads a key/value head; 0 = all tokens

  // Tokens that folded row first_row + r sees.
  FB_INLINE TokenRange visible(int64_t r) const {
    const int64_t end = first_position + (first_row + r) / group + 1;
    return {window && end > window ? end - window : 0, end < 0 ? 0 : end};
  }
  FB_INLINE TokenRange visible() const { return {visible(0).begin, visible(rows - 1).end}; }
  FB_INLINE int64_t first_chunk() const { return visible().begin / kChunkTokens; }
  FB_INLINE int64_t end_chunk() const { return (visible().end + kChunkTokens - 1) / kChunkTokens; }

  // Arithmetic goes with rows * tokens; reading a token's key and value costs about as much as two rows.
  FB_INLINE int64_t cost_of_token() const { return rows + 2; }
  FB_INLINE int64_t cost() const {
    const TokenRange t = visible();
    return (t.empty() ? 1 : t.end - t.begin) * cost_of_token();
  }
};

// Folded row r of the item in q and out.
FB_INLINE int64_t token_of(const fb_attention_args& a, const Item& item, int64_t r) {
  return a.q_start[item.seq] + (item.first_row + r) / item.group;
}
FB_INLINE int64_t head_of(const Item& item, int64_t r) {
  return item.kv_head * item.group + (item.first_row + r) % item.group;
}
FB_INLINE const float* query_of(const fb_attention_args& a, const Item& item, int64_t r) {
  return a.q + token_of(a, item, r) * a.q_stride + head_of(item, r) * a.head_dim;
}
FB_INLINE float* output_of(const fb_attention_args& a, const Item& item, int64_t r) {
  return a.out + token_of(a, item, r) * a.out_stride + head_of(item, r) * a.head_dim;
}

// The items of one sequence, in order: key/value head, then block. Blocks of one head follow each other, so its keys stay in cache.
struct SequenceItems {
  Item base;
  int64_t folded_rows, block_rows, blocks, count;

  SequenceItems(const fb_attention_args& a, int64_t seq, int64_t rows_of_block) {
    const int64_t tokens = a.q_start[seq + 1] - a.q_start[seq], group = a.heads / a.kv_heads;
    base = {seq, 0, 0, 0, a.kv_len[seq] - tokens, group, a.window};
    folded_rows = tokens * group;
    block_rows = rows_of_block;
    blocks = (folded_rows + block_rows - 1) / block_rows;
    count = blocks * a.kv_heads;
  }
  Item item(int64_t index) const {
    Item i = base;
    i.kv_head = index / blocks;
    i.first_row = index % blocks * block_rows;
    i.rows = folded_rows - i.first_row < block_rows ? folded_rows - i.first_row : block_rows;
    return i;
  }
  int64_t cost_of_head() const {
    int64_t sum = 0;
    for (int64_t b = 0; b < blocks; ++b) sum += item(b).cost();
    return sum;
  }
};

// Partial results of a split item in the workspace: [chunk][row] records of head_dim floats, then maximum and sum.
FB_INLINE int64_t record_floats(int64_t head_dim) { return head_dim + 16; }
FB_INLINE int64_t partial_floats(const Item& i, int64_t head_dim) {
  return (i.end_chunk() - i.first_chunk()) * i.rows * record_floats(head_dim);
}

// Room for every chunk of every row of a full decode batch, within bounds; an item that finds no room is not split.
inline int64_t attention_workspace_bytes(const void* pointer, int64_t) {
  const fb_attention_args& a = *static_cast<const fb_attention_args*>(pointer);
  const int64_t chunks = (a.max_kv_len + kChunkTokens - 1) / kChunkTokens + 1;
  const int64_t wanted = a.max_seqs * a.heads * chunks * record_floats(a.head_dim) * 4;
  const int64_t least = 4 << 20, most = 64 << 20;
  return wanted < least ? least : wanted > most ? most : wanted;
}

// Where a thread's work begins: at `chunk` of item `index` of sequence `seq`. partial >= 0: the item is split, and its partial
// results start at that float of the workspace.
struct Cut {
  int64_t seq, index, chunk, partial;
};

// cuts[t] .. cuts[t+1] is the work of thread t. Every thread computes the same list.
inline void cut_work(const fb_attention_args& a, int64_t block_rows, int32_t threads, Cut* cuts) {
  const int64_t seqs = *a.seqs, room = attention_workspace_bytes(&a, 0) / 4;
  int64_t total = 0;
  for (int64_t s = 0; s < seqs; ++s) total += SequenceItems(a, s, block_rows).cost_of_head() * a.kv_heads;

  cuts[0] = {0, 0, 0, -1};
  int64_t used = 0, before = 0, seq = 0;  // `before`: cost of the sequences before `seq`
  Cut split = {-1, -1, 0, -1};            // the last item that was split
  for (int32_t t = 1; t < threads; ++t) {
    const int64_t target = total / threads * t + total % threads * t / threads;
    int64_t cost_of_head = 0;
    for (; seq < seqs; ++seq) {
      cost_of_head = SequenceItems(a, seq, block_rows).cost_of_head();
      if (before + cost_of_head * a.kv_heads > target) break;
      before += cost_of_head * a.kv_heads;
    }
    cuts[t] = {seq, 0, 0, -1};
    if (seq == seqs) continue;
    const SequenceItems items(a, seq, block_rows);
    int64_t index = (target - before) / cost_of_head * items.blocks,
            inside = (target - before) % cost_of_head;
    while (inside >= items.item(index).cost()) inside -= items.item(index++).cost();

    const Item item = items.item(index);
    const int64_t tokens = inside / item.cost_of_token();
    const int64_t chunk = (item.visible().begin + tokens + kChunkTokens / 2) / kChunkTokens;
    const bool again = split.seq == seq && split.index == index;
    const bool worth = item.cost() * 16 > total / threads && item.end_chunk() - item.first_chunk() > 1;
    const int64_t floats = partial_floats(item, a.head_dim);
    if (again || (worth && used + floats <= room)) {
      if (chunk <= item.first_chunk()) {
        cuts[t] = {seq, index, 0, -1};
      } else if (chunk >= item.end_chunk()) {
        cuts[t] = {seq, index + 1, 0, -1};
      } else {
        if (!again) {
          split = {seq, index, 0, used};
          used += floats;
        }
        cuts[t] = {seq, index, chunk, split.partial};
      }
    } else {
      cuts[t] = {seq, inside * 2 < item.cost() ? index : index + 1, 0, -1};
    }
  }
  cuts[threads] = {seqs, 0, 0, -1};
}

}  // namespace fb::FB_ISA
