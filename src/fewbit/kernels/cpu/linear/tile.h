// Register tile sizes per ISA, and the prefetch that both paths share.
#pragma once
#include "decode.h"
#include "decode_parts.h"
#include "finish.h"
#include "share.h"

namespace fb::FB_ISA {

// kTileRows x kTileHalves: the tile of the blocked path. kFusedRows: most rows of the fused path, whose tile is all rows x
// fused_halves(rows): at least four chains, since a chain takes a step in 4 cycles, and no more than the registers hold.
#if defined(__AVX512F__)
// 32 registers of 16 lanes: 14x2 accumulators + 2 weights + 1 activation
constexpr int kTileRows = 14, kTileHalves = 2, kFusedRows = 4;
constexpr int fused_halves(int rows) { return rows == 1 ? 4 : 2; }
#elif defined(__AVX2__)
// 16 registers of 8 lanes, a vector being two of them: 6x2 accumulators + 2 weights + 1 activation
constexpr int kTileRows = 6, kTileHalves = 1, kFusedRows = 5;
constexpr int fused_halves(int rows) { return rows <= 2 ? 2 : 1; }
#else
constexpr int kTileRows = 3, kTileHalves = 1, kFusedRows = 1;  // small: each size is one more instantiation
constexpr int fused_halves(int) { return 2; }
#endif
constexpr int kPrefetchBytes = 3072;  // distance: about 0.3 us of decoding on one core

// Lines of the packed stream that one sub-block's time should bring in. The hardware's own prefetch stops at each 4 KiB.
template <Scheme S>
FB_INLINE void prefetch_ahead(const uint8_t* block, int sub) {
  constexpr int kLines = S.block_bytes() / 64, kPerSub = (kLines + S.sub_blocks() - 1) / S.sub_blocks();
  const uint8_t* line = block + kPrefetchBytes + sub * kPerSub * 64;
  for (int i = 0; i < kPerSub; ++i) __builtin_prefetch(line + i * 64, 0, 3);
}

}  // namespace fb::FB_ISA
