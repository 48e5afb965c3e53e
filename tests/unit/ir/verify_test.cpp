// The verifier: each rule, broken once.
#include "ir/verify/verify.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <optional>

#include "ir/base/error.h"
#include "ir/json/json.h"
#include "ir/text/text.h"
#include "tests/unit/ir/samples.h"

namespace tandem::ir {
namespace {

std::string verify_error(const Graph& graph) {
  try {
    verify(graph);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::Graph) << error.what();
    return error.what();
  }
  return "";
}

/// Checks that `sample` after `breaking` is refused with `message`.
void expect_error(const char* sample, const std::function<void(Graph&)>& breaking,
                  std::string_view message) {
  Graph graph = parse(sample);
  EXPECT_EQ(verify_error(graph), "");
  breaking(graph);
  const std::string got = verify_error(graph);
  EXPECT_NE(got.find(message), std::string::npos) << "expected: " << message << "\ngot: " << got;
}

TEST(Verify, Inputs) {
  using samples::kTraced;
  const auto in = [](Graph& g, int i) -> Input& { return g.inputs()[i]; };
  expect_error(kTraced, [&](Graph& g) { in(g, 0).name = ""; }, "input 0 has no name");
  expect_error(kTraced, [&](Graph& g) { g.inputs().pop_back(); }, "neither an input nor a result");
  expect_error(kTraced, [&](Graph& g) { in(g, 1).name = "x"; }, "two inputs are named x");
  expect_error(kTraced, [&](Graph& g) { in(g, 0).value = {4}; }, "not a value of its own");
  expect_error(kTraced, [&](Graph& g) { in(g, 0).value = {400}; }, "not a value of its own");
  expect_error(kTraced, [&](Graph& g) { std::swap(in(g, 0), in(g, 1)); }, "out of order");
  expect_error(kTraced, [&](Graph& g) { in(g, 0).strides = {1}; }, "1 strides for 2 dimensions");
  expect_error(kTraced, [&](Graph& g) { in(g, 0).strides[1] = -1; }, "negative stride");
  expect_error(kTraced, [&](Graph& g) { in(g, 2).requires_grad = true; }, "only floating");
  expect_error(kTraced, [&](Graph& g) { in(g, 1).alias_of->input = 9; }, "does not exist");
  expect_error(kTraced, [&](Graph& g) { in(g, 0).alias_of = AliasOf{1, 0}; }, "cycle");
  expect_error(kTraced, [&](Graph& g) { in(g, 0).alias_of = AliasOf{0, 0}; }, "cycle");
  expect_error(kTraced, [&](Graph& g) { in(g, 0).role = Role::Saved; }, "role saved");
  expect_error(kTraced, [&](Graph& g) { in(g, 0).role = Role::Token; }, "role token with type");
  expect_error(kTraced, [&](Graph& g) { in(g, 0).role = Role::Rng; }, "an rng is i64[2]");
  expect_error(
      kTraced, [&](Graph& g) { in(g, 0).target = 0; },
      "only tangents, and saved values of backward, have a target");
}

std::string layout_error(const char* text, const Strides& strides, std::optional<AliasOf> alias) {
  Graph graph = parse(text);
  graph.inputs().back().strides = strides;
  graph.inputs().back().alias_of = alias;
  return verify_error(graph);
}

// Whatever passes can be counted in bytes, from any element to any other.
TEST(Verify, LayoutsAtTheEdgesOfInt64) {
  const auto graph_of = [](const std::string& type) {
    return "graph @f traced {\n  in %a: u8[1] primal\n  in %x: " + type + " primal\n}\n";
  };
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), k62 = int64_t{1} << 62;
  struct Case {
    const char* type;
    Strides strides;
    std::optional<AliasOf> alias;
    bool valid;
  };
  const Case cases[] = {
      {"f32[17]", {int64_t{1} << 60}, {}, false},
      {"f32[5]", {k62}, {}, false},
      {"f32[2]", {k62}, {}, false},
      {"f32[2]", {int64_t{1} << 59}, {}, true},
      {"f32[2]", {kMost}, {}, false},
      {"f32[1]", {kMost}, {}, false},
      {"f32[1, 1]", {kMost, kMost}, {}, false},
      {"u8[2]", {k62 - 1}, {}, true},
      {"u8[2]", {k62}, {}, false},
      {"u8[2, 2]", {k62 - 2, 1}, {}, true},
      {"u8[2, 2]", {k62 - 1, 1}, {}, false},
      {"f64[3, 0]", {kMost, 0}, {}, false},  // sums of strides are computed
      {"f64[3, 0]", {k62, 1}, {}, true},
      {"f64[0]", {kMost - 1}, {}, true},
      {"u8[2]", {1}, AliasOf{0, k62 - 2}, true},
      {"u8[2]", {1}, AliasOf{0, k62 - 1}, false},
      {"u8[2]", {1}, AliasOf{0, -(k62 - 2)}, true},
      {"u8[2]", {1}, AliasOf{0, std::numeric_limits<int64_t>::min()}, false},
      {"u8[2]", {k62 - 1}, AliasOf{0, 1}, false},
      {"u8[2]", {1}, AliasOf{0, kMost}, false},
  };
  for (const Case& c : cases) {
    const std::string error = layout_error(graph_of(c.type).c_str(), c.strides, c.alias);
    EXPECT_EQ(error.empty(), c.valid) << c.type << to_string(c.strides) << " " << error;
  }
}

