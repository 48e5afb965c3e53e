// Every rule against central differences, and against what it declares to read.
#include "autodiff/vjp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "autodiff/joint.h"
#include "ir/base/error.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/unit/autodiff/sample_graphs.h"

namespace tandem::autodiff {
namespace {

using ir::Graph;
using ir::Level;
using ir::ValueId;
using test::graph_of;
using test::has_derivative;
using test::Program;
using test::Sample;

TEST(Vjp, EveryDifferentiableOpHasASample) {
  std::set<ir::Op> sampled;
  for (const Sample& sample : test::samples()) sampled.insert(sample.op);
  for (int i = 0; i < ir::kOpCount; ++i) {
    const ir::Op op = static_cast<ir::Op>(i);
    const bool is_differentiable = vjp_rule(op).kind == VjpRule::Kind::Differentiable;
    EXPECT_EQ(is_differentiable && test::has_true_gradient(op), sampled.contains(op))
        << ir::name(op);
  }
}

TEST(Vjp, GradientsAgreeWithDifferences) {
  for (const Sample& sample : test::samples()) {
    const Graph functional = graph_of(sample, true), differentiated = joint(functional);
    ir::verify(differentiated);
    EXPECT_EQ(test::compare_gradients(functional, differentiated, sample.operands), "")
        << ir::print(differentiated);
  }
}

TEST(Vjp, SecondDerivativesAgreeWithDifferences) {
  for (const Sample& sample : test::samples()) {
    if (!sample.twice) continue;
    const Graph first = joint(graph_of(sample, true));
    const Graph gradient = test::as_functional(first), second = joint(gradient);
    ir::verify(second);
    std::vector<ir::Buffer> inputs = sample.operands;
    for (ir::Buffer& tangent : test::random_tangents(first)) inputs.push_back(tangent);
    EXPECT_EQ(test::compare_gradients(gradient, second, inputs, 1e-5), "") << ir::print(second);
  }
}

/// Runs the rule alone, on a graph whose inputs are the operands, the results and the gradients of
/// those that have one and are `wanted`.
struct Recorded {
  Program p{Level::Functional};
  std::vector<ValueId> operands, results, grads;
  Gradients gradients;

  Recorded(const Sample& sample, std::span<const bool> needs, uint32_t wanted = ~0u) {
    const Graph forward = graph_of(sample);
    for (const ir::Input& input : forward.inputs())
      operands.push_back(p.input(input.name, forward.type(input.value)));
    for (size_t i = 0; i < forward.outputs().size(); ++i) {
      const ir::Type type = forward.type(forward.outputs()[i].value);
      const bool arrives = ir::is_floating(type.dtype) && (wanted >> i & 1) != 0;
      results.push_back(p.input("result" + std::to_string(i), type));
      grads.push_back(arrives ? p.input("grad" + std::to_string(i), type) : ValueId());
    }
    VjpContext context{p.b, sample.op, operands, results, forward.attrs({0}), grads, needs};
    gradients = apply_vjp(context);
  }

