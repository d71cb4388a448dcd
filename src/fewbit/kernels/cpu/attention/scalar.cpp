#include "f32_chunk.h"
#include "generic.h"

FB_KERNEL_ISA(attention_bf16_f32_paged32, 2, fb::FB_ISA::attention_workspace_bytes,
              fb::FB_ISA::attention<fb::FB_ISA::F32Chunk>)