// An alias of an alias: offsets add up.
TEST(Verify, AliasOffsetsThatOverflowTogether) {
  Graph graph = parse(R"(graph @f traced {
  in %a: f64[1] primal
  in %b: f64[1] primal alias_of=%a +1
  in %c: f64[1] primal alias_of=%b +1
}
)");
  EXPECT_EQ(verify_error(graph), "");
  graph.inputs()[1].alias_of->offset = graph.inputs()[2].alias_of->offset = int64_t{1} << 58;
  EXPECT_NE(verify_error(graph), "");
  graph.inputs()[2].alias_of->offset = -(int64_t{1} << 58);
  EXPECT_EQ(verify_error(graph), "");
}

TEST(Verify, Tangents) {
  using samples::kJoint;
  const auto tangent = [](Graph& g) -> Input& { return g.inputs()[1]; };
  expect_error(kJoint, [&](Graph& g) { tangent(g).target = -1; }, "there is no output -1");
  expect_error(kJoint, [&](Graph& g) { tangent(g).target = 2; }, "there is no output 2");
  expect_error(kJoint, [&](Graph& g) { tangent(g).target = 1; }, "output 1 is a gradient");
  expect_error(kJoint, [&](Graph& g) { g.outputs()[0].value = {3}; }, "depends on a tangent");
  expect_error(
      samples::kCore, [&](Graph& g) { g.outputs()[0].value = {0}; },
      "type f32[2] of an output of type f32[2, 2]");
  expect_error(samples::kBackward, [&](Graph& g) { tangent(g).target = -1; }, "has no target");
  expect_error(
      samples::kBackward, [&](Graph& g) { g.inputs()[0].target = -1; }, "saved y: has no target");
}

TEST(Verify, Equations) {
  using samples::kFunctional, samples::kTraced;
  const Type f32x2{DType::F32, {2}};
  const auto append = [](Graph& g, Op op, std::vector<ValueId> operands, AttrsRef attrs,
                         std::vector<Type> results, bool in_place = false) {
    g.append(op, operands, attrs, results, in_place);
  };
  expect_error(
      kTraced, [&](Graph& g) { append(g, Op::neg, {{99}}, {}, {f32x2}); },
      "operand 99 is not defined before");
  expect_error(
      kTraced,
      [&](Graph& g) {
        const auto next = static_cast<uint32_t>(g.num_values());
        append(g, Op::neg, {{next}}, {}, {f32x2});
      },
      "is not defined before");
  expect_error(
      kFunctional, [&](Graph& g) { append(g, Op::neg, {{1}}, {}, {f32x2}); },
      "neg: wrong type of the result; expected f32[], got f32[2]");
  expect_error(
      kFunctional, [&](Graph& g) { append(g, Op::neg, {{1}, {1}}, {}, {f32x2}); },
      "wrong number of operands");
  expect_error(
      kFunctional, [&](Graph& g) { append(g, Op::elu, {{1}}, {true}, {f32x2}); },
      "attribute alpha has the wrong type");
  expect_error(
      kFunctional, [&](Graph& g) { append(g, Op::neg, {{1}}, {}, {}, true); },
      "in-place equations are only in traced graphs");
  expect_error(
      kTraced, [&](Graph& g) { append(g, Op::where, {{1}, {1}, {1}}, {}, {}, true); },
      "has no in-place form");
  expect_error(
      samples::kCore, [&](Graph& g) { append(g, Op::relu, {{1}}, {}, {f32x2}); },
      "relu is not a primitive");
  expect_error(
      kFunctional, [&](Graph& g) { g.equation({0}).is_backward = true; }, "no backward half");
}

