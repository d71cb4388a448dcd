#include "generic.h"
#include "tile_chunk.h"

FB_KERNEL_ISA(attention_bf16_bf16_paged32, 2, fb::FB_ISA::attention_workspace_bytes,
              fb::FB_ISA::attention<fb::FB_ISA::TileChunk>)
