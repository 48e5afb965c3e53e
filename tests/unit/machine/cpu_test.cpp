#include "machine/cpu.h"

#include <gtest/gtest.h>

#include "ir/base/error.h"
#include "machine/threads/processors.h"

namespace tandem::machine {
namespace {

TEST(Cpu, FeaturesAreConsistent) {
  const CpuFeatures& f = cpu_features();
  EXPECT_EQ(&f, &cpu_features());
  EXPECT_EQ(f.vector_bytes, f.avx512 ? 64 : f.avx2 ? 32 : 16);
  EXPECT_TRUE(!f.avx512 || (f.avx2 && f.fma && f.f16c));
  EXPECT_TRUE(f.avx512 || !(f.avx512_bf16 || f.avx512_vnni || f.amx_tile));
  EXPECT_TRUE(f.amx_tile || !(f.amx_bf16 || f.amx_int8));
}

TEST(Cpu, LoweringOnlyTakesAway) {
  CpuFeatures all{true, true, true, true, true, true, true, true, true, true, 64};
  EXPECT_EQ(lower_features(all, "avx512"), all);

  const CpuFeatures avx2 = lower_features(all, "avx2");
  EXPECT_EQ(avx2.vector_bytes, 32);
  EXPECT_TRUE(avx2.avx2 && avx2.fma);
  EXPECT_FALSE(avx2.avx512 || avx2.avx512_bf16 || avx2.avx512_vnni);
  EXPECT_FALSE(avx2.amx_tile || avx2.amx_bf16 || avx2.amx_int8);

  const CpuFeatures sse = lower_features(all, "sse");
  EXPECT_EQ(sse.vector_bytes, 16);
  EXPECT_FALSE(sse.avx2 || sse.fma || sse.f16c);
  EXPECT_EQ(lower_features(CpuFeatures{}, "avx512"), CpuFeatures{});
}

TEST(Cpu, WaysOfTheFirstLevelCache) {
  const int64_t ways = first_level_ways();
  EXPECT_EQ(ways, first_level_ways());
  EXPECT_TRUE(ways == 0 || (ways >= 2 && ways <= 64)) << ways;
}

TEST(Cpu, LastLevelCache) {
  const int64_t bytes = last_level_cache_bytes();
  EXPECT_EQ(bytes, last_level_cache_bytes());
  EXPECT_TRUE(bytes == 0 || bytes >= (1 << 15)) << bytes;
}

TEST(Cpu, OurPartOfTheLastLevelCache) {
  EXPECT_LE(own_cache_bytes(), last_level_cache_bytes());
  EXPECT_LE(own_cache_bytes(), int64_t{available_processors()} << 24);
  EXPECT_EQ(own_cache_bytes() > 0, last_level_cache_bytes() > 0);
}

TEST(Cpu, AnUnknownInstructionSetIsAnError) {
  EXPECT_THROW(lower_features(CpuFeatures{}, "avx1024"), ir::Error);
}

TEST(Cpu, FeatureStringNamesWhatIsThere) {
  CpuFeatures f{.sse42 = true, .avx2 = true, .fma = true};
  EXPECT_EQ(feature_string(f), "+sse4.2,+popcnt,+avx,+avx2,+fma");
  EXPECT_EQ(feature_string(CpuFeatures{}), "");
}

}  // namespace
}  // namespace tandem::machine
