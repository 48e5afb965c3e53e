// What the partitioner is told.
#include "check_lowering.h"
#include "codegen/cost/costs.h"
#include "ir/base/error.h"

namespace tandem::codegen {
namespace {

TEST(CostModel, FusesWhatLoweringFuses) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({64, 32}), w = t.input({32, 8});
  const V e = b.exp(x), rows = b.sum(e, {1}, true), y = b.mul(e, b.expand(rows, {64, 32}));
  const V cols = b.sum(y, {0}), z = b.mm(y, w);
  t.output(b.neg(cols));
  t.output(b.neg(z));
  const ir::Graph& g = t.finish();
  const auto model = make_cost_model();
  const auto of = [&](V v) { return g.producer(v); };
  EXPECT_TRUE(model->may_fuse(g, of(e), of(rows)));
  EXPECT_TRUE(model->may_fuse(g, of(e), of(y)));
  EXPECT_TRUE(model->may_fuse(g, of(rows), of(y)));
  EXPECT_FALSE(model->may_fuse(g, of(y), of(z)));
  EXPECT_FALSE(model->may_fuse(g, of(cols), g.producer(g.outputs()[0].value)));
  EXPECT_FALSE(model->may_fuse(g, of(z), g.producer(g.outputs()[1].value)));
}

TEST(CostModel, PricesWorkAndTraffic) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({1000, 1000});
  const V n = b.neg(x), e = b.exp(x), p = b.mm(x, x);
  t.output(b.add(b.add(n, e), p));
  const ir::Graph& g = t.finish();
  const auto model = make_cost_model();
  const auto seconds = [&](const std::vector<V>& values) {
    std::vector<ir::EquationId> equations;
    for (V v : values) equations.push_back(g.producer(v));
    return model->seconds(g, equations);
  };
  EXPECT_LT(seconds({n}), seconds({e}));
  EXPECT_LT(seconds({e}), seconds({p}));
  EXPECT_LT(seconds({n, e}), seconds({n}) + seconds({e}));  // x is read once
}

TEST(CostModel, HeadsThatAreReadWhereTheyLieCostNothing) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({2, 5, 12});
  const V split = b.permute(b.view(x, {2, 5, 3, 4}), {0, 2, 1, 3}), q = b.view(split, {6, 5, 4});
  const V scores = b.bmm(q, b.permute(q, {0, 2, 1})), y = b.bmm(scores, q);
  const V back = b.permute(b.view(y, {2, 3, 5, 4}), {0, 2, 1, 3}),
          joined = b.view(back, {2, 5, 12});
  t.output(joined);
  const ir::Graph& g = t.finish();
  const auto model = make_cost_model();
  for (const V v : {split, q, back, joined})
    EXPECT_EQ(model->seconds(g, std::vector<ir::EquationId>{g.producer(v)}), 0);
  EXPECT_EQ(model->arena_bytes(g), 640);  // the scores: 6 * 5 * 5 floats, in lines
  EXPECT_EQ(check_lowering(g).plan.report.kernels, 0);
}

TEST(Costs, AreReadAsTheyArePrinted) {
  const CostTable& shipped = shipped_costs();
  const CostTable read = parse_costs(print(shipped));
  EXPECT_EQ(print(read), print(shipped));
  const auto cost = [](const CostTable& t, ir::Op op) {
    return t.element_ns[static_cast<size_t>(op)];
  };
  EXPECT_LT(cost(shipped, ir::Op::mul), cost(shipped, ir::Op::tanh));
  EXPECT_GT(shipped.byte_ns, 0);
  EXPECT_EQ(cost(parse_costs("mul 3.5"), ir::Op::mul), 3.5);
  EXPECT_EQ(parse_costs("@byte_ns 0.25").byte_ns, 0.25);
  for (const char* bad :
       {"mul",     "mul x",     "mul 1 2",        "no_such_op 1", "mul -1",           "mul inf",
        "mul nan", "mul 1e999", "mul 1x",         "mul 0x1",      "mul -0",           "mul ",
        "mul  1",  " mul 1",    "mul 1\n\nadd 1", "mul 1\nmul 2", "@library_flops 0", "@nothing 1",
        "\n",      "mul 1\r\n", "\xff 1"})
    EXPECT_THROW(parse_costs(bad), ir::Error) << bad;
}

TEST(ContractionPlanner, SetsAlgorithms) {
  TestGraph t;
  const V x = t.input({12, 12}), y = t.input({12, 12}, DType::F64);
  const V a = t.b.mm(x, x), c = t.b.mm(y, y);
  t.output(a);
  t.output(c);
  const ir::Graph g = make_contraction_planner()->plan(t.finish());
  EXPECT_EQ(g.attr<std::string>(g.producer(a), ir::Attr::algorithm), "onednn");
  EXPECT_EQ(g.attr<std::string>(g.producer(c), ir::Attr::algorithm), "tiled");
}

TEST(ContractionPlanner, ComputesTransposedWhatIsUsedTransposed) {
  TestGraph t;
  const V x = t.input({16, 4}), g = t.input({16, 3});
  t.output(t.b.permute(t.b.mm(t.b.permute(x, {1, 0}), g), {1, 0}));  // a weight's gradient
  const ir::Graph planned = make_contraction_planner()->plan(t.finish());
  const Checked c = check_lowering(planned);
  EXPECT_EQ(c.plan.report.kernels, 0);
  EXPECT_EQ(c.plan.report.library_calls, 1);
}

}  // namespace
}  // namespace tandem::codegen
