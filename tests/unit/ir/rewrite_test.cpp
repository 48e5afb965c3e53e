// The rewriter and dead code removal.
#include "ir/build/rewrite.h"

#include <gtest/gtest.h>

#include "ir/base/error.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/unit/ir/samples.h"

namespace tandem::ir {
namespace {

Replacement keep(Rewriter&, EquationId) { return std::nullopt; }

TEST(Rewrite, NoRuleGivesTheSameGraph) {
  for (const char* sample : {samples::kFunctional, samples::kCore, samples::kForward,
                             samples::kBackward, samples::kSubgraphs, samples::kEmpty}) {
    const Graph graph = parse(sample);
    EXPECT_EQ(rewrite(graph, keep), graph) << print(rewrite(graph, keep));
  }
}

TEST(Rewrite, InputsComeFirst) {
  for (const char* sample : {samples::kTraced, samples::kJoint}) {
    const Graph once = rewrite(parse(sample), keep);
    verify(once);
    EXPECT_EQ(once.inputs().back().value.index, once.inputs().size() - 1);
    EXPECT_EQ(rewrite(once, keep), once);
  }
}

/// neg of neg becomes its operand.
Replacement drop_double_neg(Rewriter& r, EquationId e) {
  const Graph& g = r.source();
  if (g.op(e) != Op::neg) return std::nullopt;
  const EquationId inner = g.producer(g.operand(e, 0));
  if (!inner.valid() || g.op(inner) != Op::neg) return std::nullopt;
  return {{r[g.operand(inner, 0)]}};
}

TEST(Rewrite, ReplacesInGraphAndSubgraphs) {
  const Graph graph = parse(R"(graph @g functional {
    graph @body functional {
      in %a: f32[2] primal
      %b: f32[2] = neg %a
      %c: f32[2] = neg %b
      out %c: result
    }
    in %x: f32[2] primal
    %y: f32[2] = neg %x
    %z: f32[2] = neg %y
    %w: f32[2] = call %z {body=@body}
    out %w: result
  })");
  EXPECT_EQ(print(remove_dead_code(rewrite(graph, drop_double_neg))), R"(graph @g functional {
  graph @body functional {
    in %a: f32[2] primal
    out %a: result
  }
  in %x: f32[2] primal
  %w: f32[2] = call %x {body=@body}
  out %w: result
}
)");
}

/// square becomes a multiplication.
Replacement expand_square(Rewriter& r, EquationId e) {
  if (r.source().op(e) != Op::square) return std::nullopt;
  const ValueId x = r.operands(e)[0];
  return {{r.builder().mul(x, x)}};
}

TEST(Rewrite, NewEquationsCarryLocationGradModeHalfAndHint) {
  Graph graph = parse(R"(graph @g joint {
    in %x: f32[2] primal
    %y: f32[2] = square %x [no_grad] [backward]
    out %y: result
  })");
  graph.set_location(graph.equation_id(0), graph.add_location({"net.cpp", 7}));
  const Graph result = rewrite(graph, expand_square);
  EXPECT_EQ(print(result, {.locations = true}), R"(graph @g joint {
  in %x: f32[2] primal
  %y: f32[2] = mul %x, %x [no_grad] [backward]  ; net.cpp:7
  out %y: result
}
)");
}

TEST(Rewrite, AReplacementKeepsItsOwnHint) {
  const Graph graph = parse(R"(graph @g functional {
    in %x: f32[2] primal
    %a: f32[2] = exp %x
    %b: f32[2] = neg %a
    %c: f32[2] = neg %b
    out %c: result
  })");
  const Graph result = remove_dead_code(rewrite(graph, drop_double_neg));
  EXPECT_EQ(result.hint(result.outputs()[0].value), "a");
}

TEST(Rewrite, AWrongNumberOfReplacementsIsAnInternalError) {
  const Graph graph = parse(samples::kForward);
  const RewriteRule none = [](Rewriter&, EquationId) { return std::vector<ValueId>{}; };
  EXPECT_THROW(rewrite(graph, none), InternalError);
}

TEST(Rewrite, AValueWithoutTargetIsAnInternalError) {
  const Graph graph = parse(samples::kForward);
  Rewriter rewriter(graph);
  EXPECT_THROW(rewriter.copy(graph.equation_id(0)), InternalError);
}

