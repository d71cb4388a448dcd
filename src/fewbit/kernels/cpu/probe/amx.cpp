// Peak of the tile unit: products of 2 x 2 tiles out of registers, as in the inner loop of a matrix product without its loads.
#include "core/kernel_entry.h"
#include "probe.h"
#include "simd/tile.h"

namespace fb::FB_ISA {

// A in tiles 0-1, B in 2-3, C in 4-7; all zeros, which cost the unit as much time as anything else.
template <bool is_bf16>
void probe_tiles(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_probe_args& a = *static_cast<const fb_probe_args*>(pointer);
  Tiles tiles;
  tiles.configure(TileConfig::full());
  tiles.zero<0>(), tiles.zero<1>(), tiles.zero<2>(), tiles.zero<3>();
  tiles.zero<4>(), tiles.zero<5>(), tiles.zero<6>(), tiles.zero<7>();
  for (int64_t round = 0; round < a.repeats; ++round) {
    if constexpr (is_bf16) {
      tiles.dot_bf16<4, 0, 2>(), tiles.dot_bf16<5, 0, 3>(), tiles.dot_bf16<6, 1, 2>(),
          tiles.dot_bf16<7, 1, 3>();
    } else {
      tiles.dot_s8s8<4, 0, 2>(), tiles.dot_s8s8<5, 0, 3>(), tiles.dot_s8s8<6, 1, 2>(),
          tiles.dot_s8s8<7, 1, 3>();
    }
  }
  alignas(64) float out[16 * 16];
  tiles.store<4>(out, 64);
  a.sink[worker->thread * 16] = out[0];
  tiles.release();
}

}  // namespace fb::FB_ISA

FB_KERNEL(probe_tiles_bf16, 1, nullptr, fb::FB_ISA::probe_tiles<true>)
FB_KERNEL(probe_tiles_int8, 1, nullptr, fb::FB_ISA::probe_tiles<false>)
