// f32x16 as float[16]: the definition the vector versions are tested against.
#pragma once
namespace fb::FB_ISA {

struct mask16 {
  uint32_t bits;
};

struct i32x16 {
  int32_t v[16];
  static FB_INLINE i32x16 load(const void* p) {
    i32x16 r;
    memcpy(r.v, p, 64);
    return r;
  }
  static FB_INLINE i32x16 broadcast(int32_t x) {
    i32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = x;
    return r;
  }
  static FB_INLINE i32x16 zero() { return broadcast(0); }
  static FB_INLINE i32x16 iota() {
    i32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = i;
    return r;
  }
  static FB_INLINE i32x16 load_u8(const void* p) {
    i32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = static_cast<const uint8_t*>(p)[i];
    return r;
  }
  static FB_INLINE i32x16 load_i8(const void* p) {
    i32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = static_cast<const int8_t*>(p)[i];
    return r;
  }
  static FB_INLINE i32x16 load_u16(const void* p) {
    uint16_t h[16];
    memcpy(h, p, 32);
    i32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = h[i];
    return r;
  }
  FB_INLINE void store(void* p) const { memcpy(p, v, 64); }
};

struct f32x16 {
  float v[16];
  static FB_INLINE f32x16 load(const float* p) {
    f32x16 r;
    memcpy(r.v, p, 64);
    return r;
  }
  static FB_INLINE f32x16 load_partial(const float* p, int n) {
    f32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = i < n ? p[i] : 0.0f;
    return r;
  }
  static FB_INLINE f32x16 broadcast(float x) {
    f32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = x;
    return r;
  }
  static FB_INLINE f32x16 zero() { return broadcast(0.0f); }
  FB_INLINE void store(float* p) const { memcpy(p, v, 64); }
  FB_INLINE void store_partial(float* p, int n) const {
    for (int i = 0; i < n; ++i) p[i] = v[i];
  }
};

#define FB_LANES(type, expr)                    \
  type r;                                       \
  for (int i = 0; i < 16; ++i) r.v[i] = (expr); \
  return r
#define FB_LANES_MASK(expr)                                                \
  mask16 r{0};                                                             \
  for (int i = 0; i < 16; ++i) r.bits |= static_cast<uint32_t>(expr) << i; \
  return r

FB_INLINE f32x16 operator+(f32x16 a, f32x16 b) { FB_LANES(f32x16, a.v[i] + b.v[i]); }
FB_INLINE f32x16 operator-(f32x16 a, f32x16 b) { FB_LANES(f32x16, a.v[i] - b.v[i]); }
FB_INLINE f32x16 operator*(f32x16 a, f32x16 b) { FB_LANES(f32x16, a.v[i] * b.v[i]); }
FB_INLINE f32x16 operator/(f32x16 a, f32x16 b) { FB_LANES(f32x16, a.v[i] / b.v[i]); }
FB_INLINE f32x16 sqrt(f32x16 a) { FB_LANES(f32x16, __builtin_sqrtf(a.v[i])); }
FB_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  FB_LANES(f32x16, __builtin_fmaf(a.v[i], b.v[i], c.v[i]));
}
FB_INLINE f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) {
  FB_LANES(f32x16, __builtin_fmaf(-a.v[i], b.v[i], c.v[i]));
}
FB_INLINE f32x16 min(f32x16 a, f32x16 b) { FB_LANES(f32x16, a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
FB_INLINE f32x16 max(f32x16 a, f32x16 b) { FB_LANES(f32x16, a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }

FB_INLINE i32x16 operator+(i32x16 a, i32x16 b) {
  FB_LANES(i32x16, static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) + static_cast<uint32_t>(b.v[i])));
}
FB_INLINE i32x16 operator-(i32x16 a, i32x16 b) {
  FB_LANES(i32x16, static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) - static_cast<uint32_t>(b.v[i])));
}
FB_INLINE i32x16 operator&(i32x16 a, i32x16 b) { FB_LANES(i32x16, a.v[i] & b.v[i]); }
FB_INLINE i32x16 operator|(i32x16 a, i32x16 b) { FB_LANES(i32x16, a.v[i] | b.v[i]); }
FB_INLINE i32x16 operator^(i32x16 a, i32x16 b) { FB_LANES(i32x16, a.v[i] ^ b.v[i]); }
FB_INLINE i32x16 shift_left(i32x16 a, int n) {
  FB_LANES(i32x16, static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << n));
}
FB_INLINE i32x16 shift_right(i32x16 a, int n) {
  FB_LANES(i32x16, static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) >> n));
}
FB_INLINE i32x16 shift_right_signed(i32x16 a, int n) { FB_LANES(i32x16, a.v[i] >> n); }

