// Every pointwise op and every reduction of values on special ones (NaN, infinities, -0, subnormal
// and extreme numbers), in every dtype: each pair of them in every place of full vectors and of
// masked tails. Eager, generated code and the interpreter agree.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ir/base/error.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "machine/cpu.h"
#include "partition/partition.h"
#include "runtime/backends/backends.h"
#include "runtime/compile/pipeline.h"
#include "tests/support/program.h"
#include "tests/support/run_eager.h"

namespace tandem::testing {
namespace {

using ir::Buffer;
using ir::DType;
using ir::Op;
using ir::ValueId;
using test::Program;

// --- the values

/// What tells floating dtypes apart.
struct Format {
  double epsilon, least, normal, most;
};
Format format_of(DType t) {
  switch (t) {
    case DType::F64:
      return {0x1p-52, 0x1p-1074, 0x1p-1022, std::numeric_limits<double>::max()};
    case DType::BF16:
      return {0x1p-7, 0x1p-133, 0x1p-126, 0x1.fep127};
    case DType::F16:
      return {0x1p-10, 0x1p-24, 0x1p-14, 65504};
    default:
      return {0x1p-23, 0x1p-149, 0x1p-126, std::numeric_limits<float>::max()};
  }
}

std::vector<ir::Number> special_floats(DType t) {
  const Format f = format_of(t);
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const double with_payload = std::bit_cast<double>(uint64_t{0x7ffa5a5a5a5a5a5a});
  const double near_one = 1 + f.epsilon;
  const double all[] = {0,        -0.0,          1,         -1,      0.5,      -2,
                        3,        near_one,      -near_one, f.least, -f.least, f.normal - f.least,
                        f.normal, -f.normal,     f.most,    -f.most, infinity, -infinity,
                        nan,      -with_payload, -7.5,      1000};
  return std::vector<ir::Number>(std::begin(all), std::end(all));
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
    case DType::I64:
      return special_integers<int64_t>();
    case DType::I32:
      return special_integers<int32_t>();
    case DType::I16:
      return special_integers<int16_t>();
    case DType::I8:
      return special_integers<int8_t>();
    case DType::U8:
      return special_integers<uint8_t>();
    case DType::Bool:
      return {false, true};
    default:
      return special_floats(t);
  }
}

// --- the programs

constexpr DType kDTypes[] = {DType::F64, DType::F32, DType::BF16, DType::F16, DType::I64,
                             DType::I32, DType::I16, DType::I8,   DType::U8,  DType::Bool};

using Attrs = std::vector<ir::AttrValue>;

/// Attributes of an op with which it takes its operands; none for ops that are no function of
/// single elements.
std::vector<Attrs> attributes_of(Op op, DType t) {
  std::vector<Attrs> all;
  switch (op) {
    case Op::leaky_relu:
    case Op::elu:
    case Op::celu:
      return {{0.3}};
    case Op::gelu:
      return {{std::string("none")}, {std::string("tanh")}};
    case Op::softplus:
      return {{2.0, 20.0}};
    case Op::addcmul:
    case Op::addcdiv:
      return {{ir::Number(2)}};
    case Op::polygamma:
      return {{int64_t{1}}, {int64_t{2}}};
    case Op::convert:
      for (DType to : kDTypes) all.push_back({to});
      return all;
    case Op::bitcast:  // of floats it shows the payload of NaN
      for (DType to : kDTypes)
        if (!ir::is_floating(t) && t != DType::Bool && to != DType::Bool) all.push_back({to});
      return all;
    default:
      return ir::info(op).attrs.empty() ? std::vector<Attrs>{{}} : std::vector<Attrs>{};
  }
}

std::string output_name(size_t number) { return fmt::format("y{}", number); }

void add_output(Program& p, ValueId v) {
  p.output(v);
  p.graph.outputs().back().name = output_name(p.graph.outputs().size() - 1);
}

template <class F>
void if_taken(F f) {
  try {
    f();
  } catch (const ir::Error&) {  // not of this dtype
  }
}

/// How many calls a pointwise program may have.
constexpr int64_t kMostCalls = 180;

/// x, y and z of n elements as an op takes them.
std::vector<ValueId> operands_of(Program& p, Op op, ValueId x, ValueId y, ValueId z) {
  const DType t = p.graph.type(x).dtype;
  if (op == Op::where) return {p.b.ne(x, y), x, y};
  if (op == Op::masked_fill) return {x, p.b.ne(x, y), y};
  if (ir::info(op).effect == ir::Effect::MayFail && ir::is_integer(t))
    y = p.b.where(p.b.eq(y, 0), 3, y);
  std::vector<ValueId> operands{x, y, z, y};
  operands.resize(ir::info(op).operands.size());
  return operands;
}

/// All pointwise ops that take the dtype, each on elements of its own: what is loaded for one op
/// alone is what LLVM combines with it.
Program pointwise_program(DType t, int64_t n) {
  Program p(ir::Level::Traced, "pointwise");
  const ir::Type type{t, {kMostCalls, n}};
  const ValueId all[] = {p.input("x", type), p.input("y", type), p.input("z", type)};
  for (int i = 0; i < ir::kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    if (!ir::is_pointwise(op) || op == Op::copy) continue;
    for (const Attrs& attrs : attributes_of(op, t)) {
      const auto number = static_cast<int64_t>(p.graph.outputs().size());
      const auto part = [&](ValueId v) { return p.b.select(v, 0, number); };
      if_taken([&] {
        const ValueId x = part(all[0]), y = part(all[1]), z = part(all[2]);
        add_output(p, p.b.emit(op, operands_of(p, op, x, y, z), attrs));
      });
    }
  }
  ir::verify(p.graph);
  return p;
}

/// All reductions that give one of their elements, or of integers any, of x as one row, as rows and
/// as columns. (Sums of floats depend on the order where they overflow.)
Program reduction_program(DType t, int64_t n) {
  Program p(ir::Level::Traced, "reductions");
  const ValueId x = p.input("x", {t, {6 * n}});
  const ValueId line = p.b.slice(x, 0, 0, n, 1), rows = p.b.view(x, {6, n}),
                columns = p.b.view(x, {n, 6});
  for (Op op : {Op::amax, Op::amin, Op::argmax, Op::argmin, Op::any, Op::all, Op::sum, Op::prod}) {
    if (ir::is_floating(t) && (op == Op::sum || op == Op::prod)) continue;
    const auto reduce = [&](ValueId v, ir::Axis dim) {
      if_taken([&] { add_output(p, p.b.reduce(op, v, ir::Axes{dim})); });
    };
    reduce(line, 0);
    reduce(rows, 1);
    reduce(columns, 0);
  }
  ir::verify(p.graph);
  return p;
}

// --- running them

/// A program compiled once.
class Compiled {
 public:
  Compiled(const ir::Graph& forward, const ir::Backend& backend)
      : forward_(forward), executable_(backend.compile(forward)) {}

