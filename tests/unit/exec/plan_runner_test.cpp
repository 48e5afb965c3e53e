// Plans made by hand, with kernels that are plain C++ functions: what the runner itself does.
#include "codegen/exec/plan_runner.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "ir/base/error.h"
#include "machine/memory/arena.h"
#include "machine/threads/thread_pool.h"
#include "tests/support/threads.h"

namespace tandem::exec {
namespace {

using codegen::BufferRef;
using codegen::Instr;
using codegen::Kernel;
using codegen::KernelError;
using codegen::KernelId;
using codegen::Launch;
using codegen::MatmulCall;
using codegen::Param;
using codegen::Plan;
using codegen::PlanOutput;
using machine::arena_stats;

constexpr int64_t kUnits = 1000;

BufferRef input(int index) { return {BufferRef::Kind::Input, index, 0}; }
BufferRef output(int index) { return {BufferRef::Kind::Output, index, 0}; }
BufferRef arena(int64_t offset) { return {BufferRef::Kind::Arena, 0, offset}; }

Instr instruction(Instr::Kind kind, codegen::InstrArgs args = {}) {
  Instr i;
  i.kind = kind;
  i.args = std::move(args);
  return i;
}

/// Element u of `param`, u being the unit.
Instr at_unit(Instr i, codegen::ParamId param) {
  i.access.param = param;
  i.access.index.terms = {{{0}, 1}};
  return i;
}

/// y = x + 1, one element a unit.
Kernel increment_kernel(int64_t units) {
  Kernel k;
  k.name = "increment";
  k.params = {{ir::DType::F32, Param::Use::Read}, {ir::DType::F32, Param::Use::Write}};
  k.loops.push_back({codegen::Loop::Kind::Unit, units});
  k.code = {at_unit(instruction(Instr::Kind::Load), {0}), instruction(Instr::Kind::Constant),
            instruction(Instr::Kind::Compute, {{0}, {1}}),
            at_unit(instruction(Instr::Kind::Store, {{2}}), {1})};
  k.code[1].number = 1.0;
  k.code[2].op = ir::Op::add;
  return k;
}

PlanOutput output_at(int from_input, int into_input) {
  PlanOutput out;
  out.from_input = from_input;
  out.into_input = into_input;
  return out;
}

int64_t increment(void* const* params, int64_t begin, int64_t end, void*, KernelError*) {
  const auto* x = static_cast<const float*>(params[0]);
  auto* y = static_cast<float*>(params[1]);
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] + 1;
  return 0;
}

/// Fails at every unit from 400 on, as an index that is too large would.
int64_t fail_late(void* const*, int64_t begin, int64_t end, void*, KernelError* error) {
  for (int64_t i = begin; i < end; ++i) {
    if (i < 400) continue;
    *error = {3, i, 400};
    return 1;
  }
  return 0;
}

/// Fills its scratch and checks that nobody else wrote to it.
int64_t use_scratch(void* const* params, int64_t begin, int64_t end, void* scratch, KernelError*) {
  auto* bytes = static_cast<uint8_t*>(scratch);
  for (int64_t i = begin; i < end; ++i) {
    std::memset(bytes, static_cast<int>(i), 4096);
    float sum = 0;
    for (int j = 0; j < 4096; ++j) sum += static_cast<float>(bytes[j]);
    static_cast<float*>(params[0])[i] = sum;
  }
  return 0;
}

/// x + 1 + 1 by way of the arena.
Plan two_increments(PlanOutput out = {}) {
  Plan p;
  p.name = "two_increments";
  p.inputs.resize(1);
  p.outputs = {std::move(out)};
  p.kernels = {increment_kernel(kUnits)};
  p.arena_bytes = kUnits * 4 + 64;
  p.steps = {Launch{{0}, kUnits, 100, {input(0), arena(64)}, {}},
             Launch{{0}, kUnits, 100, {arena(64), output(0)}, {}}};
  return p;
}

using testing::Threads;

std::vector<float> run(const PlanRunner& runner, std::vector<float> x) {
  std::vector<float> y(kUnits);
  void* in[] = {x.data()};
  void* out[] = {y.data()};
  runner.run(in, out);
  return y;
}

TEST(PlanRunner, LaunchesRunInOrder) {
  const PlanRunner runner(two_increments(), {{increment}, nullptr});
  for (const int threads : {1, 3}) {
    const Threads set(threads);
    EXPECT_EQ(run(runner, std::vector<float>(kUnits, 5)), std::vector<float>(kUnits, 7));
  }
  EXPECT_EQ(arena_stats().leased_bytes, 0u);
}

TEST(PlanRunner, WithoutCodeKernelsAreInterpreted) {
  const PlanRunner runner(two_increments(), {});
  EXPECT_EQ(run(runner, std::vector<float>(kUnits, 5)), std::vector<float>(kUnits, 7));
}

TEST(PlanRunner, WritesIntoAnInput) {
  const PlanRunner runner(two_increments(output_at(-1, 0)), {{increment}, nullptr});
  std::vector<float> x(kUnits, 5);
  void* in[] = {x.data()};
  void* out[] = {nullptr};
  runner.run(in, out);
  EXPECT_EQ(x, std::vector<float>(kUnits, 7));
}

TEST(PlanRunner, TheFirstFailureIsReported) {
  Plan p = two_increments();
  Kernel& k = p.kernels[KernelId{0}];
  k.code[3].access.indirect = {{{0}, 1, 400}};
  std::get<Launch>(p.steps[0]).checks = {"gather: x [400] (here.cpp:1)"};
  const PlanRunner runner(p, {{fail_late}, nullptr});
  for (const int threads : {1, 2, 5}) {
    const Threads set(threads);
    try {
      run(runner, std::vector<float>(kUnits));
      FAIL() << "no error";
    } catch (const ir::Error& e) {
      EXPECT_EQ(e.code(), ir::Errc::Index);
      EXPECT_STREQ(
          e.what(),
          "gather: x [400] (here.cpp:1): index out of range; expected 0 <= index < 400, got 400");
    }
  }
  EXPECT_EQ(arena_stats().leased_bytes, 0u);
}

TEST(PlanRunner, EveryThreadHasItsOwnScratch) {
  const Threads set(4);
  Plan p;
  p.outputs.resize(1);
  p.kernels.resize(1);
  p.kernels[KernelId{0}].params = {{ir::DType::F32, Param::Use::Write}};
  p.kernels[KernelId{0}].locals = {{ir::DType::U8, 4096}};
  p.steps = {Launch{{0}, kUnits, 1, {output(0)}, {}}};
  const PlanRunner runner(p, {{use_scratch}, nullptr});
  std::vector<float> y(kUnits);
  void* out[] = {y.data()};
  runner.run(nullptr, out);
  for (int64_t i = 0; i < kUnits; ++i) ASSERT_EQ(y[i], 4096.0f * static_cast<float>(i % 256));
}

TEST(PlanRunner, LibraryCalls) {
  Plan p;
  p.inputs.resize(2);
  p.outputs.resize(1);
  MatmulCall c{.spec = machine::dense_matmul(1, 2, 3, 2)};
  c.a = input(0), c.b = input(1), c.c = output(0);
  MatmulCall again = c;
  again.spec.accumulate = true;
  p.steps = {c, again};
  const PlanRunner runner(p, {});

  std::vector<float> a = {1, 2, 3, 4}, b = {1, 0, 1, 0, 1, 1}, y(6);
  void* in[] = {a.data(), b.data()};
  void* out[] = {y.data()};
  runner.run(in, out);
  EXPECT_EQ(y, (std::vector<float>{2, 4, 6, 6, 8, 14}));
}

TEST(PlanRunner, ManyThreadsCallAtOnce) {
  const Threads set(3);
  const PlanRunner runner(two_increments(), {{increment}, nullptr});
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      const std::vector<float> x(kUnits, static_cast<float>(t)),
          expected(kUnits, static_cast<float>(t + 2));
      for (int round = 0; round < 200; ++round) ASSERT_EQ(run(runner, x), expected);
    });
  }
  for (std::thread& t : callers) t.join();
}