FB_INLINE f32x16 to_f32(i32x16 a) { FB_LANES(f32x16, static_cast<float>(a.v[i])); }
FB_INLINE f32x16 as_f32(i32x16 a) {
  f32x16 r;
  memcpy(r.v, a.v, 64);
  return r;
}
FB_INLINE i32x16 as_i32(f32x16 a) {
  i32x16 r;
  memcpy(r.v, a.v, 64);
  return r;
}

FB_INLINE mask16 less(f32x16 a, f32x16 b) { FB_LANES_MASK(a.v[i] < b.v[i]); }
FB_INLINE mask16 less_equal(f32x16 a, f32x16 b) { FB_LANES_MASK(a.v[i] <= b.v[i]); }
FB_INLINE mask16 unordered(f32x16 a) { FB_LANES_MASK(a.v[i] != a.v[i]); }
FB_INLINE mask16 less(i32x16 a, i32x16 b) { FB_LANES_MASK(a.v[i] < b.v[i]); }
FB_INLINE uint32_t bits(mask16 m) { return m.bits; }
FB_INLINE f32x16 select(mask16 m, f32x16 yes, f32x16 no) {
  FB_LANES(f32x16, m.bits >> i & 1 ? yes.v[i] : no.v[i]);
}
FB_INLINE i32x16 select(mask16 m, i32x16 yes, i32x16 no) {
  FB_LANES(i32x16, m.bits >> i & 1 ? yes.v[i] : no.v[i]);
}

FB_INLINE float reduce_add(f32x16 a) {
  for (int half = 8; half; half /= 2)
    for (int l = 0; l < half; ++l) a.v[l] = a.v[l] + a.v[l + half];
  return a.v[0];
}
FB_INLINE float reduce_max(f32x16 a) {
  for (int half = 8; half; half /= 2)
    for (int l = 0; l < half; ++l) a.v[l] = a.v[l] > a.v[l + half] ? a.v[l] : a.v[l + half];
  return a.v[0];
}

// 16 consecutive half floats, widened exactly (signalling NaN becomes quiet, as vcvtph2ps does).
FB_INLINE f32x16 load_f16(const void* p) {
  uint16_t h[16];
  memcpy(h, p, 32);
  f32x16 r;
  for (int i = 0; i < 16; ++i) {
    const uint32_t sign = static_cast<uint32_t>(h[i] & 0x8000) << 16, exponent = h[i] >> 10 & 31,
                   fraction = h[i] & 1023;
    uint32_t word;
    if (exponent == 0) {
      const float x = static_cast<float>(fraction) * 0x1p-24f;
      memcpy(&word, &x, 4);
      word |= sign;
    } else if (exponent == 31)
      word = sign | 0x7f800000u | (fraction ? 0x400000u | fraction << 13 : 0);
    else
      word = sign | (exponent + 112) << 23 | fraction << 13;
    memcpy(&r.v[i], &word, 4);
  }
  return r;
}
FB_INLINE f32x16 low_f16(i32x16 a) {  // the f16 in the low half of each lane
  uint16_t h[16];
  for (int i = 0; i < 16; ++i) h[i] = static_cast<uint16_t>(a.v[i]);
  return load_f16(h);
}
FB_INLINE f32x16 load_bf16(const void* p) { return as_f32(shift_left(i32x16::load_u16(p), 16)); }
FB_INLINE void store_low16(void* p, i32x16 a) {  // the low half of each lane, 32 bytes
  uint16_t h[16];
  for (int i = 0; i < 16; ++i) h[i] = static_cast<uint16_t>(a.v[i]);
  memcpy(p, h, 32);
}

#undef FB_LANES
#undef FB_LANES_MASK
}  // namespace fb::FB_ISA
