// The algorithm of amx.cpp on emulated tiles, so that it is tested on every machine.
#include "generic.h"
#include "tile_chunk.h"

FB_KERNEL(attention_bf16_bf16_paged32_amx_emulated, 2, fb::FB_ISA::attention_workspace_bytes,
          fb::FB_ISA::attention<fb::FB_ISA::TileChunk>)
