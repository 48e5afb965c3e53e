// What users steer: budgets, checkpoint regions, marks, passes, partitioners, a backend per half.
#include <gtest/gtest.h>
#include <tandem/graph.h>
#include <tandem/ir/rewrite.h>

#include "machine/memory/allocator.h"
#include "machine/memory/arena.h"
#include "tests/support/expect_error.h"

namespace tandem {
namespace {

std::string memory_budget_of(double budget) { return "memory_budget=" + std::to_string(budget); }

constexpr int64_t kSide = 32, kMatrix = kSide * kSide * 4;

/// Gradient of `fn` at a fixed point, and the report.
template <class Fn>
std::pair<Tensor, PartitionReport> differentiated(Fn fn, const CompileOptions& options) {
  manual_seed(3);
  const Tensor x = randn({kSide, kSide}).requires_grad_(), w = randn({kSide, kSide});
  const auto f = compile(std::move(fn), options);
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

/// The bytes that the gradient of `fn` saves, with and without `region` around its layers; all
/// gradients are the same.
template <class Layer>
std::pair<int64_t, int64_t> with_and_without_regions(const Layer& layer, int layers) {
  const auto stack = [=](const auto& one) {
    return [=](const Tensor& x, const Tensor& w) {
      Tensor y = x;
      for (int i = 0; i < layers; ++i) y = one(y, w);
      return sum(square(y));
    };
  };
  const auto [a, with] = differentiated(stack(checkpoint(layer)), {});
  const auto [b, without] = differentiated(stack(layer), {});
  EXPECT_EQ(difference(a, b), 0);
  return {with.saved_bytes, without.saved_bytes};
}

TEST(Steering, RegionsSaveWhatTheyHandOutAndNoConstants) {
  // With the default's constants inside (gelu), made by the user, and computed from positions.
  const auto block = [](const Tensor& x, const Tensor& w) {
    return gelu(matmul(x, w)) + full({kSide, kSide}, 0.25);
  };
  const auto masked = [](const Tensor& x, const Tensor& w) {
    const Tensor i = arange(kSide), later = i.unsqueeze(1) >= i;
    return where(later, tanh(matmul(x, w)), sin(x));
  };
  // What every layer computes from the same input belongs to each.
  const auto shared = [](const Tensor& x, const Tensor& w) { return sin(matmul(x, exp(w))); };
  for (int layers : {1, 2, 3, 6}) {
    const int64_t handed_out = layers * kMatrix;  // the last to square
    EXPECT_EQ(with_and_without_regions(masked, layers).first, handed_out) << layers;
    EXPECT_EQ(with_and_without_regions(shared, layers).first, handed_out) << layers;
    const auto [with, without] = with_and_without_regions(block, layers);
    EXPECT_EQ(with, handed_out) << layers;
    EXPECT_TRUE(layers == 1 || with < without) << with << " and " << without;
  }
}

TEST(Steering, ARegionInARegionIsAPartOfIt) {
  const auto nested = checkpoint([](const Tensor& x, const Tensor& w) {
    const auto inner = checkpoint(layer);
    return inner(sin(inner(x, w)), w);
  });
  const auto two = [&](const Tensor& x, const Tensor& w) { return sum(nested(nested(x, w), w)); };
  EXPECT_EQ(differentiated(two, {}).second.saved_bytes, kMatrix);
  // and heeds the policies of both
  const auto kept = [](const CheckpointPolicy& outer, const CheckpointPolicy& inner) {
    const auto region = checkpoint(
        [inner](const Tensor& x, const Tensor& w) {
          return checkpoint(
              [](const Tensor& y, const Tensor& v) { return sin(exp(matmul(tanh(y), v))); }, inner)(
              x, w);
        },
        outer);
    const auto f = [region](const Tensor& x, const Tensor& w) { return sum(region(x, w)); };
    return differentiated(f, {}).second.saved_bytes;
  };
  EXPECT_EQ(kept({}, {}), 0);
  EXPECT_EQ(kept({.save_ops = {"exp"}}, {}), kMatrix);
  EXPECT_EQ(kept({.save_ops = {"exp"}}, {.save_ops = {"tanh"}}), 2 * kMatrix);
}

TEST(Steering, BudgetsAndMarksTogether) {
  const auto f = [](const Tensor& x, const Tensor& w) {
    const Tensor h = save_for_backward(tanh(checkpoint(layer)(x, w)));
    return sum(tanh(recompute_in_backward(matmul(sin(matmul(h, w)), w))));
  };
  const Tensor usual = differentiated(f, {}).first;
  for (double budget : {0.0, 0.5, 1.0})
    for (const CompileOptions& options :
         {CompileOptions{.memory_budget = budget}, CompileOptions{.saved_budget = budget}}) {
      const auto [x, report] = differentiated(f, options);
      EXPECT_EQ(difference(x, usual), 0);
      EXPECT_NE(to_text(report).find("marked: save"), std::string::npos) << to_text(report);
    }
}

TEST(Steering, ARegionsPolicySavesByOperatorAndByName) {
  const auto policy = [](const CheckpointPolicy& p) {
    return [p](const Tensor& x, const Tensor& w) {
      const auto region = checkpoint(
          [](const Tensor& y, const Tensor& v) {
            return matmul(tanh(name_value(matmul(sin(matmul(y, v)), v), "inner")), v);
          },
          p);
      return sum(region(x, w));
    };
  };
  const auto bytes = [&](const CheckpointPolicy& p) {
    return differentiated(policy(p), {}).second.saved_bytes;
  };
  EXPECT_EQ(bytes({}), 0);
  EXPECT_EQ(bytes({.save_ops = {"mm"}}), 2 * kMatrix);
  EXPECT_EQ(bytes({.save_names = {"inner"}}), kMatrix);
}

TEST(Steering, EveryPartitionerHeedsRegionsAndMarks) {
  const auto regions = [](const Tensor& x, const Tensor& w) {
    const auto again = checkpoint(layer);
    return sum(again(again(x, w), w));
  };
  const auto saves = [](const Tensor& x, const Tensor& w) {
    return sum(sin(save_for_backward(tanh(sin(matmul(x, w))))));
  };
  const auto forgets = [](const Tensor& x, const Tensor& w) {
    return sum(sin(recompute_in_backward(sin(matmul(x, w)))));
  };
  const auto expect_saved = [](const auto& fn, const std::string& name, int64_t bytes) {
    const auto [expected, usual] = differentiated(fn, {});
    const auto [x, report] = differentiated(fn, {.partition = name});
    EXPECT_EQ(report.saved_bytes, bytes) << to_text(report);
    EXPECT_EQ(difference(x, expected), 0) << name;
  };
  for (const std::string name : {"default", "reference", "save-all", "recompute-all"}) {
    expect_saved(regions, name, kMatrix);  // what lies between the regions
    expect_saved(forgets, name, name == "recompute-all" ? 0 : kMatrix);  // the product
  }
  expect_saved(saves, "save-all", 2 * kMatrix);  // the product too
  expect_saved(saves, "recompute-all", kMatrix);
}

TEST(Steering, TheReportNamesThePartitionerThoughNothingIsDifferentiated) {
  const auto f = compile(two_layers, {.partition = "save-all"});
  const PartitionReport& report = f.graphs(ones({4, 4}), ones({4, 4})).partition;
  EXPECT_EQ(report.partitioner, "save-all");
  EXPECT_TRUE(to_text(report).starts_with("partition by save-all: saves 0 B")) << to_text(report);
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

TEST(Steering, OperatorsThatAPolicyNamesExist) {
  const std::string text = testing::error_of(
      [] {
        checkpoint([](const Tensor& x) { return sin(x); },
                   {.save_ops = {"sin", "matmul"}})(ones({2}));
      },
      Errc::Argument);
  EXPECT_NE(text.find("save_ops names no operator of graphs; expected one as mul, mm, "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("got matmul"), std::string::npos) << text;
}

TEST(Steering, MarksOnExamplesAreOnAllOfThem) {
  const auto saved = [](bool save) {
    const auto of_one = [=](const Tensor& a) {
      const Tensor y = exp(a);
      return sin(name_value(sin(save ? save_for_backward(y) : recompute_in_backward(y)), "named"));
    };
    const auto f = compile([=](const Tensor& x) { return vmap(of_one)(x).sum(); });
    const Tensor x = ones({3, 2}).requires_grad_();
    const CompiledGraphs& graphs = f.graphs(x);
    EXPECT_NE(ir::print(graphs.traced).find("%named"), std::string::npos);
    f(x).backward();
    EXPECT_TRUE(allclose(x.grad(), cos(sin(exp(x))) * cos(exp(x)) * exp(x)));
    return graphs.partition.saved_bytes;
  };
  EXPECT_EQ(saved(true), 3 * 2 * 4);
  EXPECT_EQ(saved(false), 0);
}

/// The bytes saved by `fn`, and the operators marked in its Core graph.
template <class Fn>
std::pair<int64_t, std::vector<std::string>> saved_and_marked(Fn fn) {
  const Tensor x = randn({kSide, kSide}).requires_grad_();
  const auto f = compile(std::move(fn));
  const CompiledGraphs& graphs = f.graphs(x);
  std::vector<std::string> marked;
  for (const ir::Equation& e : graphs.core.equations())
    if (e.mark == ir::Mark::Save) marked.emplace_back(ir::name(e.op));
  return {graphs.partition.saved_bytes, marked};
}

using Strings = std::vector<std::string>;

TEST(Steering, AMarkIsOnWhatTheTensorHoldsThen) {
  // written in place: the second value, not the first
  const auto in_place = [](const Tensor& x) {
    const Tensor y = sin(x);
    y.tanh_();
    save_for_backward(y);
    return sum(sin(y));
  };
  EXPECT_EQ(saved_and_marked(in_place), std::pair(kMatrix, Strings{"tanh"}));
  // and not what is written later
  const auto before = [](const Tensor& x) {
    const Tensor y = tanh(x);
    save_for_backward(y);
    y.sin_();
    return sum(sin(y));
  };
  EXPECT_EQ(saved_and_marked(before).second, Strings{"tanh"});
  // through a view of another
  const auto through_view = [](const Tensor& x) {
    const Tensor y = sin(x);
    y.slice(0, 0, 1).tanh_();
    save_for_backward(y);
    return sum(sin(y));
  };
  EXPECT_EQ(saved_and_marked(through_view).second, Strings{"slice_scatter"});
  // a view itself
  const auto view = [](const Tensor& x) {
    const Tensor y = sin(x).slice(0, 0, kSide / 2);
    return sum(sin(save_for_backward(y)));
  };
  EXPECT_EQ(saved_and_marked(view), std::pair(kMatrix / 2, Strings{"slice"}));
}

TEST(Steering, ARegionsPolicySavesWhatIsWrittenInPlace) {
  const auto region = checkpoint(
      [](const Tensor& x) {
        const Tensor y = sin(x);
        y.tanh_();
        return sin(sin(y));
      },
      {.save_ops = {"tanh"}});
  EXPECT_EQ(saved_and_marked([&](const Tensor& x) { return sum(region(x)); }),
            std::pair(kMatrix, Strings{"tanh"}));
}

TEST(Steering, BudgetsKeepEveryBit) {
  const Tensor usual = differentiated(two_layers, {}).first;
  for (double budget : {0.0, 0.3, 0.7}) {
    const auto [a, memory] = differentiated(two_layers, {.memory_budget = budget});
    EXPECT_EQ(difference(a, usual), 0);
    EXPECT_LE(memory.peak_bytes, memory.limit_bytes);
    EXPECT_FALSE(memory.candidates.empty());
    const auto [b, saved] = differentiated(two_layers, {.saved_budget = budget});
    EXPECT_EQ(difference(b, usual), 0);
    EXPECT_LE(saved.saved_bytes, saved.limit_bytes);
  }
  EXPECT_THROW(differentiated(two_layers, {.memory_budget = 0.5, .saved_budget = 0.5}), Error);
  EXPECT_THROW(differentiated(two_layers, {.partition = "reference", .saved_budget = 0.5}), Error);
  EXPECT_THROW(differentiated(two_layers, {.memory_budget = 1.5}), Error);
}

TEST(Steering, BudgetsBesideAPartitionerAreRefused) {
  const auto own = make_partitioner("default");
  for (const CompileOptions& options : {CompileOptions{.memory_budget = 0.5, .partitioner = own},
                                        CompileOptions{.saved_budget = 0.5, .partitioner = own}})
    testing::expect_error(Errc::Argument, "expected one of memory_budget, saved_budget",
                          [&] { differentiated(two_layers, options); });
}

TEST(Steering, WhatIsEmptyIsRefused) {
  const auto none = std::make_shared<GraphPass>(GraphPass{"mine", PassPoint::Core, {}});
  for (const auto& pass : {std::shared_ptr<GraphPass>(), none})
    testing::expect_error(Errc::Argument, "passes that can be run",
                          [&] { compile(layer, {.passes = {pass}}); });
  testing::expect_error(Errc::Argument, "partitioner mine: expected a function that chooses",
                        [] { make_partitioner("mine", ChooseSaved()); });
}

TEST(Steering, GraphsThatWereAskedForStayThoughTheirVariantIsDropped) {
  const auto f = compile([](const Tensor& x) { return sum(sin(x)); }, {.max_variant_bytes = 0});
  const CompiledGraphs& graphs = f.graphs(ones({3}));
  const std::string text = ir::print(graphs.traced);
  for (int n = 4; n < 9; ++n) EXPECT_EQ(&f.graphs(ones({n})), &f.graphs(ones({n})));
  EXPECT_EQ(ir::print(graphs.traced), text);
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

/// The most bytes that forward and backward hold beyond the arguments: what the allocator counts
/// (saved values, outputs, gradients), and the arena in which both run.
template <class Fn>
int64_t peak_of_step(const Fn& f, const Tensor& x, const std::vector<Tensor>& parameters) {
  const auto forget_gradients = [&] {
    x.set_grad({});
    for (const Tensor& t : parameters) t.set_grad({});
  };
  f(x, parameters).backward();
  forget_gradients();
  const size_t before = machine::allocator_stats().live_bytes;
  machine::reset_peak_live_bytes();
  f(x, parameters).backward();
  const size_t most = machine::allocator_stats().peak_live_bytes;
  forget_gradients();
  const CompiledGraphs& graphs = f.graphs(x, parameters);
  return static_cast<int64_t>(most - before) +
         std::max(graphs.forward_report.arena_bytes, graphs.backward_report.arena_bytes);
}

TEST(MemoryBudget, ThePeakOfFourBlocksFallsWithTheBudget) {
  constexpr int64_t c = 32;
  std::vector<Tensor> p = {randn({c}),    randn({c}),        randn({c, 3 * c}),
                           randn({c, c}), randn({c, 4 * c}), randn({4 * c, c})};
  for (const Tensor& t : p) t.requires_grad_();
  const Tensor x = randn({2, 16, c}).requires_grad_();
  const auto four_blocks = [](const Tensor& y, const std::vector<Tensor>& v) {
    Tensor z = y;
    for (int i = 0; i < 4; ++i) z = block(z, v);
    return sum(z);
  };
  const auto saved_by = [&](const std::string& name) {
    return compile(four_blocks, {.partition = name}).graphs(x, p).partition.saved_bytes;
  };
  EXPECT_LE(3 * saved_by("recompute-all"), saved_by("save-all"));
  int64_t last = std::numeric_limits<int64_t>::max(), first = 0;
  for (int k = 20; k >= 0; --k) {
    const auto f = compile(four_blocks, {.memory_budget = k / 20.0});
    const int64_t peak = peak_of_step(f, x, p);
    const PartitionReport& report = f.graphs(x, p).partition;
    if (k == 20) first = peak;
    EXPECT_LE(peak, last) << k;
    EXPECT_TRUE(k == 20 || report.peak_bytes <= report.limit_bytes) << k;  // at 1: no budget
    last = peak;
  }
  EXPECT_LT(last, first);
}

/// Bytes that the process holds for steps of `f` beyond what it held before: live, and idle until
/// the next step.
template <class Fn>
int64_t held_by(const Fn& f, const Tensor& x, const std::vector<Tensor>& parameters) {
  const auto held = [] {
    const auto blocks = machine::allocator_stats();
    const auto arenas = machine::arena_stats();
    return static_cast<int64_t>(blocks.live_bytes + blocks.idle_bytes + arenas.idle_bytes);
  };
  f(x, parameters).backward();
  const auto forget = [&] {
    x.set_grad({});
    for (const Tensor& t : parameters) t.set_grad({});
    machine::release_idle_arenas();
    machine::release_idle_blocks();
  };
  forget();
  const int64_t before = held();
  for (int step = 0; step < 2; ++step) f(x, parameters).backward();
  const int64_t after = held();
  forget();
  return after - before;
}

TEST(MemoryBudget, WhatTheProcessHoldsFollowsTheSimulation) {
  constexpr int64_t c = 128, kHugePage = 2 << 20;
  std::vector<Tensor> p = {randn({c}),    randn({c}),        randn({c, 3 * c}),
                           randn({c, c}), randn({c, 4 * c}), randn({4 * c, c})};
  for (const Tensor& t : p) t.requires_grad_();
  const Tensor x = randn({4, 128, c}).requires_grad_();
  const auto four_blocks = [](const Tensor& y, const std::vector<Tensor>& v) {
    Tensor z = y;
    for (int i = 0; i < 4; ++i) z = block(z, v);
    return sum(z);
  };
  std::vector<int64_t> simulated, held;
  for (const double budget : {1.0, 0.5, 0.0}) {
    const auto f = compile(four_blocks, {.partition = memory_budget_of(budget)});
    held.push_back(held_by(f, x, p));
    simulated.push_back(f.graphs(x, p).partition.peak_bytes);
    EXPECT_GE(held.back(), simulated.back() * 9 / 10) << budget;
    // sizes are rounded up, to huge pages in the end
    EXPECT_LE(held.back(), simulated.back() * 5 / 4 + 2 * kHugePage) << budget;
  }
  EXPECT_GT(10 * (held.front() - held.back()), 7 * (simulated.front() - simulated.back()));
}

/// The default's halves, which no longer say where saved values come from.
struct Forgetful final : ir::Partitioner {
  std::string name() const override { return "forgetful"; }
  ir::Partition partition(const Graph& core) const override {
    ir::Partition cut = make_partitioner("default")->partition(core);
    for (ir::Input& input : cut.backward.inputs())
      if (input.role == ir::Role::Saved) input.target = target;
    return cut;
  }
  int target = -1;
};

/// Halves of the user's own making.
struct Halves final : ir::Partitioner {
  using Change = std::function<void(ir::Partition&)>;
  explicit Halves(Change change) : change(std::move(change)) {}
  std::string name() const override { return "halves"; }
  ir::Partition partition(const Graph& core) const override {
    ir::Partition cut = make_partitioner("default")->partition(core);
    change(cut);
    return cut;
  }
  Change change;
};

TEST(Steering, HalvesThatDoNotFitTheGraphAreRefused) {
  const Halves::Change changes[] = {
      [](ir::Partition& cut) { cut = {}; },
      [](ir::Partition& cut) { cut.backward = {}; },
      [](ir::Partition& cut) { std::swap(cut.forward, cut.backward); },
      [](ir::Partition& cut) { cut.forward.level = ir::Level::Core; },
      [](ir::Partition& cut) { cut.backward.outputs().pop_back(); },
      [](ir::Partition& cut) { cut.forward.outputs().erase(cut.forward.outputs().begin()); },
      [](ir::Partition& cut) { cut.forward.inputs()[0].strides = {1}; },
      [](ir::Partition& cut) { cut.backward.outputs()[0].value = {}; },
  };
  for (const auto& change : changes)
    testing::expect_error(Errc::Partition, "partitioner halves: ", [&] {
      differentiated(two_layers, {.partitioner = std::make_shared<Halves>(change)});
    });
}

TEST(Steering, ValuesThatAreNoneOfTheGraphsAreRefused) {
  for (const uint32_t index : {ir::ValueId::kNone, ir::ValueId::kNone - 1, 1000u, 1u << 31}) {
    const auto choose = [=](const Graph&) { return std::vector<ir::ValueId>{{index}}; };
    testing::expect_error(Errc::Partition, "there is no value", [&] {
      differentiated(two_layers, {.partitioner = make_partitioner("outside", choose)});
    });
  }
  const auto past_the_end = [](const Graph& core) {
    return std::vector<ir::ValueId>{{static_cast<uint32_t>(core.num_values())}};
  };
  testing::expect_error(Errc::Partition, "expected one of the graph's", [&] {
    differentiated(two_layers, {.partitioner = make_partitioner("outside", past_the_end)});
  });
}

TEST(Steering, SavedValuesThatForwardDoesNotReturnAreRefused) {
  for (int target : {-1, 0, 99}) {
    const auto forgetful = std::make_shared<Forgetful>();
    forgetful->target = target;
    testing::expect_error(Errc::Partition, "target",
                          [&] { differentiated(two_layers, {.partitioner = forgetful}); });
  }
}

TEST(Marks, ThatContradictEachOtherAreRefused) {
  const auto refused = [](const std::function<Tensor(const Tensor&)>& body) {
    const Tensor x = ones({8}).requires_grad_();
    const std::string text = testing::error_of([&] { compile(body)(x); }, Errc::Argument);
    for (const char* part : {"marked to be saved and to be computed again", "steering_test.cpp:"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
    body(x);  // without a trace marks do nothing
  };
  refused([](const Tensor& x) {
    const Tensor y = sin(x);
    save_for_backward(y);
    return sin(recompute_in_backward(y)).sum();
  });
  refused([](const Tensor& x) {
    return checkpoint([](const Tensor& t) { return sin(recompute_in_backward(sin(t))).sum(); },
                      {.save_ops = {"sin"}, .save_names = {}})(x);
  });
  const auto twice = [](const Tensor& x) {
    return sin(save_for_backward(save_for_backward(sin(x)))).sum();
  };
  compile(twice)(ones({8}).requires_grad_());
}

}  // namespace
}  // namespace tandem
