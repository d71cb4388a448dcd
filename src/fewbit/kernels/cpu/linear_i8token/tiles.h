// The integer products of generic.h on AMX tiles: the same sums, the same chain, the same bits.
//
// A panel is decoded once for all rows of a piece, into B operands of 64 k: [step][2 halves][16 k/4][16 n][4 bytes]. Codes of up to 6
// bits become signed bytes less their center; 8-bit codes stay as they are stored, unsigned.
//
//   one group (a scale for each channel)   sums over all of K in tile registers: 2 row blocks x 2 halves, both operands fetched ahead
//   groups                                 GroupTiles: one row block x one half, so that its f32 sums stay in 16 vector registers
//                                          while the next group is multiplied
#pragma once
#include "generic.h"
#include "group_tiles.h"
#include "panel_tiles.h"

namespace fb::FB_ISA {

template <Scheme S>
void run_linear_i8token_tiles(const void* pointer, int32_t phase, const fb_worker* worker) {
  const fb_linear_args& args = *static_cast<const fb_linear_args*>(pointer);
  if (*args.rows <= 0) return;
  const TileRows x(args, *args.rows);
  if (phase == 0) return quantize<S>(args, x, *worker);
  const Panels panels(args);
  const Share share = share_of(panels, x.rows, kBlockRows, worker->thread, worker->threads);
  const Range blocks{share.rows.begin / kBlockRows, ceil_div(share.rows.end, kBlockRows)};
  if (blocks.begin >= blocks.end || share.panels.begin >= share.panels.end) return;
  if (x.groups == 1)
    ChannelTiles<S>::run(args, x, panels, share.panels, blocks, *worker);
  else
    GroupTiles<S>::run(args, x, panels, share.panels, blocks, *worker);
}

inline int64_t tile_workspace_bytes(const void* pointer, int64_t max_rows) {
  if (max_rows <= 0) return 0;
  return TileRows(*static_cast<const fb_linear_args*>(pointer), max_rows).bytes();
}

}  // namespace fb::FB_ISA

#define FB_LINEAR_I8TOKEN_TILES(scheme, codes, isa)                                                       \
  FB_KERNEL(FB_PASTE(linear, FB_PASTE(scheme, FB_PASTE(i8token_n32parts, isa))), 2, tile_workspace_bytes, \
            run_linear_i8token_tiles<fb::FB_ISA::codes>)
