// Time as the price, budgets against brute force, marks and checkpoint regions.
#include "partition/budget.h"

#include <cstdio>
#include <random>

#include "autodiff/joint.h"
#include "ir/base/error.h"
#include "partition/partition.h"
#include "tests/support/random/random_matrices.h"
#include "tests/unit/partition/fixed_costs.h"
#include "tests/unit/partition/halves.h"

namespace tandem {
namespace {

using graph_testing::Values;
using ir::Builder;
using ir::DType;
using ir::Graph;
using ir::Mark;
using ir::Op;
using ir::Partition;
using ir::Type;
using ir::ValueId;
using partition::Analysis;
using partition::Estimate;
using partition_testing::expect_joint_bits;
using partition_testing::FixedCosts;
using partition_testing::to_core;

const FixedCosts kCosts;

Type f32(const ir::Shape& sizes) { return {DType::F32, sizes}; }

Graph core_of(const std::vector<Type>& types, const graph_testing::Body& body) {
  return to_core(autodiff::joint(graph_testing::make_graph(types, body)));
}

Partition by(const std::string& name, const Graph& core) {
  return partition::make_partitioner(name)->partition_within(core, {.costs = &kCosts});
}

constexpr int64_t kSide = 64, kMatrix = kSide * kSide * 4;

Graph matmul_cos_chain(int pairs) {
  return core_of(std::vector<Type>(static_cast<size_t>(pairs) + 1, f32({kSide, kSide})),
                 [](Builder& b, const Values& v) {
                   ValueId x = v[0];
                   for (size_t i = 1; i < v.size(); ++i) x = b.cos(b.mm(x, v[i]));
                   return Values{x};
                 });
}

int64_t contractions(const Partition& p) {
  return graph_testing::count(p.forward, Op::mm) + graph_testing::count(p.backward, Op::mm);
}

TEST(Default, RecomputesCheapArithmeticAndSavesContractions) {
  const Graph core =
      core_of({f32({kSide, kSide}), f32({kSide, kSide})}, [](Builder& b, const Values& v) {
        const ValueId h = b.mm(v[0], v[1]);
        return Values{b.mul(b.sin(b.mul(h, h)), b.add(h, h))};
      });
  const auto report = by("default", core).report;
  EXPECT_EQ(report.saved_bytes, kMatrix);  // the product alone
  EXPECT_EQ(report.minimal_bytes, kMatrix);
  EXPECT_GT(report.recomputed_equations, 0);
  for (const ir::SavedValue& saved : report.saved) {
    EXPECT_FALSE(saved.reason.empty());
    EXPECT_FALSE(saved.needed_by.empty()) << saved.name;
    if (saved.bytes == 0) continue;
    EXPECT_GT(saved.recompute_seconds, saved.save_seconds);
  }
  EXPECT_NE(to_text(report).find("contraction: not recomputed"), std::string::npos);
  EXPECT_NE(to_json(report).find("\"schema\": \"tandem.partition/1\""), std::string::npos);
}

TEST(Default, LeavesContractionsInForward) {
  const Graph core = core_of({f32({kSide, kSide}), f32({kSide, kSide}), f32({kSide, kSide})},
                             [](Builder& b, const Values& v) {
                               ValueId x = b.mm(v[0], v[1]);
                               for (int i = 0; i < 10; ++i) x = b.cos(x);
                               return Values{b.mm(x, v[2])};
                             });
  const Partition p = by("default", core);
  EXPECT_EQ(contractions(p), graph_testing::count(core, Op::mm));
  expect_joint_bits(core, p, "default");
}

TEST(Default, SavesAResidualStreamThatLiesInMemoryAnyway) {
  const Graph core =
      core_of({f32({kSide, kSide}), f32({kSide, kSide})}, [](Builder& b, const Values& v) {
        ValueId x = v[0];
        for (int i = 0; i < 3; ++i) x = b.add(x, b.mm(b.sin(x), v[1]));
        return Values{x};
      });
  // The sums are written in forward, since products lie between their readers. So they are saved,
  // and not the products from which backward could add them up again.
  for (const ir::SavedValue& saved : by("default", core).report.saved)
    EXPECT_FALSE(saved.reason.starts_with("contraction")) << saved.name;
}

TEST(SavedBudget, AChainSavesExactlyWhatFits) {
  const Graph core = matmul_cos_chain(5);
  const int64_t all = graph_testing::count(core, Op::mm);
  for (int kept = 0; kept <= 5; ++kept)
    for (const int64_t more : {int64_t{0}, kMatrix / 2}) {
      const Partition p =
          by("saved_bytes=" + std::to_string(kept * kMatrix + (kept < 5 ? more : 0)), core);
      EXPECT_EQ(p.report.saved_bytes, kept * kMatrix) << to_text(p.report);
      EXPECT_EQ(contractions(p), all + 5 - kept);
      EXPECT_NEAR(p.report.least_seconds, p.report.save_seconds + p.report.recompute_seconds, 1e-9);
    }
}

TEST(SavedBudget, AShareOfTheDefaultPlansBytes) {
  const Graph core = matmul_cos_chain(4);
  const int64_t whole = by("default", core).report.saved_bytes;
  EXPECT_EQ(whole, 7 * kMatrix);  // the products, and the cosines that products of backward read
  EXPECT_EQ(by("saved_budget=1", core).report.saved_bytes, whole);
  EXPECT_EQ(by("saved_budget=0.5", core).report.saved_bytes, 3 * kMatrix);
  EXPECT_EQ(by("saved_budget=0", core).report.saved_bytes, 0);
}

TEST(SavedBudget, RefusesWhatIsNoBudget) {
  const Graph core = matmul_cos_chain(1);
  for (const char* bad :
       {"saved_budget=2", "memory_budget=-1", "saved_bytes=-5", "saved_bytes=-1e30",
        "saved_bytes=nan", "memory_budget=nan", "saved_budget", "saved_budget=x", "default=1"})
    try {
      by(bad, core);
      ADD_FAILURE() << bad;
    } catch (const ir::Error& error) {
      const std::string_view option =
          std::string_view(bad).substr(0, std::string_view(bad).find('='));
      EXPECT_NE(std::string(error.what()).find(option), std::string::npos) << error.what();
    }
  EXPECT_THROW(partition::make_partitioner("memory_budget=0.5")->partition(core), ir::Error);
}

/// Whether the search may save `v` and pays for it.
bool is_candidate(const Analysis& a, ValueId v) {
  return a.backward[v] && !a.needs_tangent[v] && !a.graph.type(v).is_token && !a.is_free_view(v) &&
         a.saved_bytes(v) > 0;
}

/// The least time over all sets of at most `max_bytes`.
double by_brute_force(const Analysis& a, const Estimate& estimate, const Values& candidates,
                      int64_t max_bytes) {
  Values inputs;
  for (ValueId v : a.all_values())
    if (a.is_primal(v) && a.saved_bytes(v) == 0) inputs.push_back(v);
  double best = std::numeric_limits<double>::infinity();
  for (uint32_t set = 0; set < uint32_t{1} << candidates.size(); ++set) {
    Values saved = inputs;
    int64_t bytes = 0;
    for (size_t i = 0; i < candidates.size(); ++i)
      if (set >> i & 1) {
        saved.push_back(candidates[i]);
        bytes += a.saved_bytes(candidates[i]);
      }
    if (bytes > max_bytes) continue;
    best = std::min(best, partition::cost_of(a, estimate, saved).seconds());
  }
  return best;
}

/// A few random steps on matrices of two sizes.
Graph small_graph(std::mt19937& gen) {
  return core_of({f32({8, 8}), f32({8, 8}), f32({8, 2})}, [&](Builder& b, const Values& v) {
    Values square = {v[0]}, thin = {v[2]};
    const auto pick = [&](const Values& from) { return from[gen() % from.size()]; };
    const int steps = 2 + static_cast<int>(gen() % 7);
    for (int i = 0; i < steps; ++i) switch (gen() % 6) {
        case 0:
          square.push_back(b.mm(pick(square), v[1]));
          break;
        case 1:
          thin.push_back(b.mm(pick(square), pick(thin)));
          break;
        case 2:
          square.push_back(b.sin(pick(square)));
          break;
        case 3:
          thin.push_back(b.mul(pick(thin), pick(thin)));
          break;
        case 4:
          square.push_back(b.mul(pick(square), b.t(pick(square))));
          break;
        default:
          square.push_back(b.tanh(square.back()));
      }
    return Values{square.back(), thin.back()};
  });
}

TEST(SavedBudget, IsTheBestOfAllSetsOnThousandRandomGraphs) {
  std::mt19937 gen(5);
  int graphs = 0, large = 0, inexact = 0;
  for (int tries = 0; graphs < 1000; ++tries) {
    ASSERT_LT(tries, 20'000);
    const Graph core = small_graph(gen);
    const Analysis a(core);
    const Estimate estimate(a, &kCosts);
    Values candidates;
    int64_t all = 0;
    for (ValueId v : a.all_values())
      if (is_candidate(a, v)) {
        candidates.push_back(v);
        all += a.saved_bytes(v);
      }
    // Brute force takes 2^candidates steps: a few of the largest are enough.
    if (candidates.empty() || candidates.size() > 16) continue;
    if (candidates.size() > 11 && ++large > 25) continue;
    ++graphs;
    const int64_t limit = static_cast<int64_t>(gen()) % (all + 1);
    const auto found = partition::cheapest_within(a, estimate, limit);
    EXPECT_LE(found.cost.saved_bytes, limit);
    inexact += !found.exact;
    const double best = by_brute_force(a, estimate, candidates, limit);
    ASSERT_NEAR(found.cost.seconds(), best, 2e-11) << ir::print(core) << "limit " << limit;
    ASSERT_LE(found.least_seconds, best + 2e-11);
  }
  std::printf("%d graphs, %d with more than 11 candidates, %d not proven\n", graphs,
              std::min(large, 25), inexact);
  EXPECT_EQ(inexact, 0);
}

TEST(SavedBudget, NoNumberIsTooLarge) {
  const Graph core = matmul_cos_chain(3);
  const int64_t all = by("saved_bytes=1000000", core).report.saved_bytes;
  for (const char* bytes : {"9e18", "9223372036854775807", "1e30", "inf"})
    EXPECT_EQ(by(std::string("saved_bytes=") + bytes, core).report.saved_bytes, all) << bytes;
}

TEST(MemoryBudget, ThePeakFallsWithTheBudget) {
  const Graph core = matmul_cos_chain(8);
  int64_t last = std::numeric_limits<int64_t>::max();
  for (int k = 20; k >= 0; --k) {
    const Partition p = by("memory_budget=" + std::to_string(k / 20.0), core);
    EXPECT_LE(p.report.peak_bytes, p.report.limit_bytes);
    EXPECT_LE(p.report.peak_bytes, last) << k;
    last = p.report.peak_bytes;
    EXPECT_EQ(std::ranges::count(p.report.candidates, true, &ir::Candidate::chosen), 1);
    expect_joint_bits(core, p, "memory budget");
  }
  EXPECT_LT(last, by("memory_budget=1", core).report.peak_bytes);
}

Graph marked(Graph functional, const std::function<void(Graph&)>& mark) {
  mark(functional);
  return to_core(autodiff::joint(functional));
}

Graph sines(int count) {
  return graph_testing::make_graph({f32({kSide, kSide})}, [&](Builder& b, const Values& v) {
    ValueId x = v[0];
    for (int i = 0; i < count; ++i) x = b.sin(x);
    return Values{x};
  });
}

TEST(Marks, AreHeeded) {
  const Graph plain = to_core(autodiff::joint(sines(3)));
  EXPECT_EQ(by("default", plain).report.saved_bytes, 0);
  const Graph saved = marked(sines(3), [](Graph& g) { g.equation({0}).mark = Mark::Save; });
  for (const char* name : {"default", "reference"}) {
    const Partition p = by(name, saved);
    EXPECT_EQ(p.report.saved_bytes, kMatrix) << to_text(p.report);
    EXPECT_NE(to_text(p.report).find("marked: save"), std::string::npos);
    expect_joint_bits(saved, p, name);
  }
  const auto product = [](Mark mark) {
    Graph f = graph_testing::make_graph(
        {f32({kSide, kSide}), f32({kSide, kSide})},
        [](Builder& b, const Values& v) { return Values{b.sin(b.mm(v[0], v[1]))}; });
    return marked(f, [&](Graph& g) { g.equation({0}).mark = mark; });
  };
  EXPECT_EQ(by("default", product(Mark::Auto)).report.saved_bytes, kMatrix);
  // The product itself is not saved; its cosine, computed for backward, may be.
  const auto is_product = [](const ir::SavedValue& s) {
    return s.reason.starts_with("contraction");
  };
  const auto saves_product = [&](Mark mark) {
    return std::ranges::any_of(by("default", product(mark)).report.saved, is_product);
  };
  EXPECT_TRUE(saves_product(Mark::Auto));
  EXPECT_FALSE(saves_product(Mark::Recompute));
}

/// Three layers of sin(x @ w) * x, the second with `mark` on the product, the third a region.
Graph marked_layers(Mark mark, bool with_region) {
  Graph f = graph_testing::make_graph(
      {f32({kSide, kSide}), f32({kSide, kSide})}, [&](Builder& b, const Values& v) {
        ValueId x = v[0];
        for (int layer = 0; layer < 3; ++layer) {
          static_cast<ir::GraphSink&>(b.sink()).region = with_region && layer == 2 ? 1 : 0;
          x = b.mul(b.sin(b.mm(x, v[1])), x);
        }
        return Values{x};
      });
  return marked(std::move(f), [&](Graph& g) { g.equation({3}).mark = mark; });
}

TEST(Marks, BindAtEveryBudget) {
  for (const Mark mark : {Mark::Auto, Mark::Save, Mark::Recompute})
    for (const bool with_region : {false, true})
      for (const std::string budget : {"memory_budget", "saved_budget"})
        for (const double share : {0.0, 0.3, 0.6, 1.0}) {
          const Graph core = marked_layers(mark, with_region);
          const std::string name = budget + "=" + std::to_string(share);
          const Partition p = by(name, core);
          const auto saved = [&](const char* reason) {
            return std::ranges::count_if(p.report.saved, [&](const ir::SavedValue& s) {
              return s.reason.starts_with(reason);
            });
          };
          EXPECT_EQ(saved("marked: save"), mark == Mark::Save) << to_text(p.report);
          EXPECT_EQ(saved("handed out"), 0) << to_text(p.report);
          const bool bounded = budget == "memory_budget" && share < 1;
          EXPECT_TRUE(!bounded || p.report.peak_bytes <= p.report.limit_bytes);
          expect_joint_bits(core, p, name);
        }
}

TEST(Marks, WhatIsNotToBeHeldIsNotHeldInAnotherForm) {
  for (const char* name : {"default", "reference", "saved_budget=0.5", "memory_budget=0.5"})
    for (int chain = 1; chain <= 4; ++chain) {
      const auto body = [&](Builder& b, const Values& v) {
        ValueId x = b.mm(v[0], v[1]);
        for (int i = 0; i < chain; ++i) x = i % 2 ? b.tanh(b.t(x)) : b.exp(x);
        return Values{b.mm(b.mul(x, x), v[1])};
      };
      const Graph f = graph_testing::make_graph({f32({kSide, kSide}), f32({kSide, kSide})}, body);
      const Graph core = marked(f, [](Graph& g) { g.equation({0}).mark = Mark::Recompute; });
      const Partition p = by(name, core);
      EXPECT_EQ(p.report.saved_bytes, 0) << to_text(p.report);
      expect_joint_bits(core, p, name);
    }
  const Graph free = to_core(autodiff::joint(graph_testing::make_graph(
      {f32({kSide, kSide})},
      [](Builder& b, const Values& v) { return Values{b.exp(b.mm(v[0], v[0]))}; })));
  EXPECT_EQ(by("default", free).report.saved_bytes, kMatrix);
  // Half as many bytes, a sum of rows, and what is marked itself may be held.
  const auto saved = [](const std::function<ValueId(Builder&, ValueId)>& body, bool save) {
    const Graph f = graph_testing::make_graph(
        {f32({kSide, kSide})},
        [&](Builder& b, const Values& v) { return Values{body(b, b.exp(b.mm(v[0], v[0])))}; });
    const Graph core = marked(f, [&](Graph& g) {
      g.equation({0}).mark = Mark::Recompute;
      if (save) g.equation({1}).mark = Mark::Save;
    });
    return by("default", core).report.saved_bytes;
  };
  const auto sine = [](Builder& b, ValueId x) { return b.sin(x); };
  EXPECT_EQ(saved(sine, false), 0);
  EXPECT_EQ(saved(sine, true), kMatrix);
  const auto rows = [](Builder& b, ValueId x) { return b.sin(b.sum(b.sin(x), {1})); };
  EXPECT_LE(saved(rows, false), kSide * 4);
  const auto half = [](Builder& b, ValueId x) {
    return b.mm(b.convert(x, DType::F16), b.convert(x, DType::F16));
  };
  EXPECT_EQ(saved(half, false), kMatrix / 2);
}

TEST(Marks, ABudgetThatTheyExceedNamesTheChain) {
  const Graph core = marked(sines(3), [](Graph& g) {
    g.set_hint(g.result({0}), "first");
    g.equation({0}).mark = Mark::Save;
  });
  EXPECT_EQ(by("saved_bytes=" + std::to_string(kMatrix), core).report.saved_bytes, kMatrix);
  try {
    by("saved_bytes=100", core);
    FAIL() << "expected an Error";
  } catch (const ir::Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), ir::Errc::Partition);
    EXPECT_NE(text.find("saved_bytes: expected at least 16384 bytes"), std::string::npos) << text;
    EXPECT_NE(text.find("first (16384 bytes)"), std::string::npos) << text;
    EXPECT_NE(text.find("chain first -> "), std::string::npos) << text;
  }
}

TEST(Regions, SaveOnlyWhatTheyHandOut) {
  // Two regions of a product, a sine and a product each.
  const Graph functional = graph_testing::make_graph(
      {f32({kSide, kSide}), f32({kSide, kSide})}, [](Builder& b, const Values& v) {
        ValueId x = v[0];
        for (int region = 1; region <= 2; ++region) {
          static_cast<ir::GraphSink&>(b.sink()).region = static_cast<uint32_t>(region);
          x = b.mm(b.sin(b.mm(x, v[1])), v[1]);
        }
        return Values{x};
      });
  const Graph core = to_core(autodiff::joint(functional));
  const Partition p = by("default", core);
  EXPECT_EQ(p.report.saved_bytes, kMatrix) << to_text(p.report);
  EXPECT_NE(to_text(p.report).find("handed out by a checkpoint region"), std::string::npos);
  EXPECT_EQ(contractions(p), graph_testing::count(core, Op::mm) + 2);
  expect_joint_bits(core, p, "regions");
}

TEST(Choices, AUsersFunctionDecides) {
  const Graph core = matmul_cos_chain(3);
  const auto everything = partition::make_partitioner("mine", [](const Graph& g) {
    const Analysis a(g);
    Values saved;
    for (ValueId v : a.all_values())
      if (a.backward[v] && !a.needs_tangent[v]) saved.push_back(v);
    return saved;
  });
  const Partition p = everything->partition(core);
  EXPECT_EQ(p.report.partitioner, "mine");
  EXPECT_EQ(p.report.recomputed_equations, 0);
  expect_joint_bits(core, p, "mine");
  const auto nothing = partition::make_partitioner("none", [](const Graph&) { return Values{}; });
  EXPECT_THROW(nothing->partition(core), ir::Error);
}

}  // namespace
}  // namespace tandem