TEST(Verify, TheMessageShowsTheSurroundings) {
  Graph g = parse(samples::kFunctional);
  g.equation({2}).is_backward = true;
  g.set_location({2}, g.add_location({"net.cpp", 3}));
  EXPECT_TRUE(verify_error(g).starts_with(
      "graph @functional (functional): equation 2: this level has no backward half\n"
      "  %2: f32[4, 2] = add %x, %x\n  %row: f32[2] = select "))
      << verify_error(g);
  EXPECT_NE(verify_error(g).find("> %row.1: f32[2] = gelu %row {approximate=\"tanh\"} [backward]  "
                                 "; net.cpp:3"),
            std::string::npos);
}

TEST(Verify, Outputs) {
  using samples::kFunctional;
  const auto out = [](Graph& g, int i) -> Output& { return g.outputs()[i]; };
  expect_error(kFunctional, [&](Graph& g) { out(g, 0).value = {99}; }, "output 0 is not a value");
  expect_error(kFunctional, [&](Graph& g) { out(g, 0).strides = {}; }, "0 strides for 2");
  expect_error(kFunctional, [&](Graph& g) { out(g, 1).role = Role::Saved; }, "role saved");
  expect_error(kFunctional, [&](Graph& g) { out(g, 1).role = Role::Token; }, "role token");
  expect_error(kFunctional, [&](Graph& g) { out(g, 1).target = 0; }, "a result has no target");
  expect_error(kFunctional, [&](Graph& g) { out(g, 0).target = 7; }, "there is no input 7");
  expect_error(
      kFunctional, [&](Graph& g) { out(g, 0).target = 1; },
      "type f32[4, 2] for input n of type f32[]");
  expect_error(
      kFunctional,
      [&](Graph& g) {
        out(g, 2).value = {10};
        out(g, 2).requires_grad = true;
      },
      "only floating");
  expect_error(
      samples::kForward, [&](Graph& g) { out(g, 0).role = Role::Tangent; }, "role tangent");
  expect_error(samples::kBackward, [&](Graph& g) { out(g, 0).target = -1; }, "has no target");
}

