// Peaks of the tile unit on random operands: products of 2 x 2 tiles out of registers (probe_tiles), and the same with all four
// operands loaded from L1 for each step (probe_tiles_l1), which is the inner loop of a matrix product at its best.
#include "core/kernel_entry.h"
#include "probe.h"
#include "random.h"
#include "simd/tile.h"

namespace fb::FB_ISA {

constexpr int kSteps = 8;  // of 4 KB: 32 KB of operands, inside an L1 of 48

// A bf16 of either sign in [0.5, 2), or two bytes of any value.
template <bool is_bf16>
uint16_t operand(uint64_t word) {
  return static_cast<uint16_t>(is_bf16 ? (word & 0x80ff) | 0x3f00 : word);
}

template <bool is_bf16>
FB_INLINE void two_by_two(Tiles& tiles) {  // A in tiles 0-1, B in 2-3, C in 4-7
  if constexpr (is_bf16) {
    tiles.dot_bf16<4, 0, 2>(), tiles.dot_bf16<5, 0, 3>(), tiles.dot_bf16<6, 1, 2>(),
        tiles.dot_bf16<7, 1, 3>();
  } else {
    tiles.dot_s8s8<4, 0, 2>(), tiles.dot_s8s8<5, 0, 3>(), tiles.dot_s8s8<6, 1, 2>(),
        tiles.dot_s8s8<7, 1, 3>();
  }
}

FB_INLINE void load(Tiles& tiles, const uint8_t* step) {
  tiles.load<0>(step, kTileRowBytes), tiles.load<2>(step + 2 * kTileBytes, kTileRowBytes);
  tiles.load<3>(step + 3 * kTileBytes, kTileRowBytes), tiles.load<1>(step + kTileBytes, kTileRowBytes);
}

// A round is one step of 2 x 2 products from registers, or kSteps of them from L1.
enum class Operands { registers, l1 };

template <bool is_bf16, Operands operands>
void run_tiles(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_probe_args& a = *static_cast<const fb_probe_args*>(pointer);
  alignas(64) uint8_t data[kSteps * 4 * kTileBytes];
  Random random(static_cast<uint64_t>(worker->thread));
  for (size_t i = 0; i < sizeof data; i += 2) {
    const uint16_t value = operand<is_bf16>(random.next());
    memcpy(data + i, &value, 2);
  }
  Tiles tiles;
  tiles.configure(TileConfig::full());
  tiles.zero<4>(), tiles.zero<5>(), tiles.zero<6>(), tiles.zero<7>();
  load(tiles, data);
  for (int64_t round = 0; round < a.repeats; ++round) {
    if constexpr (operands == Operands::l1) {
#pragma GCC unroll 1  // unrolled, the addresses are kept in vector registers
      for (const uint8_t* step = data; step < data + sizeof data; step += 4 * kTileBytes) {
        load(tiles, step);
        two_by_two<is_bf16>(tiles);
      }
    } else {
      two_by_two<is_bf16>(tiles);
    }
  }
  alignas(64) float out[16 * 16];
  tiles.store<4>(out, 64);
  a.sink[worker->thread * 16] = out[0];
  tiles.release();
}

constexpr auto tiles_bf16 = run_tiles<true, Operands::registers>,
               tiles_int8 = run_tiles<false, Operands::registers>;
constexpr auto tiles_l1_bf16 = run_tiles<true, Operands::l1>, tiles_l1_int8 = run_tiles<false, Operands::l1>;

}  // namespace fb::FB_ISA

FB_KERNEL(probe_tiles_bf16, 1, nullptr, fb::FB_ISA::tiles_bf16)
FB_KERNEL(probe_tiles_int8, 1, nullptr, fb::FB_ISA::tiles_int8)
FB_KERNEL(probe_tiles_l1_bf16, 1, nullptr, fb::FB_ISA::tiles_l1_bf16)
FB_KERNEL(probe_tiles_l1_int8, 1, nullptr, fb::FB_ISA::tiles_l1_int8)
