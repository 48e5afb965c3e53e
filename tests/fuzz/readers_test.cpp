// 9,000 mutated files through the strict readers, of which at least half are valid. `./dev fuzz
// --readers` runs more of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/random/reader_fuzz.h"

namespace tandem::testing {
namespace {

constexpr uint64_t kFiles = 1000;  // of each form

class Readers : public ::testing::TestWithParam<FileForm> {};

TEST_P(Readers, AcceptOrRefuse) {
  uint64_t accepted = 0;
  for (uint64_t seed = 0; seed < kFiles; ++seed) {
    const std::string file = mutated_file(GetParam(), seed);
    const ReaderVerdict verdict = check_reader(GetParam(), file);
    accepted += verdict.accepted;
    ASSERT_EQ(verdict.fault, "") << "seed " << seed << "\n" << file;
  }
  fmt::print("{}: {} of {} files accepted\n", name(GetParam()), accepted, kFiles);
  EXPECT_GE(2 * accepted, kFiles);
  EXPECT_LT(accepted, kFiles);
}

INSTANTIATE_TEST_SUITE_P(Short, Readers, ::testing::ValuesIn(kFileForms),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace tandem::testing
