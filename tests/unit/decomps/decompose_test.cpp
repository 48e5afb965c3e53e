// Every decomposition against the interpreter's definition of the composite, in f64.
#include "decomps/decompose.h"

#include <utility>

#include "decomps/rules/rules.h"
#include "ir/build/rewrite.h"
#include "ir/reduction_order.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/support/graph_testing.h"

namespace tandem::graph_testing {
namespace {

using ir::AttrValue;
using ir::Number;

struct Case {
  Op op;
  std::vector<Type> operands;
  std::vector<AttrValue> attrs;
  int rng = -1;
  double tolerance = 1e-12;
};

Type f32(Shape sizes) { return {DType::F32, std::move(sizes)}; }
Type i64(Shape sizes) { return {DType::I64, std::move(sizes)}; }
Type boolean(Shape sizes) { return {DType::Bool, std::move(sizes)}; }
ir::Dims dims(std::initializer_list<Dim> list) { return list; }
ir::Axes axes(std::initializer_list<ir::Axis> list) { return list; }
const std::string kNone = "none", kMean = "mean", kSum = "sum", kTanh = "tanh";

std::vector<Case> pointwise_cases() {
  const Type x = f32({4, 33});
  std::vector<Case> cases;
  for (Op op : {Op::relu, Op::relu6, Op::selu, Op::silu, Op::mish, Op::softsign, Op::hardsigmoid,
                Op::hardswish, Op::log_sigmoid, Op::logit, Op::square, Op::frac, Op::isnan,
                Op::isinf, Op::isfinite, Op::entr})
    cases.push_back({op, {x}, {}});
  for (Op op :
       {Op::clamp_min, Op::clamp_max, Op::hypot, Op::copysign, Op::logaddexp, Op::logaddexp2,
        Op::xlogy, Op::xlog1py, Op::heaviside, Op::nextafter, Op::div_floor})
    cases.push_back({op, {x, x}, {}});
  for (double alpha : {0.01, 1.0, 2.5})
    for (Op op : {Op::leaky_relu, Op::elu, Op::celu}) cases.push_back({op, {x}, {alpha}});
  cases.push_back({Op::gelu, {x}, {kNone}});
  cases.push_back({Op::gelu, {x}, {kTanh}});
  cases.push_back({Op::softplus, {x}, {1.0, 20.0}});
  cases.push_back({Op::softplus, {x}, {2.0, 3.0}});
  cases.push_back({Op::hardtanh, {x, x, x}, {}});
  cases.push_back({Op::clamp, {x, x, x}, {}});
  for (Op op : {Op::lgamma, Op::digamma, Op::erfinv, Op::erfcx, Op::ndtri, Op::log_ndtr, Op::i0,
                Op::i0e, Op::i1, Op::i1e})
    cases.push_back({op, {x}, {}, -1, 1e-11});
  for (int64_t degree : {1, 2, 7}) cases.push_back({Op::polygamma, {x}, {degree}, -1, 1e-11});
  cases.push_back({Op::zeta, {x, x}, {}, -1, 1e-11});
  cases.push_back({Op::lerp, {x, x, x}, {}});
  cases.push_back({Op::addcmul, {x, x, x}, {Number(0.5)}});
  cases.push_back({Op::addcdiv, {x, x, x}, {Number(2)}});
  cases.push_back({Op::nan_to_num, {x, x, x, x}, {}});
  cases.push_back({Op::masked_fill, {x, boolean({4, 33}), x}, {}});
  for (int64_t offset : {-2, 0, 1, 40}) {
    cases.push_back({Op::tril, {f32({2, 5, 7})}, {Dim(offset)}});
    cases.push_back({Op::triu, {f32({2, 5, 7})}, {Dim(offset)}});
  }
  cases.push_back({Op::relu, {i64({5})}, {}});
  cases.push_back({Op::isnan, {i64({5})}, {}});
  cases.push_back({Op::isfinite, {i64({5})}, {}});
  cases.push_back({Op::addcmul, {i64({5}), i64({5}), i64({5})}, {Number(3)}});
  cases.push_back({Op::nan_to_num, {i64({5}), i64({5}), i64({5}), i64({5})}, {}});
  return cases;
}

std::vector<Case> reduction_cases() {
  const Type x = f32({3, 4, 5});
  std::vector<Case> cases;
  for (bool keepdim : {false, true})
    for (const auto& over : {axes({2}), axes({0}), axes({0, 2}), axes({1, 2}), axes({0, 1, 2})}) {
      cases.push_back({Op::mean, {x}, {over, keepdim}});
      cases.push_back({Op::logsumexp, {x}, {over, keepdim}});
      cases.push_back({Op::var, {x}, {over, 1.0, keepdim}});
      cases.push_back({Op::std, {x}, {over, 0.0, keepdim}});
      cases.push_back({Op::var_mean, {x}, {over, 1.0, keepdim}});
      cases.push_back({Op::std_mean, {x}, {over, 0.0, keepdim}});
      cases.push_back({Op::aminmax, {x}, {over, keepdim}});
      cases.push_back({Op::sum, {x}, {over, keepdim, dims({})}});
      cases.push_back({Op::amax, {x}, {over, keepdim, dims({})}});
    }
  cases.push_back({Op::var, {f32({1, 3})}, {axes({0}), 1.0, false}});
  cases.push_back({Op::mean, {f32({0, 3})}, {axes({0}), false}});
  cases.push_back({Op::logsumexp, {f32({0, 3})}, {axes({0}), false}});
  for (int64_t dim : {0, 1, 2}) {
    cases.push_back({Op::softmax, {x}, {dim}});
    cases.push_back({Op::log_softmax, {x}, {dim}});
    for (Op op : {Op::max_with_indices, Op::min_with_indices})
      cases.push_back({op, {x}, {axes({dim}), dim == 1}});
  }
  cases.push_back({Op::softmax, {f32({3, 0})}, {int64_t{1}}});
  cases.push_back({Op::native_layer_norm, {x}, {int64_t{1}, 1e-5}});
  cases.push_back({Op::native_layer_norm, {x, f32({4, 5})}, {int64_t{2}, 1e-5}});
  cases.push_back({Op::native_layer_norm, {x, f32({5}), f32({5})}, {int64_t{1}, 1e-5}});
  for (int64_t groups : {1, 2, 4}) {
    cases.push_back({Op::native_group_norm, {x}, {groups, 1e-5}});
    cases.push_back({Op::native_group_norm, {x, f32({4})}, {groups, 1e-5}});
    cases.push_back({Op::native_group_norm, {x, f32({4}), f32({4})}, {groups, 1e-5}});
  }
  for (const std::string& reduction : {kNone, kMean, kSum})
    for (double smoothing : {0.0, 0.1})
      for (int64_t ignored : {-100, 2})
        cases.push_back(
            {Op::cross_entropy, {f32({6, 4}), i64({6})}, {ignored, smoothing, reduction}});
  return cases;
}

std::vector<Case> other_cases() {
  const Type x = f32({3, 4, 5});
  const Type q = f32({2, 3, 4, 5}), k = f32({2, 3, 6, 5}), v = f32({2, 3, 6, 7});
  return {
      {Op::scaled_dot_product_attention, {q, k, v}, {0.4, false}},
      {Op::scaled_dot_product_attention, {q, k, v}, {0.4, true}},
      {Op::scaled_dot_product_attention, {q, k, v, f32({2, 3, 4, 6})}, {0.4, false}},
      {Op::scaled_dot_product_attention, {q, k, v, boolean({2, 3, 4, 6})}, {0.4, false}},
      {Op::scaled_dot_product_attention, {f32({4, 5}), f32({6, 5}), f32({6, 7})}, {1.0, true}},
      {Op::embedding, {f32({4, 5}), i64({2, 3})}, {}},
      {Op::select, {x}, {int64_t{1}, Dim(2)}},
      {Op::squeeze, {f32({1, 3, 1})}, {axes({0})}},
      {Op::unsqueeze, {x}, {int64_t{1}}},
      {Op::transpose, {x}, {int64_t{0}, int64_t{2}}},
      {Op::alias, {x}, {}},
      {Op::detach, {x}, {}},
      {Op::select_scatter, {x, f32({3, 5})}, {int64_t{1}, Dim(2)}},
      {Op::copy, {x, x}, {}},
      {Op::fill, {x}, {Number(2.5)}},
  };
}

Graph graph_of(const Case& c) {
  return make_graph(
      c.operands,
      [&](Builder& b, const Values& x) {
        const ir::ValueList results = b.emit_all(c.op, std::span(x), c.attrs);
        return Values(results.begin(), results.end());
      },
      ir::Level::Functional, c.rng);
}

void check(const Case& c) {
  const Graph graph = graph_of(c), core = decomps::decompose(graph);
  const std::string what = ir::print(graph) + ir::print(core);
  ir::verify(core);
  for (const ir::Equation& e : core.equations()) ASSERT_FALSE(ir::is_composite(e.op)) << what;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    Buffers inputs = random_inputs(graph, seed);
    if (seed >= 2) sprinkle_special_values(inputs, seed);
    expect_close(run(core, inputs, true), run(graph, inputs, true), c.tolerance, what);
  }
}

TEST(Decompose, Pointwise) {
  for (const Case& c : pointwise_cases()) ASSERT_NO_FATAL_FAILURE(check(c));
}

TEST(Decompose, Reductions) {
  for (const Case& c : reduction_cases()) ASSERT_NO_FATAL_FAILURE(check(c));
}

TEST(Decompose, ContractionsIndexAndViews) {
  for (const Case& c : other_cases()) ASSERT_NO_FATAL_FAILURE(check(c));
}

TEST(Decompose, RandomValuesHaveTheSameBits) {
  for (DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16})
    for (const Case& c : {Case{Op::rand, {i64({2})}, {dims({5, 101}), dtype, Dim(7)}, 0},
                          Case{Op::randn, {i64({2})}, {dims({5, 101}), dtype, Dim(7)}, 0},
                          Case{Op::dropout, {{dtype, {5, 101}}, i64({2})}, {0.7, Dim(3)}, 1}}) {
      const Graph graph = graph_of(c), core = decomps::decompose(graph);
      const Buffers inputs = random_inputs(graph, 1);
      expect_same_bits(run(core, inputs), run(graph, inputs), ir::print(core));
    }
}

