// f16 and bf16: every pattern against its definition, and what lies between neighbours.
#include "ir/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tandem::ir {
namespace {

/// How a format's patterns are made up.
struct Format {
  int mantissa_bits, bias;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);

  int infinity() const { return 0x7fff >> mantissa_bits << mantissa_bits; }
  /// Of a finite pattern without sign.
  double value(int pattern) const {
    const int exponent = pattern >> mantissa_bits, mantissa = pattern & ((1 << mantissa_bits) - 1);
    const int leading = exponent > 0 ? 1 << mantissa_bits : 0;
    return std::ldexp(leading + mantissa, std::max(exponent, 1) - bias - mantissa_bits);
  }
};

class Half : public testing::TestWithParam<Format> {};

TEST_P(Half, WidensEveryPattern) {
  const Format& f = GetParam();
  for (int pattern = 0; pattern <= 0x7fff; ++pattern)
    for (const bool negative : {false, true}) {
      const float got = f.widen(static_cast<uint16_t>(pattern | (negative ? 0x8000 : 0)));
      EXPECT_EQ(std::signbit(got), negative) << pattern;
      if (pattern < f.infinity())
        EXPECT_EQ(std::abs(got), f.value(pattern)) << pattern;
      else if (pattern == f.infinity())
        EXPECT_EQ(std::abs(got), std::numeric_limits<float>::infinity());
      else
        EXPECT_TRUE(std::isnan(got)) << pattern;
    }
}

TEST_P(Half, NarrowsWhatItHolds) {
  const Format& f = GetParam();
  for (int pattern = 0; pattern <= 0xffff; ++pattern) {
    const bool is_nan = (pattern & 0x7fff) > f.infinity();
    const int quiet = is_nan ? pattern | 1 << (f.mantissa_bits - 1) : pattern;
    EXPECT_EQ(f.narrow(f.widen(static_cast<uint16_t>(pattern))), quiet) << pattern;
  }
}

/// What lies between two neighbours becomes the nearer one, in the middle the even one; infinity
/// follows on the largest number as if it were the next.
TEST_P(Half, RoundsToNearestEven) {
  const Format& f = GetParam();
  for (int below = 0; below < f.infinity(); ++below) {
    const auto middle = static_cast<float>((f.value(below) + f.value(below + 1)) / 2);
    const int even = below + (below & 1);
    for (const int sign : {1, -1}) {
      const int bit = sign < 0 ? 0x8000 : 0;
      EXPECT_EQ(f.narrow(static_cast<float>(sign) * middle), bit | even) << below;
      EXPECT_EQ(f.narrow(static_cast<float>(sign) * std::nextafter(middle, 0.0F)), bit | below);
      EXPECT_EQ(f.narrow(static_cast<float>(sign) * std::nextafter(middle, INFINITY)),
                bit | (below + 1));
    }
  }
}

TEST_P(Half, NarrowsWhatIsBeyond) {
  const Format& f = GetParam();
  EXPECT_EQ(f.narrow(std::numeric_limits<float>::max()), f.infinity());
  EXPECT_EQ(f.narrow(-std::numeric_limits<float>::infinity()), f.infinity() | 0x8000);
  EXPECT_EQ(f.narrow(-std::numeric_limits<float>::denorm_min()), 0x8000);
  for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffc00000u}) {
    const uint16_t narrow = f.narrow(std::bit_cast<float>(bits));
    EXPECT_GT(narrow & 0x7fff, f.infinity());
    EXPECT_EQ(narrow >> 15, bits >> 31);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Half,
                         testing::Values(Format{10, 15, f16_to_float, float_to_f16},
                                         Format{7, 127, bf16_to_float, float_to_bf16}),
                         [](const auto& tested) { return tested.index == 0 ? "f16" : "bf16"; });

}  // namespace
}  // namespace tandem::ir
