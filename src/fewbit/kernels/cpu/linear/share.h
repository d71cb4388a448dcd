// Which panels and rows a thread computes.
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

struct Share {
  Range panels, rows;
};

// A grid of row_parts x panel_parts threads, the one with the least work for its busiest thread. Rows are cut at
// multiples of `tile`. Ties go to fewer row parts, since each of them decodes its weights again.
FB_INLINE Share share_of(int64_t panels, int64_t rows, int64_t tile, int32_t thread, int32_t threads) {
  const int64_t tiles = ceil_div(rows, tile);
  int64_t row_parts = 1, least = INT64_MAX;
  for (int64_t parts = 1; parts <= smaller(threads, tiles); ++parts) {
    const int64_t work = ceil_div(tiles, parts) * ceil_div(panels, threads / parts);
    if (work < least) least = work, row_parts = parts;
  }
  const int64_t panel_parts = threads / row_parts;
  if (thread >= row_parts * panel_parts) return {{0, 0}, {0, 0}};
  const Range tile_range = piece(tiles, thread / panel_parts, row_parts);
  return {piece(panels, thread % panel_parts, panel_parts),
          {tile_range.begin * tile, smaller(tile_range.end * tile, rows)}};
}

}  // namespace fb::FB_ISA
