// kv_store: writes this step's keys and values into bf16 pages of 32 tokens.
//   K page of a head: [head_dim/2][32 tokens][2]   one 32-bit word = the pair (d, d+1) of a token; 128 B between pairs
//   V page of a head: [16 token pairs][head_dim][2] one 32-bit word = (token, token+1) of a d; this token owns half of each word
// A unit of work is one head of 32 rows: neighbouring tokens share cache lines, so a page is better not split over threads.
#pragma once
#include "core/kernel_entry.h"
#include "simd/bf16.h"
#include "simd/share.h"

namespace fb::FB_ISA {

inline void store_key(const float* k, uint32_t* page_token, int64_t head_dim) {
  for (int64_t d = 0; d < head_dim; d += kLanes) {
    uint32_t half[kLanes];
    to_bf16(f32x16::load(k + d)).store(half);
    for (int i = 0; i < kLanes; i += 2)
      page_token[(d + i) / 2 * FB_PAGE_TOKENS] = half[i] | half[i + 1] << 16;
  }
}

inline void store_value(const float* v, uint16_t* page_token, int64_t head_dim) {
  for (int64_t d = 0; d < head_dim; d += kLanes) {
    uint32_t half[kLanes];
    to_bf16(f32x16::load(v + d)).store(half);
    for (int i = 0; i < kLanes; ++i) page_token[(d + i) * 2] = static_cast<uint16_t>(half[i]);
  }
}

inline void kv_store(const void* pointer, int32_t, const fb_worker* worker) {
  const fb_kv_store_args& a = *static_cast<const fb_kv_store_args*>(pointer);
  const int64_t rows = *a.rows, blocks = (rows + FB_PAGE_TOKENS - 1) / FB_PAGE_TOKENS;
  const int64_t head_page_elems = FB_PAGE_TOKENS * a.head_dim;
  const Share share = share_of(blocks * a.kv_heads, worker);
  for (int64_t unit = share.begin; unit < share.end; ++unit) {
    const int64_t head = unit % a.kv_heads, first = unit / a.kv_heads * FB_PAGE_TOKENS;
    const int64_t end = first + FB_PAGE_TOKENS < rows ? first + FB_PAGE_TOKENS : rows;
    for (int64_t row = first; row < end; ++row) {
      const int64_t slot = a.slots[row];
      if (slot < 0) continue;
      const int64_t page = slot / FB_PAGE_TOKENS, token = slot % FB_PAGE_TOKENS;
      const int64_t page_offset = (page * a.kv_heads + head) * head_page_elems;
      uint32_t* key_page = reinterpret_cast<uint32_t*>(a.k_cache + page_offset);
      uint16_t* value_page = a.v_cache + page_offset;
      store_key(a.k + row * a.k_stride + head * a.head_dim, key_page + token, a.head_dim);
      store_value(a.v + row * a.v_stride + head * a.head_dim,
                  value_page + token / 2 * a.head_dim * 2 + token % 2, a.head_dim);
    }
  }
}

}  // namespace fb::FB_ISA

FB_KERNEL_ISA(kv_store_bf16_f32_paged32, 1, nullptr, fb::FB_ISA::kv_store)
