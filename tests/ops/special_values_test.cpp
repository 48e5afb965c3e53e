// Every binary pointwise op on a grid of special values (NaN, infinities, -0, subnormal and extreme
// numbers), at each length from 1 to 67, so that each pair meets full vectors and masked tails:
// eager, generated code and the interpreter agree, in f32 and f64 and in the integers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/error.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "partition/partition.h"
#include "runtime/backends/backends.h"
#include "tests/support/program.h"
#include "tests/support/run_eager.h"
#include "tools/graph_runner.h"

namespace tandem::testing {
namespace {

using ir::Buffer;
using ir::DType;
using ir::Op;
using ir::ValueId;
using test::Program;

template <class T>
std::vector<ir::Number> special_floats() {
  using Limits = std::numeric_limits<T>;
  const T near_one = T{1} + Limits::epsilon();
  const T all[] = {0,
                   T{-0.0},
                   1,
                   -1,
                   T{0.5},
                   -2,
                   3,
                   near_one,
                   -near_one,
                   Limits::denorm_min(),
                   -Limits::denorm_min(),
                   Limits::min() - Limits::denorm_min(),
                   Limits::min(),
                   -Limits::min(),
                   Limits::max(),
                   -Limits::max(),
                   Limits::infinity(),
                   -Limits::infinity(),
                   Limits::quiet_NaN(),
                   T{16777216},
                   T{-7.5},
                   T{1e-30}};
  std::vector<ir::Number> out;
  for (T v : all) out.emplace_back(static_cast<double>(v));
  return out;
}

template <class T>
std::vector<ir::Number> special_integers() {
  using Limits = std::numeric_limits<T>;
  const int64_t low = Limits::min(), high = Limits::max();
  const int64_t all[] = {0, 1, 2, 3, 7, 31, low, low + 1, high, high - 1, low / 2, high / 2};
  std::vector<ir::Number> out(std::begin(all), std::end(all));
  if (low < 0) out.insert(out.end(), {int64_t{-1}, int64_t{-2}, int64_t{-7}});
  return out;
}

std::vector<ir::Number> specials(DType t) {
  switch (t) {
    case DType::F32:
      return special_floats<float>();
    case DType::F64:
      return special_floats<double>();
    case DType::I64:
      return special_integers<int64_t>();
    case DType::I32:
      return special_integers<int32_t>();
    case DType::I8:
      return special_integers<int8_t>();
    default:
      return special_integers<uint8_t>();
  }
}

std::string output_name(size_t number) { return fmt::format("y{}", number); }

/// All binary ops that take the dtype, each on the same two inputs of n elements.
Program program_of(DType t, int64_t n) {
  Program p(ir::Level::Traced, "specials");
  const ValueId x = p.input("x", {t, {n}}), y = p.input("y", {t, {n}});
  const ValueId divisor = ir::is_floating(t) ? y : p.b.where(p.b.eq(y, 0), 3, y);
  for (int i = 0; i < ir::kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    if (!ir::is_pointwise(op) || ir::is_composite(op) || ir::info(op).operands.size() != 2)
      continue;
    try {
      p.output(p.b.emit(op, {x, ir::info(op).may_fail ? divisor : y}, {}));
      p.graph.outputs().back().name = output_name(p.graph.outputs().size() - 1);
    } catch (const ir::Error&) {  // not of this dtype
    }
  }
  ir::verify(p.graph);
  return p;
}

/// Equal but for the payloads of NaNs; functions that are not exact are near.
bool agree(const ir::Number& a, const ir::Number& b, DType t, bool exact) {
  if (!ir::is_floating(t)) return a.to_int() == b.to_int();
  const double x = a.to_double(), y = b.to_double();
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (x == y) return std::signbit(x) == std::signbit(y);
  const double unit = t == DType::F32 ? 0x1p-23 : 0x1p-52;
  const double least = t == DType::F32 ? 0x1p-149 : 0x1p-1074;
  return !exact && std::abs(x - y) <= std::max(4 * unit * std::abs(y), 4 * least);
}

void compare(const ir::Graph& graph, const tools::Tensors& inputs, const tools::Tensors& got,
             const tools::Tensors& want, const char* what) {
  for (size_t o = 0; o < graph.outputs().size(); ++o) {
    const ir::EquationId e = graph.producer(graph.outputs()[o].value);
    const Op op = graph.op(e);
    const std::string name = output_name(o);
    const Buffer &a = got.at(name), &b = want.at(name);
    ASSERT_EQ(a.type(), b.type());
    for (int64_t i = 0; i < a.numel(); ++i)
      ASSERT_TRUE(agree(a.at(i), b.at(i), a.dtype(), op != Op::pow && op != Op::atan2))
          << what << ": " << ir::name(op) << "(" << inputs.at("x").at(i).to_double() << ", "
          << inputs.at("y").at(i).to_double() << "), element " << i << " of " << a.numel() << ": "
          << a.at(i).to_double() << ", expected " << b.at(i).to_double();
  }
}

class SpecialValues : public ::testing::TestWithParam<DType> {};

TEST_P(SpecialValues, AllBinaryOpsAtEachLength) {
  const DType t = GetParam();
  const std::vector<ir::Number> values = specials(t);
  const auto partitioner = partition::make_partitioner("default");
  size_t pair = 0;  // goes on from length to length: each pair comes several times
  for (int64_t n = 1; n <= 67; ++n) {
    const Program p = program_of(t, n);
    ASSERT_GT(p.graph.outputs().size(), 8u);
    tools::Tensors inputs = {{"x", Buffer({t, {n}})}, {"y", Buffer({t, {n}})}};
    for (int64_t i = 0; i < n; ++i, ++pair) {
      inputs.at("x").set(i, values[pair % values.size()]);
      inputs.at("y").set(i, values[pair / values.size() % values.size()]);
    }
    const auto run = [&](const ir::Backend& backend) {
      return tools::run_graph(p.graph, inputs, {&backend, partitioner.get(), false, 0});
    };
    const tools::Tensors want = run(*runtime::interpreter_backend());
    compare(p.graph, inputs, run(*runtime::jit_backend()), want, "jit");
    compare(p.graph, inputs, run_eager(p.graph, inputs), want, "eager");
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(pair, values.size() * values.size());
}

INSTANTIATE_TEST_SUITE_P(All, SpecialValues,
                         ::testing::Values(DType::F32, DType::F64, DType::I64, DType::I32,
                                           DType::I8, DType::U8),
                         [](const auto& t) { return std::string(ir::name(t.param)); });

}  // namespace
}  // namespace tandem::testing