TEST(Decompose, EveryCompositeHasARuleAndNoPrimitive) {
  for (int i = 0; i < ir::kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    EXPECT_EQ(decomps::rule_of(op) != nullptr, ir::is_composite(op)) << ir::name(op);
  }
}

TEST(Decompose, ReductionsOfACoreGraphRunOverNeighbours) {
  const Graph core = decomps::decompose(
      graph_of({Op::sum, {f32({2, 3, 4, 5})}, {axes({0, 2, 3}), false, dims({})}}));
  std::vector<ir::Axes> runs;
  for (size_t i = 0; i < core.num_equations(); ++i)
    if (core.op(core.equation_id(i)) == Op::sum)
      runs.push_back(core.attr<ir::Axes>(core.equation_id(i), ir::Attr::dims));
  EXPECT_EQ(runs, (std::vector{axes({2, 3}), axes({0})}));
}

TEST(Decompose, LowPrecisionArithmeticIsF32BetweenConverts) {
  const Type x{DType::BF16, {5}};
  const Graph core = decomps::decompose(make_graph({x, x}, [](Builder& b, const Values& v) {
    return Values{b.add(b.mul(v[0], v[1]), v[0]), b.softmax(v[0], 0)};
  }));
  ir::verify(core);
  for (const ir::Equation& e : core.equations()) {
    const bool is_low = core.type(core.results(e)[0]).dtype == DType::BF16;
    EXPECT_TRUE(!is_low || e.op == Op::convert) << ir::print(core);
  }
}

