#include "f32_chunk.h"
#include "generic.h"
#include "tile_chunk.h"

FB_KERNEL_ISA(attention_bf16_f32_paged32, 2, fb::FB_ISA::attention_workspace_bytes,
              fb::FB_ISA::attention<fb::FB_ISA::F32Chunk>)
// the algorithm of amx.cpp on emulated tiles
FB_KERNEL(attention_bf16_bf16_paged32_amx_emulated, 2, fb::FB_ISA::attention_workspace_bytes,
          fb::FB_ISA::attention<fb::FB_ISA::TileChunk>)
