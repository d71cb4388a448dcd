// Functions of simd/ over arrays, for test_simd.py, which compiles this file once per instruction set.
#include "simd/bf16.h"
#include "simd/math.h"
#include "simd/tile.h"

using namespace fb::FB_ISA;

#define PROBE(name, in_type, out_type, expression)                     \
  extern "C" void name(const in_type* x, out_type* y, int64_t count) { \
    for (int64_t i = 0; i < count; i += 16) expression;                \
  }

PROBE(probe_exp, float, float, exp(f32x16::load(x + i)).store(y + i))
PROBE(probe_exp_nonpositive, float, float, exp_nonpositive(f32x16::load(x + i)).store(y + i))
PROBE(probe_log, float, float, log(f32x16::load(x + i)).store(y + i))
PROBE(probe_silu, float, float, silu(f32x16::load(x + i)).store(y + i))
PROBE(probe_f16, uint16_t, float, load_f16(x + i).store(y + i))
PROBE(probe_bf16, uint16_t, float, load_bf16(x + i).store(y + i))
PROBE(probe_to_bf16, float, uint16_t, store_bf16(y + i, f32x16::load(x + i)))
PROBE(probe_even_bf16, float, float, even_bf16(i32x16::load(x + i)).store(y + i))
PROBE(probe_odd_bf16, float, float, odd_bf16(i32x16::load(x + i)).store(y + i))
PROBE(probe_reduce_add, float, float, f32x16::broadcast(reduce_add(f32x16::load(x + i))).store(y + i))
PROBE(probe_reduce_max, float, float, f32x16::broadcast(reduce_max(f32x16::load(x + i))).store(y + i))
PROBE(probe_partial, float, float,
      f32x16::load_partial(x + i, static_cast<int>(i / 16 % 17))
          .store_partial(y + i, static_cast<int>(i / 272 % 17)))
PROBE(probe_min, float, float, min(f32x16::load(x + i), f32x16::load(x)).store(y + i))
PROBE(probe_max, float, float, max(f32x16::load(x + i), f32x16::load(x)).store(y + i))
PROBE(probe_fma, float, float, fma(f32x16::load(x + i), f32x16::load(x), f32x16::load(x + 16)).store(y + i))
PROBE(probe_fnma, float, float, fnma(f32x16::load(x + i), f32x16::load(x), f32x16::load(x + 16)).store(y + i))
PROBE(probe_less, float, float,
      select(less(f32x16::load(x + i), f32x16::load(x)), f32x16::load(x), f32x16::load(x + 16)).store(y + i))
PROBE(probe_fields, uint32_t, float, field_f32(i32x16::load(x + i), 5, i32x16::broadcast(31)).store(y + i))
PROBE(probe_signed, int8_t, float, to_f32(i32x16::load_i8(x + i)).store(y + i))
PROBE(probe_unsigned, uint8_t, float, to_f32(i32x16::load_u8(x + i)).store(y + i))

// c[rows, n] += a . b with tiles of these shapes; a: rows x k_bytes, b: k_bytes/4 x n words. kind: 0 bf16, 1 s8s8, 2 s8u8, 3 u8s8, 4 u8u8
extern "C" void probe_tile(const void* a, const void* b, void* c, int32_t rows, int32_t n, int32_t k_bytes,
                           int32_t kind) {
  TileConfig config;
  config.shape(0, rows, n * 4).shape(1, rows, k_bytes).shape(2, k_bytes / 4, n * 4);
  Tiles tiles;
  tiles.configure(config);
  tiles.load<0>(c, n * 4);
  tiles.load<1>(a, k_bytes);
  tiles.load_once<2>(b, n * 4);
  if (kind == 0) tiles.dot_bf16<0, 1, 2>();
  if (kind == 1) tiles.dot_s8s8<0, 1, 2>();
  if (kind == 2) tiles.dot_s8u8<0, 1, 2>();
  if (kind == 3) tiles.dot_u8s8<0, 1, 2>();
  if (kind == 4) tiles.dot_u8u8<0, 1, 2>();
  tiles.store<0>(c, n * 4);
  tiles.release();
}
