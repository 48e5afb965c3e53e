// 3,000 random programs of views and writes over inputs that alias, in parts that run side by side:
// most on the interpreter backend, some through the JIT. `./dev fuzz --aliasing` runs more of them.
#include <gtest/gtest.h>

#include "runtime/backends/backends.h"
#include "tests/support/random/alias_program.h"

namespace tandem::testing {
namespace {

constexpr uint64_t kParts = 10, kInterpreted = 270, kCompiled = 30;

void check_range(uint64_t from, uint64_t count, const std::shared_ptr<const ir::Backend>& backend) {
  for (uint64_t seed = from; seed < from + count; ++seed) {
    const AliasProgram program = random_alias_program(seed);
    const AliasVerdict verdict = check_alias_program(program, backend);
    ASSERT_EQ(verdict.difference, "") << to_string(program);
  }
}

class Aliasing : public ::testing::TestWithParam<uint64_t> {};

TEST_P(Aliasing, RandomProgramsAgree) {
  const uint64_t from = GetParam() * (kInterpreted + kCompiled);
  check_range(from, kInterpreted, runtime::interpreter_backend());
  check_range(from + kInterpreted, kCompiled, runtime::jit_backend());
}

INSTANTIATE_TEST_SUITE_P(Short, Aliasing, ::testing::Range(uint64_t{0}, kParts));

}  // namespace
}  // namespace tandem::testing
