// One step of quantized weights as BF16 tiles of their integer codes, beside the scales of its groups: a table look-up of 2 to 6
// instructions for 32 weights.
#pragma once
#include "code_table.h"
#include "linear_i8/scales.h"
#include "sweep.h"

namespace fb::FB_ISA {

template <Scheme S>
struct CodeTiles {
  static constexpr int kGroups = kStep / S.group;  // of a step
  static constexpr int kGroupBytes = 2 * S.group;  // of a row of A, and 32 times that of a half panel of B

  struct Slot {
    alignas(64) uint8_t tile[2][kTileBytes];  // [half][k/2][16 n][2] bf16 codes
    float scale[2][kGroups][kHalf];
    float offset[2][kGroups][kHalf];
  };
  static FB_INLINE void decode(const uint8_t* packed, int64_t step, int half, Slot& slot) {
    const uint8_t* block = block_of<S>(packed, step);
    const int sub = sub_block_of<S>(step);
    if (half == 0) prefetch_step<S>(packed, step);
    code_pairs<S>(block + sub * S.sub_bytes(), half, slot.tile[half]);
    unroll<kGroups>([&](auto g) FB_INLINE_LAMBDA {
      load_scale<S>(block, sub, g, half * kHalf).store(slot.scale[half][g]);
      if constexpr (S.offset) load_offset<S>(block, sub, g, half * kHalf).store(slot.offset[half][g]);
    });
  }
};

}  // namespace fb::FB_ISA
