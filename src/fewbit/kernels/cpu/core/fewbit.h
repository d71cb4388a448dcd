/* The plain C interface of libfewbit: kernels, plans, the thread pool, memory.
 *
 * Conventions, for every struct here:
 *  - pointers are raw, strides are in elements, floats are f32 unless said;
 *  - fixed-width members, 8-byte ones first, so that there are no holes and ctypes can mirror it;
 *  - `rows` points to ONE int32: row counts, lengths and positions are read when the kernel runs, so that
 *    one plan serves every count up to its capacity;
 *  - kernels never start threads, never allocate, never throw; shapes were checked by the caller.
 */
#ifndef FEWBIT_H
#define FEWBIT_H
#include <stdint.h>

#define FB_ABI 1
#define FB_SCRATCH_BYTES (2 << 20) /* private scratch of a thread: about one L2 */
#define FB_PAGE_TOKENS 32          /* tokens of a key/value page */
#define FB_TOP_LOGPROBS 20         /* columns of top_ids / top_logprobs */
#define FB_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* ---- kernels and plans ------------------------------------------------------------------------------------- */

typedef struct fb_worker {
  int32_t thread, threads;
  void* scratch; /* private to the thread, 64-byte aligned */
  int64_t scratch_bytes;
} fb_worker;

typedef struct fb_kernel {
  int32_t abi;    /* FB_ABI */
  int32_t phases; /* a barrier lies between two phases and after the last */
  /* bytes of args->workspace (shared by all threads) wanted for up to max_rows rows; NULL = none */
  int64_t (*workspace_bytes)(const void* args, int64_t max_rows);
  void (*run)(const void* args, int32_t phase, const fb_worker* worker);
} fb_kernel;

typedef struct fb_step {
  const fb_kernel* kernel;
  const void* args;
  int32_t overlap; /* 1: no barrier after this step (single phase, independent of the next step) */
  int32_t reserved;
} fb_step;

typedef struct fb_pool fb_pool;

/* A row of the registry by its name; NULL when it is not compiled in. Never executes code of an ISA. */
FB_API const fb_kernel* fb_find(const char* row_name);
/* Compiled-in rows by index, in no particular order; NULL past the end. */
FB_API const char* fb_row_name(int32_t index);

/* `threads` threads, the caller of fb_run being thread 0. With `cpus`, thread i is pinned to cpus[i]: the others at
 * once, thread 0 (the calling thread) at its first fb_run until fb_pool_destroy. NULL when threads can't be had. */
FB_API fb_pool* fb_pool_create(int32_t threads, const int32_t* cpus);
FB_API void fb_pool_destroy(fb_pool* pool);
FB_API int32_t fb_pool_threads(const fb_pool* pool);
/* Runs the whole plan inside one parallel region. Concurrent callers take turns. 0, or -1 for a foreign FB_ABI. */
FB_API int32_t fb_run(fb_pool* pool, const fb_step* steps, int64_t count);

/* ---- the library and the machine --------------------------------------------------------------------------- */

FB_API const char* fb_version(void);
/* Comma list of the features this machine and its kernel grant; returns the length wanted, without the 0 byte. */
FB_API int32_t fb_cpu_features(char* out, int32_t out_bytes);
/* "sizeof field offset size ..." of an args struct, to check a ctypes mirror; length as above, -1 = unknown name. */
FB_API int32_t fb_struct_layout(const char* struct_name, char* out, int32_t out_bytes);
/* 64-byte aligned, zeroed; from 2 MiB on its own mapping, 2 MiB aligned, with huge pages asked for. NULL = no memory. */
FB_API void* fb_alloc(int64_t bytes);
FB_API void fb_free(void* memory);

/* ---- op arguments ------------------------------------------------------------------------------------------- */

