// Every op of ops.def, one test each: its decomposition against its definition, generated code
// against the interpreter, its gradient against central differences.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "autodiff/joint.h"
#include "autodiff/vjp.h"
#include "decomps/decompose.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "partition/partition.h"
#include "runtime/backends/backends.h"
#include "tests/support/gradcheck.h"
#include "tests/support/op_samples.h"
#include "tools/graph_runner.h"

namespace tandem::testing {
namespace {

using ir::Buffer;
using ir::Graph;
using ir::Level;
using ir::Op;
using ir::OpClass;
using test::Program;

constexpr int64_t kLengths[] = {0, 1, 7, 16, 17, 67, 4099};

enum class Layout : uint8_t { Contiguous, Permuted, Sliced, Expanded };

ir::Strides strides_of(const ir::Shape& sizes, Layout layout) {
  ir::Strides strides = ir::contiguous_strides(sizes);
  const int last = sizes.rank() - 1;
  if (last < 0) return strides;
  if (layout == Layout::Permuted) {
    ir::Dim stride = 1;
    for (int d = 0; d <= last; ++d) {
      strides[d] = stride;
      stride *= std::max<ir::Dim>(1, sizes[d]);
    }
  }
  if (layout == Layout::Sliced)
    for (ir::Dim& stride : strides) stride *= 2;
  if (layout == Layout::Expanded) strides[0] = 0;
  return strides;
}

/// Whether there is a gradient, but none of this operand.
bool is_refused(Op op, size_t operand) {
  return (autodiff::vjp_rule(op).refused >> operand & 1) != 0;
}

/// One equation and its results, in a traced or a functional graph. A view is copied, so that it is
/// computed and not replayed. `coherent`: after what makes gradients derivatives.
Graph graph_of(Op op, const OpSample& sample, Level level, Layout layout = Layout::Contiguous,
               bool coherent = false) {
  Program p(level, std::string(ir::name(op)));
  std::vector<ir::ValueId> operands;
  for (const Buffer& operand : sample.operands)
    operands.push_back(
        p.input(fmt::format("x{}", operands.size()), operand.type(),
                ir::is_floating(operand.dtype()) && !is_refused(op, operands.size())));
  for (ir::Input& input : p.graph.inputs())
    input.strides = strides_of(p.graph.type(input.value).sizes, layout);
  if (coherent) operands = test::as_differentiated(p.b, op, operands, sample.attrs);
  for (ir::ValueId result : p.b.emit_all(op, operands, sample.attrs)) {
    if (ir::is_view(op)) result = p.b.clone(result);
    p.output(result, ir::is_floating(p.graph.type(result).dtype));
  }
  ir::verify(p.graph);
  return p.graph;
}

bool is_close(double got, double expected, double tolerance) {
  if (std::isnan(got) || std::isnan(expected)) return std::isnan(got) && std::isnan(expected);
  if (std::isinf(got) || std::isinf(expected)) return got == expected;
  return std::abs(got - expected) <= tolerance * (1 + std::abs(expected));
}

/// "" if all elements are close, else the first that is not.
std::string compare(const Buffer& got, const Buffer& expected, double tolerance) {
  if (got.type() != expected.type())
    return fmt::format("type {}, expected {}", to_string(got.type()), to_string(expected.type()));
  for (int64_t i = 0; i < got.numel(); ++i)
    if (!is_close(got.at(i).to_double(), expected.at(i).to_double(),
                  ir::is_floating(got.dtype()) ? tolerance : 0))
      return fmt::format("element {}: {}, expected {}", i, got.at(i).to_double(),
                         expected.at(i).to_double());
  return "";
}

std::string describe(const Graph& graph, std::string_view what) {
  return fmt::format("{}\n{}", what, ir::print(graph));
}

// --- the three checks

/// The decomposition computes what the definition says, in f64.
void check_decomposition(Op op, const OpSample& sample) {
  const Graph graph = graph_of(op, sample, Level::Functional), core = decomps::decompose(graph);
  ir::verify(core);
  const auto expected = test::run_in_f64(graph, sample.operands),
             got = test::run_in_f64(core, sample.operands);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(compare(got[i], expected[i], 1e-9), "") << describe(core, "decomposition");
}

tools::Tensors run(const Graph& graph, const OpSample& sample, const ir::Backend& backend) {
  const auto partitioner = partition::make_partitioner("default");
  tools::Tensors tensors;
  for (size_t i = 0; i < sample.operands.size(); ++i)
    tensors.emplace(graph.inputs()[i].name, sample.operands[i]);
  return tools::run_graph(graph, tensors, {&backend, partitioner.get(), false, 0});
}

double tolerance_of(const Graph& graph) {
  for (const ir::Input& input : graph.inputs())
    if (graph.type(input.value).dtype == ir::DType::F32) return 1e-5;
  return graph.type(graph.outputs()[0].value).dtype == ir::DType::F32 ? 1e-5 : 1e-12;
}

/// Generated code computes what the interpreter does.
void check_jit(Op op, const OpSample& sample, Layout layout) {
  const Graph graph = graph_of(op, sample, Level::Traced, layout);
  const tools::Tensors expected = run(graph, sample, *runtime::interpreter_backend()),
                       got = run(graph, sample, *runtime::jit_backend());
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const std::string name = fmt::format("output{}", i);
    EXPECT_EQ(compare(got.at(name), expected.at(name), tolerance_of(graph)), "")
        << describe(graph, "jit");
  }
}

void check_gradient(Op op, const OpSample& sample) {
  for (const Buffer& operand : sample.operands)
    if (operand.dtype() == ir::DType::F32) return;  // differences need f64
  const Graph functional =
      graph_of(op, sample, Level::Functional, Layout::Contiguous, /*coherent=*/true);
  for (const Buffer& result : test::run_in_f64(functional, sample.operands))
    for (int64_t i = 0; i < result.numel(); ++i)
      if (!std::isfinite(result.at(i).to_double())) return;  // the variance of one element
  const Graph joint = autodiff::joint(functional);
  EXPECT_EQ(test::compare_gradients(functional, joint, sample.operands), "")
      << describe(joint, "gradient");
}

// --- one test per op

bool has_samples(Op op) { return !op_samples(op, 7).empty(); }

std::vector<Op> sampled_ops() {
  std::vector<Op> ops;
  for (int i = 0; i < ir::kOpCount; ++i)
    if (has_samples(static_cast<Op>(i))) ops.push_back(static_cast<Op>(i));
  return ops;
}

/// as_strided speaks of the memory of a contiguous operand.
bool takes_layouts(Op op) { return !ir::has_attr(op, ir::Attr::strides) && op != Op::view; }

class OpTest : public ::testing::TestWithParam<Op> {};

TEST_P(OpTest, EveryLength) {
  const Op op = GetParam();
  for (int64_t length : kLengths)
    for (const OpSample& sample : op_samples(op, length)) {
      SCOPED_TRACE(fmt::format("length {}", length));
      if (length < 4099) check_decomposition(op, sample);
      check_jit(op, sample, Layout::Contiguous);
      if (HasFailure()) return;
    }
}

TEST_P(OpTest, EveryLayout) {
  const Op op = GetParam();
  if (!takes_layouts(op)) return;
  for (Layout layout : {Layout::Permuted, Layout::Sliced, Layout::Expanded})
    for (const OpSample& sample : op_samples(op, 67)) {
      SCOPED_TRACE(fmt::format("layout {}", static_cast<int>(layout)));
      // an rng is no repetition, and matrices of equal rows have no factors
      const OpClass cls = ir::info(op).cls;
      const bool is_whole = cls == OpClass::Random || cls == OpClass::Linalg;
      if (!is_whole || layout != Layout::Expanded) check_jit(op, sample, layout);
      if (HasFailure()) return;
    }
}

TEST_P(OpTest, SpecialValues) {
  const Op op = GetParam();
  const OpClass cls = ir::info(op).cls;
  if (cls == OpClass::Contraction || cls == OpClass::Random || cls == OpClass::Linalg) return;
  for (OpSample sample : op_samples(op, 67)) {
    add_special_values(sample, 3);
    check_jit(op, sample, Layout::Contiguous);
    if (HasFailure()) return;
  }
}

TEST_P(OpTest, Gradient) {
  const Op op = GetParam();
  const auto kind = autodiff::vjp_rule(op).kind;
  if (kind != autodiff::VjpRule::Kind::Differentiable || !test::has_true_gradient(op)) return;
  for (int64_t length : {1, 7, 17})
    for (const OpSample& sample : op_samples(op, length)) {
      check_gradient(op, sample);
      if (HasFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(All, OpTest, ::testing::ValuesIn(sampled_ops()),
                         [](const auto& op) { return std::string(ir::name(op.param)); });

TEST(Ops, OnlyOpsOfSubgraphsAndUsersHaveNoSamples) {
  for (int i = 0; i < ir::kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    const OpClass cls = ir::info(op).cls;
    EXPECT_EQ(has_samples(op), cls != OpClass::Control && cls != OpClass::External) << ir::name(op);
  }
}

}  // namespace
}  // namespace tandem::testing