TEST(Decompose, SmallConstantPowersAreProducts) {
  const Graph graph = make_graph({f32({40})}, [](Builder& b, const Values& v) {
    return Values{b.pow(v[0], 1), b.pow(v[0], 2), b.pow(v[0], 3), b.pow(v[0], -1), b.pow(v[0], -2)};
  });
  const Graph core = decomps::decompose(graph);
  EXPECT_EQ(count(core, Op::pow), 0);
  Buffers inputs = random_inputs(graph, 3);
  sprinkle_special_values(inputs, 3);
  expect_close(run(core, inputs, true), run(graph, inputs, true), 1e-12, ir::print(core));
}

TEST(Decompose, CallsAreInlined) {
  Graph body =
      make_graph({f32({3})}, [](Builder& b, const Values& v) { return Values{b.relu(v[0])}; });
  body.epilogue = {};
  Graph graph = make_graph({f32({3})}, [&](Builder&, const Values& v) { return v; });
  const auto id = graph.add_subgraph(body);
  const Type type = f32({3});
  const Values operands = {graph.inputs()[0].value};
  const auto e = graph.append(Op::call, operands, {id}, {&type, 1});
  graph.outputs()[0].value = graph.result(e);
  const Graph core = decomps::decompose(graph);
  EXPECT_EQ(count(core, Op::call), 0);
  EXPECT_EQ(count(core, Op::maximum), 1);
}

