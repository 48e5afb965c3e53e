// What recurs gets code of its own: when, by whom, and that its results are the same bits.
#include "runtime/backends/recurring.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "ir/base/error.h"
#include "ir/text/text.h"
#include "runtime/backends/backends.h"

namespace tandem::runtime {
namespace {

/// Says which one it is.
class Named final : public ir::Executable {
 public:
  explicit Named(int number) : number_(number) {}
  void run(std::span<void* const>, std::span<void* const> outputs) const override {
    *static_cast<int*>(outputs[0]) = number_;
  }
  int output_from_input(int) const override { return -1; }
  ir::ExecutableReport report() const override { return {.kernels = number_}; }

 private:
  int number_;
};

int run(const ir::Executable& executable) {
  int number = 0;
  void* const output = &number;
  executable.run({}, {&output, 1});
  return number;
}

TEST(Recurring, OwnCodeComesOnceItPays) {
  const auto never =
      with_own_code(std::make_unique<Named>(1), [] { return std::make_unique<Named>(2); }, 1e9);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(*never), 1);
  const auto at_once =
      with_own_code(std::make_unique<Named>(1), [] { return std::make_unique<Named>(2); }, 0);
  EXPECT_EQ(run(*at_once), 2);
  EXPECT_EQ(at_once->report().kernels, 2);
}

TEST(Recurring, WhatFailsToCompileRunsAgain) {
  int tries = 0;
  const auto executable = with_own_code(
      std::make_unique<Named>(1),
      [&]() -> std::unique_ptr<ir::Executable> {
        if (++tries == 1) throw std::bad_alloc();
        return std::make_unique<Named>(2);
      },
      0);
  EXPECT_THROW(run(*executable), std::bad_alloc);
  EXPECT_EQ(run(*executable), 2);
  EXPECT_EQ(tries, 2);
}

TEST(Recurring, OneThreadMakesItWhileOthersGoOn) {
  std::atomic<int> made{0};
  const auto executable = with_own_code(
      std::make_unique<Named>(1), [&] { return ++made, std::make_unique<Named>(2); }, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) EXPECT_GE(run(*executable), 1);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(run(*executable), 2);
}

std::vector<float> softmax(const ir::Executable& executable, std::vector<float> x) {
  std::vector<float> y(x.size());
  void* const input = x.data();
  void* const output = y.data();
  executable.run({&input, 1}, {&output, 1});
  return y;
}

TEST(Recurring, OwnCodeGivesTheSameBits) {
  const ir::Graph graph = ir::parse(R"(graph @f core {
  in %x: f32[6, 1000] primal
  %total: f32[6, 1] = sum %x {dims=[1], keepdim=true, order=[64, 16384]}
  %wide: f32[6, 1000] = expand %total {sizes=[6, 1000]}
  %less: f32[6, 1000] = sub %x, %wide
  %y: f32[6, 1000] = exp %less
  out %y: result
  epilogue { result output 0 }
}
)");
  std::vector<float> x(6000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 1009) / 100;
  const auto executable = compile_for_any_size(graph);
  const std::vector<float> general = softmax(*executable, x);
  EXPECT_EQ(softmax(*jit_backend()->compile(graph), x), general);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(softmax(*executable, x), general);
}

}  // namespace
}  // namespace tandem::runtime