  /// The results of which there is memory: an untouched operand may be one.
  std::vector<Buffer> run(std::vector<Buffer> inputs) const {
    std::vector<void*> in, out;
    std::vector<Buffer> outputs;
    for (Buffer& input : inputs) in.push_back(input.data());
    for (const ir::Output& output : forward_.outputs())
      outputs.emplace_back(forward_.type(output.value));
    for (size_t k = 0; k < outputs.size(); ++k) {
      const int same = executable_->output_from_input(static_cast<int>(k));
      if (same >= 0) outputs[k] = inputs[static_cast<size_t>(same)];
      out.push_back(outputs[k].data());
    }
    executable_->run(in, out);
    std::vector<Buffer> results;
    for (const ir::ResultSource& source : forward_.epilogue.results) {
      const bool computed = source.kind == ir::ResultSource::Kind::Output;
      results.push_back((computed ? outputs : inputs).at(static_cast<size_t>(source.index)));
    }
    return results;
  }

 private:
  const ir::Graph& forward_;
  std::unique_ptr<ir::Executable> executable_;
};

std::vector<Buffer> run_eager_on(const ir::Graph& traced, const std::vector<Buffer>& inputs) {
  tools::Tensors tensors;
  for (size_t i = 0; i < inputs.size(); ++i) tensors.emplace(traced.inputs()[i].name, inputs[i]);
  const tools::Tensors results = run_eager(traced, tensors);
  std::vector<Buffer> out;
  for (size_t k = 0; k < traced.outputs().size(); ++k) out.push_back(results.at(output_name(k)));
  return out;
}

// --- comparing them

/// How many units in the last place a result may differ.
double units_of(Op op, DType t) {
  // Without the instruction ties of f64, and what is subnormal, may be rounded twice.
  if (op == Op::fma && t == DType::F64 && !machine::cpu_features().fma) return 1;
  static constexpr Op kExact[] = {
      Op::add,        Op::sub,        Op::mul,       Op::div,       Op::fma,       Op::floor_divide,
      Op::remainder,  Op::fmod,       Op::abs,       Op::neg,       Op::sign,      Op::maximum,
      Op::minimum,    Op::floor,      Op::ceil,      Op::round,     Op::trunc,     Op::sqrt,
      Op::reciprocal, Op::where,      Op::convert,   Op::amax,      Op::amin,      Op::relu,
      Op::relu6,      Op::nan_to_num, Op::clamp_min, Op::clamp_max, Op::hardtanh,  Op::masked_fill,
      Op::square,     Op::copysign,   Op::frac,      Op::clamp,     Op::heaviside, Op::nextafter};
  if (std::ranges::find(kExact, op) != std::end(kExact)) return 0;
  return ir::is_composite(op) ? 16 : 4;
}

/// What errors of element `i` are measured by: its magnitude, or that of the greater operand where
/// the rest of a sum cancels it (here -1 and 1).
double size_of(Op op, const std::vector<Buffer>& inputs, int64_t i, double value) {
  if (op != Op::logaddexp2) return std::abs(value);
  const double greater = std::max(inputs[0].at(i).to_double(), inputs[1].at(i).to_double());
  return std::max(std::abs(value), std::abs(greater));
}

/// Equal but for the payloads of NaNs; functions that are not exact are near.
bool agree(const ir::Number& a, const ir::Number& b, DType t, double units, double size) {
  if (!ir::is_floating(t)) return a.to_int() == b.to_int();
  const double x = a.to_double(), y = b.to_double();
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (x == y) return std::signbit(x) == std::signbit(y) || (units == 1 && x == 0);
  const Format f = format_of(t);
  return std::abs(x - y) <= units * std::max(f.epsilon * size, f.least);
}

std::string operands_at(const std::vector<Buffer>& inputs, int64_t i) {
  std::string text;
  for (const Buffer& b : inputs)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", b.at(i).to_double());
  return text;
}

void compare(const ir::Graph& traced, const std::vector<Buffer>& inputs,
             const std::vector<Buffer>& got, const std::vector<Buffer>& want, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t o = 0; o < got.size(); ++o) {
    const Op op = traced.op(traced.producer(traced.outputs()[o].value));
    ASSERT_EQ(got[o].type(), want[o].type());
    for (int64_t i = 0; i < got[o].numel(); ++i)
      EXPECT_TRUE(agree(got[o].at(i), want[o].at(i), got[o].dtype(), units_of(op, got[o].dtype()),
                        size_of(op, inputs, i, want[o].at(i).to_double())))
          << what << ": " << ir::name(op) << "(" << operands_at(inputs, i) << ") of "
          << ir::name(inputs[0].dtype()) << ", element " << i << " of " << got[o].numel() << ": "
          << got[o].at(i).to_double() << ", expected " << want[o].at(i).to_double();
  }
}

