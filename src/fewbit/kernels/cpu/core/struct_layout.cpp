// fb_struct_layout: the layout of each args struct as text, for the test of the ctypes mirror.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "fewbit.h"

namespace {
struct Field {
  const char* name;
  size_t offset, bytes;
};

template <int count>
int32_t write(size_t struct_bytes, const Field (&fields)[count], char* out, int32_t out_bytes) {
  int32_t length = snprintf(out, out_bytes, "%zu", struct_bytes);
  for (const Field& f : fields) {
    const int32_t left = length < out_bytes ? out_bytes - length : 0;
    length += snprintf(left ? out + length : nullptr, left, " %s %zu %zu", f.name, f.offset, f.bytes);
  }
  return length;
}
}  // namespace

#define STRUCT(type, ...)                            \
  if (strcmp(struct_name, #type) == 0) {             \
    using T = type;                                  \
    static const Field fields[] = {__VA_ARGS__};     \
    return write(sizeof(T), fields, out, out_bytes); \
  }
#define F(field) {#field, offsetof(T, field), sizeof(T::field)}

int32_t fb_struct_layout(const char* struct_name, char* out, int32_t out_bytes) {
  STRUCT(fb_worker, F(thread), F(threads), F(scratch), F(scratch_bytes))
  STRUCT(fb_kernel, F(abi), F(phases), F(workspace_bytes), F(run))
  STRUCT(fb_step, F(kernel), F(args), F(overlap), F(reserved))
  STRUCT(fb_linear_args, F(x), F(x_stride), F(weight), F(bias), F(norm), F(y), F(y_stride), F(rows),
         F(workspace), F(n), F(k), F(accumulate), F(fold), F(alpha), F(shift), F(limit), F(eps),
         F(input_kind), F(input_scale), F(input_zero), F(reserved))
  STRUCT(fb_embedding_args, F(ids), F(weight), F(y), F(y_stride), F(rows), F(n), F(k))
  STRUCT(fb_pack_args, F(codes), F(scale), F(offset), F(super_scale), F(super_offset), F(packed), F(form),
         F(codes_stride), F(scale_stride), F(super_scale_stride), F(n), F(k))
  STRUCT(fb_rms_norm_args, F(x), F(x_stride), F(weight), F(y), F(y_stride), F(residual), F(residual_stride),
         F(rows), F(dim), F(rows_per), F(eps))
  STRUCT(fb_rope_angles_args, F(positions), F(inv_freq), F(cos), F(sin), F(rows), F(half_dim), F(scale),
         F(reserved))
  STRUCT(fb_rope_args, F(x), F(x_stride), F(cos), F(sin), F(rows), F(heads), F(head_dim), F(rotary_dim))
  STRUCT(fb_kv_store_args, F(k), F(k_stride), F(v), F(v_stride), F(k_cache), F(v_cache), F(slots), F(rows),
         F(kv_heads), F(head_dim))
  STRUCT(fb_swiglu_args, F(gate_up), F(gate_up_stride), F(y), F(y_stride), F(rows), F(dim), F(alpha),
         F(shift), F(limit), F(reserved))
  STRUCT(fb_attention_args, F(q), F(q_stride), F(k_cache), F(v_cache), F(page_table), F(page_table_stride),
         F(seqs), F(q_start), F(kv_len), F(out), F(out_stride), F(workspace), F(heads), F(kv_heads),
         F(head_dim), F(max_seqs), F(max_kv_len), F(scale), F(window))
  STRUCT(fb_gather_rows_args, F(x), F(x_stride), F(index), F(y), F(y_stride), F(rows), F(dim))
  STRUCT(fb_sample_args, F(logits), F(logits_stride), F(rows), F(temperature), F(top_k), F(top_p), F(min_p),
         F(uniform), F(top_n), F(ids), F(logprob), F(top_ids), F(top_logprobs), F(nan), F(workspace),
         F(vocab))
  return -1;
}
