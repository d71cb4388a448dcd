// attention in two phases. 0: every thread walks its items, chunk by chunk; an item that is its own goes straight to the output,
// of a split item each chunk's result goes to the workspace. 1: the rows of split items are merged, in the same order.
//
// Chunk is the kernel of one (block of rows, 256 tokens):
//   kRows                                     rows of a block
//   Chunk(args, scratch)                      scratch: 64-byte aligned
//   load(item)                                takes the block's queries
//   run(item, chunk)                          then state(r), o(r): the result of row r
//   struct Weight { static f32x16 of(x); }    e^x in the unit of the scores, x <= 0
#pragma once
#include "merge.h"
#include "simd/share.h"
#include "work.h"

namespace fb::FB_ISA {

FB_INLINE bool sees_chunk(const Item& item, int64_t r, int64_t chunk) {
  return !within_chunk(item.visible(r), chunk * kChunkTokens).empty();
}

FB_INLINE void write_zeros(const fb_attention_args& a, const Item& item, int64_t r) {
  for (int64_t d = 0; d < a.head_dim; ++d) output_of(a, item, r)[d] = 0.0f;
}

// All chunks of an item that no other thread works on. o: [rows, head_dim] scratch.
template <class Chunk>
void run_whole(const fb_attention_args& a, const Item& item, Chunk& kernel, float* o) {
  RowState states[Chunk::kRows];
  bool begun[Chunk::kRows] = {};
  kernel.load(item);
  for (int64_t chunk = item.first_chunk(); chunk < item.end_chunk(); ++chunk) {
    kernel.run(item, chunk);
    for (int64_t r = 0; r < item.rows; ++r) {
      if (!sees_chunk(item, r, chunk)) continue;
      if (begun[r]) {
        fold<typename Chunk::Weight>(states[r], o + r * a.head_dim, kernel.state(r), kernel.o(r), a.head_dim);
      } else {
        begun[r] = true;
        states[r] = kernel.state(r);
        memcpy(o + r * a.head_dim, kernel.o(r), static_cast<size_t>(a.head_dim) * 4);
      }
    }
  }
  for (int64_t r = 0; r < item.rows; ++r) {
    if (begun[r])
      write_normalized(o + r * a.head_dim, states[r].l, output_of(a, item, r), a.head_dim);
    else
      write_zeros(a, item, r);  // a padded row that sees nothing
  }
}

// Chunks [begin, end) of a split item, each into its records.
template <class Chunk>
void run_partial(const fb_attention_args& a, const Item& item, int64_t begin, int64_t end, Chunk& kernel,
                 float* records) {
  kernel.load(item);
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    kernel.run(item, chunk);
    for (int64_t r = 0; r < item.rows; ++r) {
      float* record = records + ((chunk - item.first_chunk()) * item.rows + r) * record_floats(a.head_dim);
      const RowState state = kernel.state(r);
      memcpy(record, kernel.o(r), static_cast<size_t>(a.head_dim) * 4);
      record[a.head_dim] = state.m;
      record[a.head_dim + 1] = state.l;
    }
  }
}

template <class Weight>
void merge_row(const fb_attention_args& a, const Item& item, int64_t r, const float* records, float* o) {
  RowState state{};
  bool begun = false;
  for (int64_t chunk = item.first_chunk(); chunk < item.end_chunk(); ++chunk) {
    if (!sees_chunk(item, r, chunk)) continue;
    const float* record =
        records + ((chunk - item.first_chunk()) * item.rows + r) * record_floats(a.head_dim);
    const RowState more = {record[a.head_dim], record[a.head_dim + 1]};
    if (begun) {
      fold<Weight>(state, o, more, record, a.head_dim);
    } else {
      begun = true;
      state = more;
      memcpy(o, record, static_cast<size_t>(a.head_dim) * 4);
    }
  }
  if (begun)
    write_normalized(o, state.l, output_of(a, item, r), a.head_dim);
  else
    write_zeros(a, item, r);
}

template <class Chunk>
void run_share(const fb_attention_args& a, const Cut& from, const Cut& to, float* o, void* scratch) {
  Chunk kernel(a, scratch);
  float* workspace = static_cast<float*>(a.workspace);
  const int64_t seqs = *a.seqs;
  for (int64_t seq = from.seq; seq < seqs && seq <= to.seq; ++seq) {
    const SequenceItems items(a, seq, Chunk::kRows);
    for (int64_t index = seq == from.seq ? from.index : 0; index < items.count; ++index) {
      const bool first = seq == from.seq && index == from.index, last = seq == to.seq && index == to.index;
      if (seq == to.seq && (index > to.index || (last && to.partial < 0))) return;
      const Item item = items.item(index);
      const int64_t partial = first && from.partial >= 0 ? from.partial : last ? to.partial : -1;
      if (partial < 0) {
        run_whole(a, item, kernel, o);
      } else {
        const int64_t begin = first && from.partial >= 0 ? from.chunk : item.first_chunk();
        run_partial(a, item, begin, last && to.partial >= 0 ? to.chunk : item.end_chunk(), kernel,
                    workspace + partial);
      }
    }
  }
}

template <class Chunk>
void merge_share(const fb_attention_args& a, const Cut* cuts, const fb_worker* worker, float* o) {
  int64_t unit = 0;  // rows of split items, numbered through
  for (int32_t t = 1; t < worker->threads; ++t) {
    if (cuts[t].partial < 0 || cuts[t].partial == cuts[t - 1].partial) continue;
    const Item item = SequenceItems(a, cuts[t].seq, Chunk::kRows).item(cuts[t].index);
    for (int64_t r = 0; r < item.rows; ++r, ++unit)
      if (unit % worker->threads == worker->thread)
        merge_row<typename Chunk::Weight>(a, item, r,
                                          static_cast<const float*>(a.workspace) + cuts[t].partial, o);
  }
}

template <class Chunk>
void attention(const void* pointer, int32_t phase, const fb_worker* worker) {
  const fb_attention_args& a = *static_cast<const fb_attention_args*>(pointer);
  // scratch: cuts, then one block's result, then the chunk kernel's own
  Cut* cuts = static_cast<Cut*>(worker->scratch);
  float* o = reinterpret_cast<float*>(cuts + (worker->threads + 2) / 2 * 2);
  cut_work(a, Chunk::kRows, worker->threads, cuts);
  if (phase == 0)
    run_share<Chunk>(a, cuts[worker->thread], cuts[worker->thread + 1], o, o + Chunk::kRows * a.head_dim);
  else
    merge_share<Chunk>(a, cuts, worker, o);
}

}  // namespace fb::FB_ISA