/* y[m,n] (+)= x[m,:] . W[n,:] + bias[n]; with fold 2, y[m,i] = gated(that of row i, that of row n/2 + i), i below n/2 */
typedef struct fb_linear_args {
  const float* x; /* [rows, k] */
  int64_t x_stride;
  const uint8_t* weight; /* packed, 64-byte aligned */
  const float* bias;     /* [n] or NULL */
  const float* norm;     /* [k] or NULL: x is rms-normed with it first, in rows that take as many rows so */
  float* y;              /* [rows, n / fold] */
  int64_t y_stride;
  const int32_t* rows;
  void* workspace;
  int64_t n, k;
  int32_t accumulate;        /* 1 adds into y (the residual stream); not with fold 2 */
  int32_t fold;              /* 1, or 2: rows are n/2 gates and their n/2 ups; n a multiple of 64 */
  float alpha, shift, limit; /* of gated() in simd/math.h, where fold is 2 */
  float eps;                 /* of the norm */
  int32_t
      input_kind; /* how rows of 8-bit activations a row at a time quantize x: linear_i8token/quantize.h */
  float input_scale;
  int32_t input_zero, reserved;
} fb_linear_args;

/* y[r,:] = W[ids[r],:], decoded exactly from the packed tiles of a linear */
typedef struct fb_embedding_args {
  const int32_t* ids;    /* [rows], 0 <= id < n */
  const uint8_t* weight; /* packed */
  float* y;              /* [rows, k] */
  int64_t y_stride;
  const int32_t* rows;
  int64_t n, k;
} fb_embedding_args;

/* Canonical parts -> packed. A slice of rows that starts at a multiple of 32; every slice but a weight's last has a
 * multiple of 32 rows. Rows that pad the last panel have code 0 and scale 0. All parts row-major; g is the group. */
typedef struct fb_pack_args {
  const void* codes;  /* [n, k]: i8 (i*), u8 (u*), or the plain float's own 16 or 32 bits */
  const void* scale;  /* f16 [n, k/32], or what the form says, or two-level: u8 | i8 sub-scales [n, k/g] */
  const void* offset; /* f16 [n, k/32], or two-level: u8 sub-offsets [n, k/g]; NULL: scheme has none */
  const void* super_scale;  /* f16 [n, k/256], two-level only */
  const void* super_offset; /* f16 [n, k/256], two-level with offset only; subtracted: w = q*s - super*sub */
  uint8_t* packed;          /* first byte of the slice's first panel, 64-byte aligned */
  const void*
      form; /* layout n32parts: the 128 bytes at the weight's head (linear/form.h), else NULL; then offset is the
                             * extras [n, groups] and super_scale the supers, f32 [n] */
  int64_t codes_stride;       /* elements between rows of each part */
  int64_t scale_stride;       /* of scale and of offset */
  int64_t super_scale_stride; /* of super_scale and of super_offset */
  int64_t n, k;               /* rows of this slice, columns */
} fb_pack_args;

/* y = x / sqrt(mean(x^2) + eps) * weight over vectors of `dim`; vector v of row r starts at x + r*x_stride + v*dim */
typedef struct fb_rms_norm_args {
  const float* x;
  int64_t x_stride;
  const float* weight; /* [dim] */
  float* y;            /* vectors lie as in x, with y_stride; may be x */
  int64_t y_stride;
  float* residual; /* NULL, or [rows, rows_per*dim]: residual += x first (in place), and y = norm(residual) */
  int64_t residual_stride;
  const int32_t* rows;
  int64_t dim;
  int32_t rows_per; /* vectors of a row; heads for a query/key norm, else 1 */
  float eps;
} fb_rms_norm_args;

/* cos, sin of (f32)position * inv_freq[i], evaluated in double, times scale */
typedef struct fb_rope_angles_args {
  const int32_t* positions; /* [rows] */
  const float* inv_freq;    /* [half_dim] */
  float* cos;               /* [rows, half_dim] */
  float* sin;               /* [rows, half_dim] */
  const int32_t* rows;
  int64_t half_dim;
  float scale; /* attention scaling of yarn; else 1 */
  int32_t reserved;
} fb_rope_angles_args;

