// The schemes of layout n32parts, each with its kind of codes: X(scheme, codes). registry/declare.py lists the same in PARTS.
#pragma once

// clang-format off
#define FB_PARTS_OFFSETS(X, b) X(u##b##g32o, codes##b) X(u##b##g64o, codes##b) X(u##b##g128o, codes##b)
#define FB_PARTS_INTEGERS(X, b)                                                                        \
  X(i##b##g32, codes##b) X(i##b##g64, codes##b) X(i##b##g128, codes##b) X(i##b##channel, codes##b)     \
  X(i##b##g32z, codes##b) X(i##b##g64z, codes##b) X(i##b##g128z, codes##b) X(i##b##channelz, codes##b) \
  X(u##b##g32z, codes##b) X(u##b##g64z, codes##b) X(u##b##g128z, codes##b) X(u##b##channelz, codes##b) \
  FB_PARTS_OFFSETS(X, b)

#define FB_PARTS_INTEGER_SCHEMES(X)                                                                        \
  FB_PARTS_INTEGERS(X, 2) FB_PARTS_INTEGERS(X, 3) FB_PARTS_INTEGERS(X, 4) FB_PARTS_INTEGERS(X, 8)          \
  FB_PARTS_OFFSETS(X, 5) FB_PARTS_OFFSETS(X, 6)

#define FB_PARTS_SCHEMES(X)                                                                                \
  FB_PARTS_INTEGER_SCHEMES(X)                                                                              \
  X(e4m3tensor, e4m3_codes) X(e4m3channel, e4m3_codes) X(e4m3b128x128, e4m3_codes) X(e4m3g32, e4m3_codes)  \
  X(e5m2tensor, e5m2_codes) X(e5m2channel, e5m2_codes) X(e5m2g32, e5m2_codes)                              \
  X(e2m1g32, table_codes) X(e2m1g16s, table_codes16) X(e2m1g16t, table_codes16)                            \
  X(u4g32c, table_codes) X(u4g64c, table_codes) X(u4g128c, table_codes)
// clang-format on