  bool reads(ValueId v) const {
    const auto equations = p.graph.equations();
    return std::ranges::any_of(equations,
                               [&](const ir::Equation& e) {
                                 return std::ranges::count(p.graph.operands(e), v) > 0;
                               }) ||
           std::ranges::count(gradients, std::optional(v)) > 0;
  }
};

/// Declared reads are exactly the values that appear in what the rule emits.
void check_reads(const Sample& sample, std::span<const bool> needs) {
  const Reads declared = vjp_rule(sample.op).reads(needs);
  const Recorded recorded(sample, needs);
  for (size_t i = 0; i < recorded.operands.size(); ++i)
    EXPECT_EQ(declared.operands >> i & 1, recorded.reads(recorded.operands[i]))
        << ir::name(sample.op) << " operand " << i << "\n"
        << ir::print(recorded.p.graph);
  for (size_t i = 0; i < recorded.results.size(); ++i)
    EXPECT_EQ(declared.results >> i & 1, recorded.reads(recorded.results[i]))
        << ir::name(sample.op) << " result " << i;
  for (size_t i = 0; i < needs.size(); ++i)
    EXPECT_TRUE(needs[i] || !recorded.gradients[i]) << ir::name(sample.op) << " operand " << i;
}

TEST(Vjp, RulesReadWhatTheyDeclare) {
  for (const Sample& sample : test::samples()) {
    const size_t n = sample.operands.size();
    for (unsigned subset = 0; subset < 1u << n; ++subset) {
      const auto needs = std::make_unique<bool[]>(n);
      bool possible = true;
      for (size_t i = 0; i < n; ++i) {
        needs[i] = subset >> i & 1;
        possible &= !needs[i] || has_derivative(sample, i);
      }
      if (possible) check_reads(sample, {needs.get(), n});
    }
  }
}

/// The gradients of one operand of layer_norm where only results `wanted` have one.
bool has_gradient(unsigned wanted, size_t operand) {
  const Sample norm{ir::Op::native_layer_norm,
                    {test::floats({2, 3}), test::floats({3}, 2), test::floats({3}, 3)},
                    {int64_t{1}, 1e-5}};
  const bool needs[] = {true, true, true};
  return Recorded(norm, needs, wanted).gradients[operand].has_value();
}

TEST(Vjp, AnyOfSeveralResultsMayHaveNoGradient) {
  for (unsigned wanted = 1; wanted < 8; ++wanted) {
    EXPECT_TRUE(has_gradient(wanted, 0)) << wanted;
    for (size_t parameter : {1u, 2u})  // the statistics do not depend on weight and bias
      EXPECT_EQ(has_gradient(wanted, parameter), (wanted & 1) != 0) << wanted;
  }
}

TEST(Vjp, IntegerOperandsGetNoGradient) {
  Program p(Level::Functional);
  const ValueId x = p.input("x", {ir::DType::F32, {3}}), i = p.input("i", {ir::DType::I64, {3}});
  const ValueId y = p.b.convert(i, ir::DType::F32);
  const bool needs[] = {true};
  const ir::AttrValue attrs[] = {ir::DType::F32};
  VjpContext context{p.b, ir::Op::convert, {&i, 1}, {&y, 1}, attrs, {&x, 1}, needs};
  EXPECT_FALSE(apply_vjp(context)[0]);
}

/// The gradient of one equation at one point, for values where differences do not help.
std::vector<double> gradient_at(ir::Op op, std::vector<ir::Buffer> operands,
                                std::vector<ir::AttrValue> attrs, int operand = 0) {
  const Graph differentiated = joint(graph_of({op, operands, std::move(attrs)}));
  ir::Buffer ones(differentiated.type(differentiated.inputs().back().value));
  for (int64_t i = 0; i < ones.numel(); ++i) ones.set(i, 1.0);
  operands.push_back(ones);
  return test::values(test::run_in_f64(differentiated, operands)[1 + operand]);
}

ir::Buffer vector(const std::vector<double>& values) {
  return test::filled({ir::DType::F64, {static_cast<int64_t>(values.size())}}, values);
}
using Values = std::vector<double>;

TEST(Vjp, TiesAndKinksAreAtens) {
  using ir::Op;
  EXPECT_EQ(gradient_at(Op::maximum, {vector({1, 2}), vector({1, 3})}, {}), (Values{.5, 0}));
  EXPECT_EQ(gradient_at(Op::minimum, {vector({1, 2}), vector({1, 3})}, {}, 1), (Values{.5, 0}));
  EXPECT_EQ(gradient_at(Op::clamp_min, {vector({1, 2}), vector({1, 3})}, {}), (Values{1, 0}));
  EXPECT_EQ(gradient_at(Op::clamp_max, {vector({1, 2}), vector({1, 1})}, {}), (Values{1, 0}));
  EXPECT_EQ(gradient_at(Op::abs, {vector({0, -2})}, {}), (Values{0, -1}));
  EXPECT_EQ(gradient_at(Op::relu, {vector({0, 2, -1})}, {}), (Values{0, 1, 0}));
  EXPECT_EQ(gradient_at(Op::pow, {vector({0, 0, 3}), vector({0, 2, 0})}, {}), (Values{0, 0, 0}));
  EXPECT_EQ(gradient_at(Op::pow, {vector({0, 0}), vector({2, 0})}, {}, 1), (Values{0, 0}));
  const std::vector<ir::AttrValue> over_0{ir::Axes{0}, false, std::vector<ir::Dim>{}};
  EXPECT_EQ(gradient_at(Op::amax, {vector({4, 1, 4, 4, 4})}, over_0),
            (Values{.25, 0, .25, .25, .25}));
  EXPECT_EQ(gradient_at(Op::prod, {vector({0, 3, 0})}, over_0), (Values{0, 0, 0}));
  EXPECT_EQ(gradient_at(Op::prod, {vector({0, 3, 2})}, over_0), (Values{6, 0, 0}));
  EXPECT_EQ(gradient_at(Op::std, {vector({2, 2})}, {ir::Axes{0}, 1.0, false}), (Values{0, 0}));
}

}  // namespace
}  // namespace tandem::autodiff
