// Which panels and rows a thread computes. `panels` are places in the order of Panels.
#pragma once
#include "core/fewbit.h"
#include "scheme.h"

namespace fb::FB_ISA {

struct Range {
  int64_t begin, end;
};

FB_INLINE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
FB_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Piece `index` of `count` of 0..total, sizes as equal as possible.
FB_INLINE Range piece(int64_t total, int64_t index, int64_t count) {
  return {total * index / count, total * (index + 1) / count};
}

// A weight's panels in the order in which they are computed. With fold 2 each gate's panel comes just before its up's, which lies
// `apart` panels behind it, and both are the same thread's, so that finish() can put them together.
struct Panels {
  int64_t count, apart;

  explicit FB_INLINE Panels(const fb_linear_args& args)
      : count(ceil_div(args.n, kPanel)), apart(args.fold == 2 ? count / 2 : 0) {}
  FB_INLINE int64_t unit() const { return apart ? 2 : 1; }
  FB_INLINE int64_t at(int64_t index) const { return apart ? index / 2 + index % 2 * apart : index; }
  FB_INLINE Range piece_of(int32_t thread, int32_t threads) const {
    const Range units = piece(count / unit(), thread, threads);
    return {units.begin * unit(), units.end * unit()};
  }
};

struct Share {
  Range panels, rows;
};

// A grid of row_parts x panel_parts threads, the one with the least work for its busiest thread. Rows are cut at
// multiples of `tile`. Ties go to fewer row parts, since each of them decodes its weights again.
FB_INLINE Share share_of(const Panels& all, int64_t rows, int64_t tile, int32_t thread, int32_t threads) {
  const int64_t tiles = ceil_div(rows, tile), panels = all.count / all.unit();
  int64_t row_parts = 1, least = INT64_MAX;
  for (int64_t parts = 1; parts <= smaller(threads, tiles); ++parts) {
    const int64_t work = ceil_div(tiles, parts) * ceil_div(panels, threads / parts);
    if (work < least) least = work, row_parts = parts;
  }
  const int64_t panel_parts = threads / row_parts;
  if (thread >= row_parts * panel_parts) return {{0, 0}, {0, 0}};
  const Range tile_range = piece(tiles, thread / panel_parts, row_parts);
  const Range units = piece(panels, thread % panel_parts, panel_parts);
  return {{units.begin * all.unit(), units.end * all.unit()},
          {tile_range.begin * tile, smaller(tile_range.end * tile, rows)}};
}

}  // namespace fb::FB_ISA
