// What users steer: budgets, checkpoint regions, marks, passes, partitioners, a backend per half.
#include <gtest/gtest.h>
#include <tandem/graph.h>
#include <tandem/ir/rewrite.h>

#include "codegen/lower.h"
#include "partition/partition.h"
#include "partition/plans.h"
#include "runtime/pipeline.h"

namespace tandem {
namespace {

constexpr int64_t kSide = 32, kMatrix = kSide * kSide * 4;

/// Gradient of `fn` at a fixed point, and the report.
template <class Fn>
std::pair<Tensor, PartitionReport> differentiated(Fn fn, const CompileOptions& options) {
  manual_seed(3);
  const Tensor x = randn({kSide, kSide}).requires_grad_(), w = randn({kSide, kSide});
  const auto f = compile(fn, options);
  f(x, w).backward();
  return {x.grad(), f.graphs(x, w).partition};
}

double difference(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item(); }

Tensor layer(const Tensor& x, const Tensor& w) { return matmul(sin(matmul(x, w)), w); }

Tensor two_layers(const Tensor& x, const Tensor& w) { return sum(layer(layer(x, w), w)); }

TEST(Steering, ACheckpointRegionIsComputedAgain) {
  const auto region = [](const Tensor& x, const Tensor& w) {
    const auto again = checkpoint(layer);
    return sum(again(again(x, w), w));
  };
  const auto [usual, plain] = differentiated(two_layers, {});
  const auto [other, report] = differentiated(region, {});
  EXPECT_EQ(difference(usual, other), 0);
  EXPECT_EQ(report.saved_bytes, kMatrix) << to_text(report);  // what lies between the regions
  EXPECT_LT(report.saved_bytes, plain.saved_bytes);
}

TEST(Steering, ARegionsPolicySavesByOperatorAndByName) {
  const auto policy = [](CheckpointPolicy p) {
    return [p](const Tensor& x, const Tensor& w) {
      const auto region = checkpoint(
          [](const Tensor& y, const Tensor& v) {
            return matmul(tanh(name_value(matmul(sin(matmul(y, v)), v), "inner")), v);
          },
          p);
      return sum(region(x, w));
    };
  };
  const auto bytes = [&](CheckpointPolicy p) {
    return differentiated(policy(std::move(p)), {}).second.saved_bytes;
  };
  EXPECT_EQ(bytes({}), 0);
  EXPECT_EQ(bytes({.save_ops = {"matmul", "mm"}}), 2 * kMatrix);
  EXPECT_EQ(bytes({.save_names = {"inner"}}), kMatrix);
}

TEST(Steering, MarksOnValues) {
  const auto saves = [](const Tensor& x, const Tensor&) {
    return sum(sin(save_for_backward(sin(sin(x)))));
  };
  const auto plain = [](const Tensor& x, const Tensor&) { return sum(sin(sin(sin(x)))); };
  const auto [a, with] = differentiated(saves, {});
  const auto [b, without] = differentiated(plain, {});
  EXPECT_EQ(with.saved_bytes, kMatrix) << to_text(with);
  EXPECT_EQ(difference(a, b), 0);
}

TEST(Steering, BudgetsKeepEveryBit) {
  const Tensor usual = differentiated(two_layers, {}).first;
  for (double budget : {0.0, 0.3, 0.7}) {
    const auto [a, memory] = differentiated(two_layers, {.memory_budget = budget});
    EXPECT_EQ(difference(a, usual), 0);
    EXPECT_LE(memory.peak_bytes, memory.limit_bytes);
    EXPECT_FALSE(memory.plans.empty());
    const auto [b, saved] = differentiated(two_layers, {.saved_budget = budget});
    EXPECT_EQ(difference(b, usual), 0);
    EXPECT_LE(saved.saved_bytes, saved.limit_bytes);
  }
  EXPECT_THROW(differentiated(two_layers, {.memory_budget = 0.5, .saved_budget = 0.5}), Error);
  EXPECT_THROW(differentiated(two_layers, {.partition = "reference", .saved_budget = 0.5}), Error);
  EXPECT_THROW(differentiated(two_layers, {.memory_budget = 1.5}), Error);
}

std::shared_ptr<const GraphPass> pass_at(PassPoint point, std::function<Graph(const Graph&)> run) {
  return std::make_shared<GraphPass>(GraphPass{"mine", point, std::move(run)});
}

TEST(Steering, PassesRunAtEveryPoint) {
  std::vector<ir::Level> levels;
  const auto look = [&](const Graph& g) {
    levels.push_back(g.level);
    return g;
  };
  CompileOptions options;
  for (PassPoint point : {PassPoint::Backward, PassPoint::Core, PassPoint::Joint,
                          PassPoint::Functional, PassPoint::Forward})
    options.passes.push_back(pass_at(point, look));
  const Tensor usual = differentiated(two_layers, {}).first;
  EXPECT_EQ(difference(differentiated(two_layers, options).first, usual), 0);
  using enum ir::Level;
  const std::vector<ir::Level> expected = {Functional, Joint, Core, Forward, Backward};
  levels.resize(expected.size());
  EXPECT_EQ(levels, expected);
}

TEST(Steering, APassThatBreaksTheGraphIsRefused) {
  const auto drop_output = [](const Graph& g) {
    Graph out = g;
    out.outputs().pop_back();
    out.epilogue.results.pop_back();
    return out;
  };
  const auto undefined_value = [](const Graph& g) {
    Graph out = g;
    out.outputs()[0].value = {123'456};
    return out;
  };
  EXPECT_ANY_THROW(
      differentiated(two_layers, {.passes = {pass_at(PassPoint::Functional, drop_output)}}));
  EXPECT_ANY_THROW(
      differentiated(two_layers, {.passes = {pass_at(PassPoint::Functional, undefined_value)}}));
}

TEST(Steering, ABackendPerHalf) {
  const auto [usual, report] = differentiated(two_layers, {});
  for (const bool forward : {true, false}) {
    CompileOptions options;
    (forward ? options.backend : options.backward_backend) = backend_named("interpreter");
    if (forward) options.backward_backend = backend_named("jit");
    EXPECT_LT(difference(differentiated(two_layers, options).first, usual),
              1e-4 * max(abs(usual)).item());
  }
  EXPECT_THROW(backend_named("fpga"), Error);
}

TEST(Steering, ACompiledFunctionInACompiledFunctionKeepsOneJointGraph) {
  const auto inner = compile(layer);
  const auto outer = [&](const Tensor& x, const Tensor& w) { return sum(inner(inner(x, w), w)); };
  const auto [a, nested] = differentiated(outer, {});
  const auto [b, plain] = differentiated(two_layers, {});
  EXPECT_EQ(difference(a, b), 0);
  EXPECT_EQ(nested.saved_bytes, plain.saved_bytes);
}

Tensor block(Tensor x, const std::vector<Tensor>& p) {
  const Dim batch = x.size(0), time = x.size(1), c = x.size(2);
  const auto qkv = split(matmul(layer_norm(x, {c}, p[0], p[1], 1e-5), p[2]), c, 2);
  const auto head = [&](const Tensor& t) {
    return t.view({batch, time, 2, c / 2}).transpose(1, 2);
  };
  const Tensor y = scaled_dot_product_attention(head(qkv[0]), head(qkv[1]), head(qkv[2]), {}, true);
  x = x + matmul(y.transpose(1, 2).reshape({batch, time, c}), p[3]);
  return x + matmul(gelu(matmul(layer_norm(x, {c}, p[0], p[1], 1e-5), p[4]), "tanh"), p[5]);
}

TEST(MemoryBudget, ThePeakOfFourBlocksFallsWithTheBudget) {
  constexpr int64_t c = 32;
  std::vector<Tensor> p = {randn({c}),    randn({c}),        randn({c, 3 * c}),
                           randn({c, c}), randn({c, 4 * c}), randn({4 * c, c})};
  for (const Tensor& t : p) t.requires_grad_();
  const Tensor x = randn({2, 16, c}).requires_grad_();
  const auto f = compile(
      [](const Tensor& y, const std::vector<Tensor>& v) {
        Tensor z = y;
        for (int i = 0; i < 4; ++i) z = block(z, v);
        return sum(z);
      },
      {.backend = backend_named("interpreter")});
  const CompiledGraphs& graphs = f.graphs(x, p);
  const auto costs = codegen::make_cost_model();
  const PartitionContext context{.tape_bytes = graphs.eager_saved_bytes, .costs = costs.get()};
  const auto by = [&](const std::string& name) {
    return partition::make_partitioner(name)->partition_within(graphs.core, context);
  };
  int64_t last = std::numeric_limits<int64_t>::max();
  for (int k = 20; k >= 0; k -= 2) {
    const Partition parts = by("memory_budget=" + std::to_string(k / 20.0));
    // What the plans of the two halves really need.
    const int64_t real = partition::peak_bytes(partition::Analysis(graphs.core), parts, *costs);
    EXPECT_EQ(real, parts.report.peak_bytes);
    EXPECT_LE(real, parts.report.limit_bytes);
    EXPECT_LE(real, last) << k;
    last = real;
  }
  EXPECT_LE(3 * by("recompute-all").report.saved_bytes, by("save-all").report.saved_bytes);
}

}  // namespace
}  // namespace tandem