TEST(PlanRunner, BrokenPlansAreFound) {
  Plan kernel = two_increments();
  std::get<Launch>(kernel.steps[0]).kernel = {1};
  Plan params = two_increments();
  std::get<Launch>(params.steps[0]).params.pop_back();
  Plan number = two_increments();
  std::get<Launch>(number.steps[0]).params[0] = input(1);
  Plan offset = two_increments();
  std::get<Launch>(offset.steps[0]).params[1] = arena(1 << 20);
  for (const Plan& p : {kernel, params, number, offset, two_increments(output_at(0, -1))})
    EXPECT_THROW(PlanRunner(p, {{increment}, nullptr}), ir::InternalError);
  EXPECT_THROW(PlanRunner(two_increments(), {{increment, increment}, nullptr}), ir::InternalError);
}

TEST(Executable, RunsOnAddressesAndReports) {
  Plan p = two_increments();
  p.report = {.kernels = 2, .distinct_kernels = 1, .arena_bytes = p.arena_bytes};
  const auto executable = make_executable(p, {{increment}, nullptr}, {0.5, 0.25});
  std::vector<float> x(kUnits, 1), y(kUnits);
  void *in = x.data(), *out = y.data();
  executable->run({&in, 1}, {&out, 1});
  EXPECT_EQ(y, std::vector<float>(kUnits, 3));
  EXPECT_EQ(executable->output_from_input(0), -1);
  EXPECT_EQ(executable->report().kernels, 2);
  EXPECT_EQ(executable->report().codegen_seconds, 0.25);
  EXPECT_THROW(executable->run({}, {&out, 1}), ir::InternalError);
}

}  // namespace
}  // namespace tandem::exec