/// Runs `p` on the inputs that `fill(inputs, number)` gives, for each `step`th number of `count`.
template <class F>
void check(const Program& p, int64_t count, int64_t step, F fill) {
  const auto partitioner = partition::make_partitioner("default");
  const CompiledGraphs graphs =
      runtime::run_pipeline(p.graph, {.partitioner = partitioner.get(), .contract = false});
  const Compiled jit(graphs.forward, *runtime::jit_backend()),
      interpreter(graphs.forward, *runtime::interpreter_backend());
  std::vector<Buffer> inputs;
  for (const ir::Input& input : p.graph.inputs()) inputs.emplace_back(p.graph.type(input.value));
  for (int64_t k = 0; k < count && !::testing::Test::HasFailure(); k += step) {
    fill(inputs, k);
    const std::vector<Buffer> want = interpreter.run(inputs);
    compare(p.graph, inputs, jit.run(inputs), want, "jit");
    compare(p.graph, inputs, run_eager_on(p.graph, inputs), want, "eager");
  }
}

class SpecialValues : public ::testing::TestWithParam<DType> {};

constexpr int64_t kLengths[] = {1, 3, 17, 67};

TEST_P(SpecialValues, PointwiseOps) {
  const DType t = GetParam();
  const std::vector<ir::Number> values = specials(t);
  const auto count = static_cast<int64_t>(values.size());
  for (int64_t n : kLengths) {
    const Program p = pointwise_program(t, n);
    ASSERT_GT(p.graph.outputs().size(), 20u);
    ASSERT_LE(p.graph.outputs().size(), static_cast<size_t>(kMostCalls));
    // Short ones bring each pair to each element, long ones to one of each kind.
    check(p, count * count, n / 8 + 1, [&](std::vector<Buffer>& inputs, int64_t run) {
      for (int64_t i = 0; i < kMostCalls * n; ++i) {
        const int64_t pair = run + i % n;
        inputs[0].set(i, values[static_cast<size_t>(pair % count)]);
        inputs[1].set(i, values[static_cast<size_t>(pair / count % count)]);
        inputs[2].set(i, values[static_cast<size_t>((pair * 7 + run / count) % count)]);
      }
    });
  }
}

TEST_P(SpecialValues, Reductions) {
  const DType t = GetParam();
  const std::vector<ir::Number> values = specials(t);
  const auto count = static_cast<int64_t>(values.size());
  for (int64_t n : kLengths) {
    const Program p = reduction_program(t, n);
    ASSERT_GT(p.graph.outputs().size(), 12u);
    check(p, count * count, 1, [&](std::vector<Buffer>& inputs, int64_t run) {
      test::Numbers numbers(static_cast<uint64_t>(run));
      for (int64_t i = 0; i < inputs[0].numel(); ++i) {  // two values in any order
        const int64_t which = numbers.uniform(0, 1) < 0.5 ? run % count : run / count;
        inputs[0].set(i, values[static_cast<size_t>(which)]);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, SpecialValues, ::testing::ValuesIn(kDTypes),
                         [](const auto& t) { return std::string(ir::name(t.param)); });

}  // namespace
}  // namespace tandem::testing