TEST(Verify, Epilogue) {
  using samples::kFunctional;
  const auto write = [](Graph& g) -> InputWrite& { return g.epilogue.writes[0]; };
  const auto result = [](Graph& g, int i) -> ResultSource& { return g.epilogue.results[i]; };
  expect_error(kFunctional, [&](Graph& g) { write(g).output = 9; }, "there is no output 9");
  expect_error(kFunctional, [&](Graph& g) { write(g).input = 9; }, "there is no input 9");
  expect_error(kFunctional, [&](Graph& g) { write(g).output = 1; }, "is not the final contents");
  expect_error(kFunctional, [&](Graph& g) { write(g).version_bumps = -1; }, "negative bumps");
  expect_error(kFunctional, [&](Graph& g) { result(g, 0).index = 9; }, "output 9 does not exist");
  expect_error(kFunctional, [&](Graph& g) { result(g, 1).index = -1; }, "input -1 does not exist");
  expect_error(
      kFunctional, [&](Graph& g) { result(g, 3).index = 3; },
      "result 3: view_of_result 3 does not exist");
  expect_error(kFunctional, [&](Graph& g) { result(g, 2).chain.clear(); }, "view without a chain");
  expect_error(
      kFunctional, [&](Graph& g) { result(g, 1).chain = {{Op::alias, {}}}; },
      "chain without a view");
  expect_error(kFunctional, [&](Graph& g) { result(g, 3).chain[1].op = Op::neg; }, "not a view");
  expect_error(
      kFunctional, [&](Graph& g) { result(g, 2).chain[0].attrs[1] = Dim(4); },
      "result 2: select: ");
  expect_error(kFunctional, [&](Graph& g) { result(g, 5).history = 9; }, "history of output 9");
  expect_error(
      kFunctional, [&](Graph& g) { result(g, 5).history = 0; }, "output 0, of another type");
  expect_error(
      kFunctional, [&](Graph& g) { result(g, 5).requires_grad = false; }, "that requires grad");
  expect_error(kFunctional, [&](Graph& g) { g.epilogue.grads[0].input = 5; }, "no input 5");
  expect_error(kFunctional, [&](Graph& g) { g.epilogue.grads[0].output = 5; }, "no output 5");
  expect_error(kFunctional, [&](Graph& g) { g.epilogue.grads[0].output = 0; }, "grad: type");
  expect_error(kFunctional, [&](Graph& g) { g.epilogue.rng_draws = -1; }, "negative rng_draws");
  expect_error(
      samples::kTraced, [&](Graph& g) { g.epilogue.results.emplace_back(); },
      "no writes and no results");
}

TEST(Verify, Subgraphs) {
  using samples::kSubgraphs;
  const auto sub = [](Graph& g, uint32_t i) -> Graph& { return g.subgraph(SubgraphId{i}); };
  expect_error(kSubgraphs, [&](Graph& g) { sub(g, 0).level = Level::Joint; }, "of level joint");
  expect_error(
      kSubgraphs, [&](Graph& g) { g.set_attr({0}, Attr::body, SubgraphId{9}); },
      "there is no subgraph 9");
  expect_error(
      kSubgraphs, [&](Graph& g) { sub(g, 0).outputs().clear(); },
      "@body maps 1 inputs to 0 outputs; got 1 operands and 1 results");
  expect_error(
      kSubgraphs, [&](Graph& g) { g.set_attr({0}, Attr::body, SubgraphId{3}); }, "got 1 operands");
  expect_error(
      kSubgraphs, [&](Graph& g) { g.set_attr({1}, Attr::backward, SubgraphId{3}); },
      "does not take (saved results, tangents)");
  expect_error(
      kSubgraphs, [&](Graph& g) { sub(g, 2).outputs()[0].target = 1; },
      "a gradient that is of no operand");
  expect_error(
      kSubgraphs, [&](Graph& g) { sub(g, 4).outputs().clear(); }, "does not give one gradient");
  expect_error(
      kSubgraphs, [&](Graph& g) { sub(sub(g, 0), 0).inputs()[0].name = ""; },
      "graph @inner (functional): input 0 has no name");
}

TEST(Verify, NestingIsBounded) {
  Graph g("leaf", Level::Functional);
  for (int i = 1; i < kMaxNesting; ++i) {
    Graph outer("outer", Level::Functional);
    outer.add_subgraph(std::move(g));
    g = std::move(outer);
  }
  EXPECT_EQ(verify_error(g), "");
  EXPECT_EQ(from_json(to_json(g))[0], g);
  EXPECT_EQ(parse(print(g)), g);
  Graph outer("outer", Level::Functional);
  outer.add_subgraph(std::move(g));
  EXPECT_NE(verify_error(outer).find("nested deeper than 64"), std::string::npos);
}

TEST(Verify, TokensAreUsedOnce) {
  expect_error(
      samples::kSubgraphs, [&](Graph& g) { g.outputs()[1].value = g.inputs()[1].value; },
      "has 2 uses; expected one");
}

TEST(Verify, AfterAPassAnErrorIsOurs) {
  Graph g = parse(samples::kFunctional);
  verify_after("nothing", g);
  g.epilogue.rng_draws = -1;
  try {
    verify_after("dropping", g);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string_view(error.what()).find("after dropping: graph @functional"),
              std::string_view::npos);
  }
}

}  // namespace
}  // namespace tandem::ir