/* in place on [heads, head_dim] of a row; half-split pairs (i, i + rotary_dim/2) */
typedef struct fb_rope_args {
  float* x;
  int64_t x_stride;
  const float* cos; /* [rows, rotary_dim/2] */
  const float* sin; /* [rows, rotary_dim/2] */
  const int32_t* rows;
  int64_t heads, head_dim, rotary_dim;
} fb_rope_args;

/* One page of one layer: k [kv_heads][head_dim/2][32 tokens][2], v [kv_heads][16 token pairs][head_dim][2], bf16 */
typedef struct fb_kv_store_args {
  const float* k; /* [rows, kv_heads*head_dim] */
  int64_t k_stride;
  const float* v; /* [rows, kv_heads*head_dim] */
  int64_t v_stride;
  uint16_t* k_cache; /* bf16 pages */
  uint16_t* v_cache;
  const int32_t* slots; /* [rows]: page*32 + offset, -1 = skip the row */
  const int32_t* rows;
  int64_t kv_heads, head_dim;
} fb_kv_store_args;

/* y = gated(gate, up) of simd/math.h; gate = columns 0..dim-1, up = dim..2*dim-1 of gate_up */
typedef struct fb_swiglu_args {
  const float* gate_up;
  int64_t gate_up_stride;
  float* y; /* [rows, dim] */
  int64_t y_stride;
  const int32_t* rows;
  int64_t dim;
  float alpha, shift, limit;
  int32_t reserved;
} fb_swiglu_args;

/* Causal attention over paged keys and values; prefill chunks and decode steps of many sequences in one call.
 * Row i of sequence s (query rows q_start[s] .. q_start[s+1]-1) has position kv_len[s] - (its row count) + i. */
typedef struct fb_attention_args {
  const float* q; /* [rows, heads*head_dim] */
  int64_t q_stride;
  const uint16_t* k_cache; /* as in fb_kv_store_args */
  const uint16_t* v_cache;
  const int32_t* page_table; /* [seqs, page_table_stride] page numbers */
  int64_t page_table_stride;
  const int32_t* seqs;    /* one int32: sequences */
  const int32_t* q_start; /* [seqs+1] */
  const int32_t* kv_len;  /* [seqs] tokens visible, those of this step included */
  float* out;             /* [rows, heads*head_dim] */
  int64_t out_stride;
  void* workspace;
  int64_t heads, kv_heads, head_dim; /* head_dim a multiple of 16 */
  int64_t max_seqs, max_kv_len;      /* capacities, for workspace_bytes */
  float scale;
  int32_t window; /* tokens seen, the own one included; 0 = all */
} fb_attention_args;

/* y[r,:] = x[index[r],:] */
typedef struct fb_gather_rows_args {
  const float* x;
  int64_t x_stride;
  const int32_t* index; /* [rows] */
  float* y;
  int64_t y_stride;
  const int32_t* rows;
  int64_t dim;
} fb_gather_rows_args;

/* Order: temperature, top-k, top-p, min-p, renormalize, inverse CDF with `uniform` over descending probability
 * (ties by id). logprob = log-softmax of the raw logits at the chosen id. Per-row parameters are arrays [rows]. */
typedef struct fb_sample_args {
  const float* logits; /* [rows, vocab] */
  int64_t logits_stride;
  const int32_t* rows;
  const float* temperature; /* 0 = argmax, lowest id on ties */
  const int32_t* top_k;     /* 0 = off */
  const float* top_p;       /* 1 = off */
  const float* min_p;       /* 0 = off */
  const float* uniform;     /* in [0, 1) */
  const int32_t* top_n;     /* entries wanted in top_ids / top_logprobs, 0..20 */
  int32_t* ids;             /* out [rows] */
  float* logprob;           /* out [rows] */
  int32_t* top_ids;         /* out [rows, 20] */
  float* top_logprobs;      /* out [rows, 20] */
  int32_t* nan;             /* out [rows]: 1 when the row's logits hold a NaN */
  void* workspace;
  int64_t vocab;
} fb_sample_args;

#ifdef __cplusplus
}
#endif
#endif