TEST(Splicer, ReplacesEquationsWhereTheyStand) {
  Graph graph = parse(R"(graph @g joint {
    in %x: f32[2] primal
    %a: f32[2] = exp %x
    %b: f32[2] = square %a [no_grad] [backward] [save]
    %c: f32[2] = neg %b
    %d: f32[2] = neg %c
    %e: f32[2] = log %d
    %dead: f32[2] = sin %c
    out %e: result
    out %d: result
  })");
  graph.set_location(graph.equation_id(1), graph.add_location({"net.cpp", 7}));
  Splicer splicer(graph);
  for (uint32_t i = 0; i < splicer.num_equations(); ++i) {
    const EquationId e{i};
    splicer.at(e);
    const Graph& g = splicer.graph();
    const ValueId operand = g.operand(e, 0);
    if (g.op(e) == Op::square) splicer.replace(e, {{splicer.builder().mul(operand, operand)}});
    const bool twice = g.op(e) == Op::neg && g.op(g.producer(operand)) == Op::neg;
    if (twice) splicer.replace(e, {{g.operand(g.producer(operand), 0)}});
  }
  const Graph result = splicer.take();
  verify(result);
  EXPECT_EQ(print(result, {.locations = true}), R"(graph @g joint {
  in %x: f32[2] primal
  %a: f32[2] = exp %x
  %b: f32[2] = mul %a, %a [no_grad] [backward] [save]  ; net.cpp:7
  %e: f32[2] = log %b
  out %e: result
  out %b: result
}
)");
  EXPECT_EQ(result.producer({2}), result.equation_id(1));
}

TEST(Splicer, EquationsAreVisitedInOrder) {
  Splicer splicer(parse(samples::kForward));
  EXPECT_THROW(splicer.at({1}), InternalError);
  splicer.at({0});
  EXPECT_THROW(splicer.replace({0}, {}), InternalError);
  EXPECT_THROW(Splicer(parse(samples::kForward)).take(), InternalError);
}

TEST(RemoveDeadCode, DropsChainsAndSubgraphsButKeepsInputsAndEffects) {
  const Graph graph = parse(R"(graph @g traced {
    graph @unused traced {
      in %a: f32[2] primal
      out %a: result
    }
    graph @used traced {
      in %a: f32[2] primal
      in %t: token token
      %dead: f32[2] = neg %a
      out %a: result
      out %t: token
    }
    in %x: f32[2] primal
    in %never: f32[2] primal
    in %io: token token
    %dead: f32[2] = exp %x
    %dead2: f32[2] = call %dead {body=@unused}
    %part: f32[1] = slice %x {dim=0, start=0, end=1, step=1}
    add_ %part, %part
    %effect: f32[2], %io.1: token = call %x, %io {body=@used}
    out %x: result
    out %io.1: token
  })");
  const Graph result = remove_dead_code(graph);
  verify(result);
  EXPECT_EQ(print(result), R"(graph @g traced {
  graph @used traced {
    in %a: f32[2] primal
    in %t: token token
    out %a: result
    out %t: token
  }
  in %x: f32[2] primal
  in %never: f32[2] primal
  in %io: token token
  %part: f32[1] = slice %x {dim=0, start=0, end=1, step=1}
  add_ %part, %part
  %effect: f32[2], %io.1: token = call %x, %io {body=@used}
  out %x: result
  out %io.1: token
}
)");
}

TEST(Graph, ShrunkItIsTheSameAndCanGrow) {
  for (const char* sample : {samples::kTraced, samples::kFunctional, samples::kJoint,
                             samples::kSubgraphs, samples::kEmpty}) {
    const Graph graph = parse(sample);
    Graph small = graph;
    small.reserve(graph, 4);
    const int64_t before = small.held_bytes();
    small.shrink_to_fit();
    EXPECT_EQ(small, graph);
    EXPECT_TRUE(small.held_bytes() < before || graph.inputs().empty());
    for (const Type& type : {Type{DType::F64, {2, 3}}, Type{DType::I16, {}}})
      for (int twice = 0; twice < 2; ++twice) {
        const EquationId e = small.append(
            Op::iota, {}, {Dim(3), DType::F64, int64_t{0}, int64_t{1}}, std::vector<Type>{type});
        EXPECT_EQ(small.type(small.result(e)), type);
      }
    for (uint32_t v = 0; v < graph.num_values(); ++v) EXPECT_EQ(small.type({v}), graph.type({v}));
  }
}

TEST(Graph, ShrunkItHoldsNothingOfEquationsThatAreGone) {
  Graph none = parse(samples::kCore);
  for (Output& output : none.outputs()) output.value = none.inputs()[0].value;
  Graph small = none;
  none.keep_only({});
  small.keep_only({});
  small.shrink_to_fit();
  EXPECT_EQ(small, none);
  EXPECT_LT(small.held_bytes(), none.held_bytes());
}

TEST(Rewrite, AMillionEquationsInSeconds) {
  Graph g("chain", Level::Functional);
  const Type type{DType::F32, {2}};
  ValueId v = g.add_input({.name = "x", .strides = {1}}, type);
  for (int i = 0; i < 1'000'000; ++i) v = g.result(g.append(Op::neg, {{v}}, {}, {{type}}));
  g.add_output({.value = v, .strides = {1}});
  EXPECT_EQ(rewrite(g, keep), g);
  EXPECT_EQ(remove_dead_code(g), g);
  verify(g);
  EXPECT_EQ(remove_dead_code(rewrite(g, drop_double_neg)).num_equations(), 0u);
}

}  // namespace
}  // namespace tandem::ir