TEST(Decompose, IsLinearInDepth) {
  constexpr int kDepth = 200'000;
  const Graph graph = make_graph({f32({2})}, [](Builder& b, const Values& v) {
    ir::ValueId x = v[0];
    for (int i = 0; i < kDepth; ++i) x = b.relu(x);
    return Values{x};
  });
  EXPECT_EQ(count(decomps::decompose(graph), Op::maximum), kDepth);
}

// As a loop's would: in its place it would run once.
TEST(Decompose, ABodyStaysWhereItIsUnlessTheRowSaysOtherwise) {
  const Graph graph = ir::parse(R"(
graph @g functional {
  graph @body functional {
    in %a: f32[2] primal
    %b: f32[2] = square %a
    out %b: result
  }
  in %x: f32[2] primal
  %y: f32[2] = call %x {body=@body}
  %z: f32[2] = relu %y
  out %z: result
})");
  const Graph core = decomps::decompose_inlining(graph, [](Op) { return false; });
  ir::verify(core);
  ASSERT_EQ(core.subgraphs().size(), 1u);
  EXPECT_EQ(core.subgraph({0}).level, ir::Level::Core);
  EXPECT_EQ(count(core, Op::call), 1);
  EXPECT_EQ(count(core.subgraph({0}), Op::square), 0);
  EXPECT_EQ(count(core, Op::relu), 0);
}

TEST(ReductionOrders, FollowTheShape) {
  const Graph graph = make_graph(
      {f32({4, 1000}), f32({100'000}), f32({10'000, 8}), f32({3, 5}), f32({10'000, 17})},
      [](Builder& b, const Values& v) {
        return Values{b.sum(v[0], {1}), b.sum(v[1], {0}), b.sum(v[2], {0}), b.sum(v[3], {1}),
                      b.sum(v[4], {0})};
      },
      ir::Level::Core);
  const Graph ordered = decomps::set_reduction_orders(graph);
  std::vector<ir::Dims> orders;
  for (size_t i = 0; i < ordered.num_equations(); ++i)
    orders.push_back(ordered.attr<ir::Dims>(ordered.equation_id(i), ir::Attr::order));
  EXPECT_EQ(orders, (std::vector{dims({64, 16384}), dims({64, 16384}), dims({1, 64}),
                                 dims({4, 16384}), dims({1, 256})}));
}

TEST(ReductionOrders, AddLanesThenBlocks) {
  // Two lanes, blocks of four: ((0 + 2) + (1 + 3)) + (4 + 5), as text.
  const auto load = [](int64_t i) { return std::to_string(i); };
  const auto combine = [](const std::string& a, const std::string& b) {
    return a.empty() ? b : b.empty() ? a : "(" + a + "+" + b + ")";
  };
  EXPECT_EQ(ir::reduce_in_order<std::string>({2, 4}, 6, "", load, combine),
            "(((0+2)+(1+3))+(4+5))");
  EXPECT_EQ(ir::reduce_in_order<std::string>({1, 2}, 5, "", load, combine), "(((0+1)+(2+3))+4)");
  EXPECT_EQ(ir::reduce_in_order<std::string>({4, 4}, 0, "", load, combine), "");
}

}  // namespace
}  // namespace tandem::graph_testing
