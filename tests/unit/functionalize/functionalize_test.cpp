// Alias and mutation programs: the functional graph with its epilogue against the traced graph,
// both interpreted, on small integers so that every bit must agree.
#include "functionalize/functionalize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "functionalize/view_inverse.h"
#include "ir/base/error.h"
#include "ir/interpreter/interpret.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/support/program.h"

namespace tandem::functionalize {
namespace {

using ir::Dim;
using ir::DType;
using ir::Graph;
using ir::Level;
using ir::Op;
using ir::ResultSource;
using ir::Role;
using ir::Type;
using ir::ValueId;
using Kind = ResultSource::Kind;

const Type kMatrix{DType::F32, {3, 4}};

/// A Traced program in the spelling of the tensor API.
struct Traced : test::Program {
  Traced() : Program(Level::Traced) {}
  ValueId in(const std::string& name, const Type& type = kMatrix, bool requires_grad = false) {
    return input(name, type, requires_grad);
  }
  void add_(ValueId self, ValueId other) { b.pointwise_in_place(Op::add, {self, other}); }
  void mul_(ValueId self, double factor) {
    b.pointwise_in_place(Op::mul, {self, b.number(factor, self)});
  }
  void copy_(ValueId self, ValueId src) { b.pointwise_in_place(Op::copy, {self, src}); }
  void fill_(ValueId self, double v) { b.pointwise_in_place(Op::fill, {self}, {ir::Number(v)}); }
  ValueId detach(ValueId v) { return b.emit(Op::detach, {v}); }
  ValueId alias(ValueId v) { return b.emit(Op::alias, {v}); }
};

/// functionalize(traced), verified, and shown to do what the traced graph does.
Graph checked(const Traced& program) {
  ir::verify(program.graph);
  const Graph graph = functionalize(program.graph);
  ir::verify(graph);
  std::vector<ir::Buffer> inputs;
  for (const ir::Input& input : graph.inputs())
    inputs.push_back(test::integers(graph.type(input.value), inputs.size() + 1));
  std::vector<ir::Buffer> expected_inputs = inputs;
  const auto expected = ir::interpret(program.graph, expected_inputs);
  const auto results = ir::interpret_with_epilogue(graph, inputs);
  const std::string text = ir::print(program.graph) + ir::print(graph);
  EXPECT_EQ(results.size(), expected.size()) << text;
  for (size_t i = 0; i < std::min(results.size(), expected.size()); ++i)
    EXPECT_EQ(test::values(results[i]), test::values(expected[i])) << "result " << i << text;
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_EQ(test::values(inputs[i]), test::values(expected_inputs[i])) << "input " << i << text;
  return graph;
}

int count(const Graph& graph, Op op) {
  return static_cast<int>(
      std::ranges::count_if(graph.equations(), [&](const auto& e) { return e.op == op; }));
}

// --- the examples that the project started from

TEST(Functionalize, WriteIntoAColumnOfAFreshTensor) {
  Traced p;
  const Type square{DType::F32, {3, 3}};
  const ValueId x = p.in("x", {DType::F32, {3}}), y = p.b.full(square.sizes, DType::F32, 0);
  p.add_(p.b.select(y, 1, 1), x);
  p.output(y);
  const Graph graph = checked(p);
  EXPECT_EQ(count(graph, Op::select_scatter), 1);
  EXPECT_EQ(graph.outputs().size(), 1u);
  EXPECT_TRUE(graph.epilogue.writes.empty());
}

TEST(Functionalize, ViewWriteViewOfAnInput) {
  Traced p;
  const ValueId x = p.in("x");
  const ValueId flat = p.b.view(x, {12});
  p.add_(flat, p.b.full({}, DType::F32, 1));
  p.output(p.b.mul(p.b.view(flat, {2, 6}), 2.0));
  const Graph graph = checked(p);
  ASSERT_EQ(graph.epilogue.writes.size(), 1u);
  const ir::InputWrite write = graph.epilogue.writes[0];
  EXPECT_EQ(write, (ir::InputWrite{1, 0, 1, false}));
  EXPECT_EQ(graph.outputs()[1].role, Role::MutatedInput);
  for (const ir::Equation& e : graph.equations()) EXPECT_FALSE(e.in_place);
}

// --- every view can be written through

ValueId shown(Traced& p, Op op, ValueId x) {
  switch (op) {
    case Op::view:
      return p.b.view(x, {4, 3});
    case Op::permute:
      return p.b.permute(x, {Dim(1), Dim(0)});
    case Op::slice:
      return p.b.slice(x, 1, 1, 4, 2);
    case Op::diagonal:
      return p.b.diagonal(x, 1, 0, 1);
    case Op::as_strided:
      return p.b.as_strided(x, {2, 3}, {5, 2}, 1);
    case Op::select:
      return p.b.select(x, 0, 2);
    case Op::squeeze:
      return p.b.squeeze(p.b.slice(x, 0, 1, 2));
    case Op::unsqueeze:
      return p.b.unsqueeze(x, 1);
    case Op::transpose:
      return p.b.transpose(x, 0, 1);
    case Op::expand:
      return p.b.expand(x, {1, 3, 4});
    case Op::alias:
      return p.alias(x);
    default:
      return p.detach(x);
  }
}

class EveryView : public testing::TestWithParam<Op> {};

TEST_P(EveryView, CanBeWrittenThroughAndSeesWrites) {
  Traced p;
  const ValueId x = p.in("x"), y = p.b.clone(x);
  const ValueId before = shown(p, GetParam(), y), after = shown(p, GetParam(), y);
  p.mul_(before, 3);
  p.output(p.b.add(after, 1.0));
  p.mul_(y, 2);
  p.output(p.b.add(before, after));
  p.add_(after, p.b.full({}, DType::F32, 5));
  p.output(y);
  checked(p);
}

/// A permutation that is not its own inverse.
TEST(Functionalize, WriteThroughARotationOfDimensions) {
  Traced p;
  const ValueId x = p.in("x", {DType::F32, {2, 3, 4}});
  const ValueId rotated = p.b.permute(x, {Dim(1), Dim(2), Dim(0)});
  p.mul_(p.b.select(rotated, 0, 1), 3);
  p.output(p.b.add(rotated, 1.0));
  checked(p);
}

TEST_P(EveryView, OfAViewOfAnInput) {
  Traced p;
  const ValueId x = p.in("x", {DType::F32, {2, 3, 4}});
  const ValueId row = p.alias(p.b.select(x, 0, 1));
  const ValueId part = shown(p, GetParam(), GetParam() == Op::as_strided ? p.b.clone(row) : row);
  p.mul_(part, 3);
  p.output(p.b.mul(row, 2.0));
  p.mul_(row, 2);
  p.output(p.b.neg(part));
  checked(p);
}

INSTANTIATE_TEST_SUITE_P(Views, EveryView,
                         testing::Values(Op::view, Op::permute, Op::slice, Op::diagonal,
                                         Op::as_strided, Op::select, Op::squeeze, Op::unsqueeze,
                                         Op::transpose, Op::expand, Op::alias, Op::detach),
                         [](const auto& info) { return std::string(ir::name(info.param)); });

TEST(Functionalize, PartsOfExpandedViewsAreWritten) {
  Traced p;
  const ValueId x = p.in("x", {DType::F32, {4}}), rows = p.b.expand(x, {3, 4});
  p.mul_(p.b.select(rows, 0, 1), 2);
  p.add_(p.b.select(rows, 0, 2), p.b.select(rows, 0, 0));
  p.output(x);
  checked(p);
}

TEST(Functionalize, ExpandedViewsCannotBeWritten) {
  Traced p;
  const ValueId x = p.in("x", {DType::F32, {4}});
  p.mul_(p.b.expand(x, {3, 4}), 2);
  p.output(x);
  try {
    functionalize(p.graph);
    FAIL();
  } catch (const ir::Error& error) {
    EXPECT_EQ(error.code(), ir::Errc::Mutation);
    EXPECT_NE(std::string(error.what()).find("cannot write through a view that overlaps itself"),
              std::string::npos);
  }
}

// --- aliases

TEST(Functionalize, SiblingViewsSeeEachOther) {
  Traced p;
  const ValueId x = p.in("x"), y = p.b.clone(x);
  const ValueId row = p.b.select(y, 0, 1), column = p.b.select(y, 1, 2);
  p.mul_(row, 2);
  p.add_(column, p.b.slice(row, 0, 0, 3));
  p.add_(row, p.b.select(y, 0, 0));
  p.output(p.b.sum(column));
  p.output(y);
  checked(p);
}

TEST(Functionalize, ReadsBetweenWritesThroughDeepChains) {
  Traced p;
  const ValueId x = p.in("x"), y = p.b.clone(x);
  const ValueId a = p.b.transpose(y, 0, 1), c = p.b.slice(a, 0, 1, 4), d = p.b.select(c, 1, 1);
  const ValueId e = p.b.view(y, {2, 6}), f = p.b.slice(e, 1, 0, 6, 2);
  for (const ValueId v : {d, f, c, e, a, y, d}) {
    p.mul_(v, 2);
    for (const ValueId seen : {y, d, f}) p.output(p.b.sum(seen));
    p.add_(f, p.b.select(f, 0, 0));
  }
  p.output(p.b.clone(c));
  checked(p);
}

TEST(Functionalize, RepeatedWritesThroughOneAliasNeedOneScatter) {
  Traced p;
  const ValueId x = p.in("x"), y = p.b.clone(x), row = p.b.select(y, 0, 1);
  for (int i = 0; i < 10; ++i) p.mul_(row, 2);
  p.output(y);
  EXPECT_EQ(count(checked(p), Op::select_scatter), 1);
}

TEST(Functionalize, UnusedViewsCostNothing) {
  Traced p;
  const ValueId x = p.in("x"), y = p.b.clone(x), row = p.b.select(y, 0, 1);
  p.mul_(y, 2);
  p.b.view(row, {2, 2});
  p.output(y);
  EXPECT_EQ(checked(p).num_equations(), 4u);  // clone, the number and its expand, mul
}

TEST(Functionalize, CopiesAndFills) {
  Traced p;
  const ValueId x = p.in("x"), z = p.in("z", {DType::F32, {4}});
  p.copy_(p.b.select(x, 0, 1), z);
  p.fill_(p.b.slice(x, 1, 0, 2), 7);
  p.copy_(p.b.slice(x, 0, 1, 3), p.b.slice(x, 0, 0, 2));  // overlaps itself
  const Graph graph = checked(p);
  ASSERT_EQ(graph.epilogue.writes.size(), 1u);
  EXPECT_EQ(graph.epilogue.writes[0].version_bumps, 3);
}

TEST(Functionalize, ASwapThroughATemporary) {
  Traced p;
  const ValueId x = p.in("x");
  const ValueId a = p.b.select(x, 0, 0), c = p.b.select(x, 0, 2), saved = p.b.clone(a);
  p.copy_(a, c);
  p.copy_(c, saved);
  checked(p);
}

TEST(Functionalize, LongSequencesStayLinear) {
  Traced p;
  const ValueId x = p.in("x"), y = p.b.clone(x), row = p.b.select(y, 0, 0);
  for (int i = 0; i < 20000; ++i) p.add_(i % 2 ? y : row, i % 2 ? x : row);
  ValueId deep = y;
  for (int i = 0; i < 20000; ++i) deep = p.alias(deep);
  p.add_(deep, x);
  p.output(p.b.neg(y));
  EXPECT_LT(functionalize(p.graph).num_equations(), 100000u);
}

// --- written inputs and results

TEST(Functionalize, AWrittenInputThatIsReturned) {
  Traced p;
  const ValueId x = p.in("x");
  p.mul_(x, 2);
  p.output(x);
  p.output(p.b.select(x, 0, 1));
  const Graph graph = checked(p);
  ASSERT_EQ(graph.epilogue.results.size(), 2u);
  EXPECT_EQ(graph.epilogue.results[0].kind, Kind::Input);
  EXPECT_EQ(graph.epilogue.results[1].kind, Kind::ViewOfInput);
  EXPECT_EQ(graph.outputs().size(), 1u);  // only the new contents
}

TEST(Functionalize, ViewsOfAnInputWithoutWrites) {
  Traced p;
  const ValueId x = p.in("x");
  p.output(p.b.transpose(p.b.slice(x, 0, 1, 3), 0, 1));
  p.output(x);
  const Graph graph = checked(p);
  EXPECT_EQ(graph.epilogue.results[0].chain.size(), 2u);
  EXPECT_TRUE(graph.outputs().empty());
  EXPECT_EQ(graph.num_equations(), 0u);
}

TEST(Functionalize, ResultsThatAreViewsOfEarlierAndLaterResults) {
  Traced p;
  const ValueId x = p.in("x"), y = p.b.exp(p.b.mul(x, 0.0));
  p.output(p.b.select(y, 0, 1));
  p.output(y);
  p.output(p.b.select(y, 1, 1));
  p.output(y);
  const Graph graph = checked(p);
  ASSERT_EQ(graph.outputs().size(), 1u);
  const auto& results = graph.epilogue.results;
  EXPECT_EQ(results[0].kind, Kind::Output);
  EXPECT_EQ(results[0].chain.size(), 1u);
  EXPECT_EQ(results[1], (ResultSource{Kind::Output, 0, {}, false}));
  EXPECT_EQ(results[2].kind, Kind::ViewOfResult);
  EXPECT_EQ(results[2].index, 1);
  EXPECT_EQ(results[3], results[1]);
}

TEST(Functionalize, SiblingResultsShareAHiddenOutput) {
  Traced p;
  const ValueId x = p.in("x"), y = p.b.clone(x);
  p.output(p.b.select(y, 0, 0));
  p.output(p.b.select(y, 0, 1));
  p.mul_(y, 2);
  const Graph graph = checked(p);
  ASSERT_EQ(graph.outputs().size(), 1u);
  EXPECT_EQ(graph.type(graph.outputs()[0].value), kMatrix);
  for (const ResultSource& r : graph.epilogue.results) EXPECT_EQ(r.chain.size(), 1u);
}

TEST(Functionalize, AnExpandedResultIsAViewOfWhatWasExpanded) {
  Traced p;
  const ValueId x = p.in("x", {DType::F32, {4}}), y = p.b.clone(x);
  p.output(p.b.expand(y, {3, 4}));
  const Graph graph = checked(p);
  EXPECT_EQ(graph.type(graph.outputs()[0].value).sizes, ir::Shape{4});
}

TEST(Functionalize, OneViewOfAnIntermediateIsAPlainOutput) {
  Traced p;
  const ValueId x = p.in("x");
  p.output(p.b.select(p.b.clone(x), 0, 0));
  const Graph graph = checked(p);
  EXPECT_EQ(graph.epilogue.results[0], (ResultSource{Kind::Output, 0, {}, false}));
}

TEST(Functionalize, TwoWrittenInputs) {
  Traced p;
  const ValueId x = p.in("x"), y = p.in("y");
  p.add_(x, y);
  p.add_(p.b.select(y, 0, 1), p.b.select(x, 0, 2));
  p.add_(x, y);
  p.output(p.b.add(x, y));
  const Graph graph = checked(p);
  ASSERT_EQ(graph.epilogue.writes.size(), 2u);
  EXPECT_EQ(graph.epilogue.writes[0].version_bumps, 2);
  EXPECT_EQ(graph.epilogue.writes[1].version_bumps, 1);
}

TEST(Functionalize, GradSlotsFollowTheirOutputs) {
  Traced p;
  const ValueId x = p.in("x");
  p.output(p.b.mul(x, 2.0), false, Role::Gradient, 0);
  p.output(p.b.exp(p.b.mul(x, 0.0)));
  p.graph.epilogue.grads.push_back({0, 0});
  p.graph.epilogue.rng_draws = 5;
  const Graph graph = functionalize(p.graph);
  ir::verify(graph);
  EXPECT_EQ(graph.epilogue.grads[0], (ir::GradWrite{0, 1}));
  EXPECT_EQ(graph.outputs()[1].role, Role::Gradient);
  EXPECT_EQ(graph.epilogue.rng_draws, 5);
}

// --- overlapping inputs

/// An input that shows rows 1 and 2 of `base` ([3, 4]).
ValueId rows_of(Traced& p, const std::string& name, int base) {
  const ValueId v = p.in(name, {DType::F32, {2, 4}});
  p.graph.inputs().back().alias_of = ir::AliasOf{base, 4};
  return v;
}

TEST(Functionalize, OverlappingInputs) {
  for (bool write_base : {true, false}) {
    Traced p;
    const ValueId x = p.in("x"), rows = rows_of(p, "rows", 0), other = rows_of(p, "other", 0);
    p.mul_(write_base ? x : rows, 2);
    p.add_(p.b.select(other, 0, 1), p.b.select(x, 0, 0));
    p.output(p.b.add(rows, other));
    p.output(other);
    p.output(p.b.select(rows, 1, 0));
    const Graph graph = checked(p);
    ASSERT_EQ(graph.epilogue.writes.size(), 1u);
    EXPECT_EQ(graph.epilogue.writes[0], (ir::InputWrite{1, 0, 2, false}));
    EXPECT_EQ(graph.epilogue.results[1], (ResultSource{Kind::Input, 2, {}, false}));
    EXPECT_EQ(graph.epilogue.results[2].index, 1);
  }
}

TEST(Functionalize, OverlappingInputsThatNobodyWritesStayApart) {
  Traced p;
  const ValueId x = p.in("x"), rows = rows_of(p, "rows", 0);
  p.output(p.b.add(p.b.slice(x, 0, 0, 2), rows));
  EXPECT_EQ(count(checked(p), Op::as_strided), 0);
}

/// x [3, 4] and an alias of it, of `sizes` and `strides`; both are written.
Graph written_overlap(ir::Strides x_strides, ir::Shape sizes, ir::Strides strides, Dim offset) {
  Traced p;
  const ValueId x = p.in("x"), other = p.in("other", {DType::F32, std::move(sizes)});
  p.graph.inputs()[0].strides = std::move(x_strides);
  p.graph.inputs()[1].strides = std::move(strides);
  p.graph.inputs()[1].alias_of = ir::AliasOf{0, offset};
  p.mul_(other, 2);
  p.output(p.b.neg(x));
  p.add_(p.b.select(x, 1, 1), p.b.select(x, 1, 2));
  p.output(p.b.neg(other));
  return checked(p);
}

TEST(Functionalize, OverlapWithAnInputThatIsNotContiguous) {
  const Graph graph = written_overlap({1, 3}, {2, 4}, {4, 1}, 4);
  EXPECT_EQ(graph.epilogue.writes.size(), 2u);
}

TEST(Functionalize, InputsThatOverlapInPart) {
  EXPECT_EQ(written_overlap({4, 1}, {2, 4}, {4, 1}, 8).epilogue.writes.size(), 2u);
  EXPECT_EQ(written_overlap({4, 1}, {2, 4}, {4, 1}, -4).epilogue.writes.size(), 2u);
}

TEST(Functionalize, ALaterInputMayContainTheEarlierOne) {
  const Graph graph = written_overlap({4, 1}, {5, 4}, {4, 1}, -4);
  ASSERT_EQ(graph.epilogue.writes.size(), 1u);
  EXPECT_EQ(graph.epilogue.writes[0].input, 1);
}

TEST(Functionalize, InputsOfOneStorageThatDoNotOverlapStayApart) {
  const Graph graph = written_overlap({4, 1}, {2, 4}, {4, 1}, 12);
  EXPECT_EQ(graph.epilogue.writes.size(), 2u);
  EXPECT_EQ(count(graph, Op::as_strided_scatter), 0);
}

TEST(Functionalize, WrittenOverlapOfDifferentDtypesIsRefused) {
  Traced p;
  const ValueId x = p.in("x");
  p.in("bits", {DType::I32, {3, 4}});
  p.graph.inputs()[1].alias_of = ir::AliasOf{0, 0};
  p.mul_(x, 2);
  EXPECT_THROW(functionalize(p.graph), ir::Error);
}

// --- what autograd sees

TEST(Functionalize, DetachAndNoGradAreSaid) {
  Traced p;
  const ValueId x = p.in("x", kMatrix, true);
  p.output(p.b.mul(p.detach(x), x), true);
  p.sink.grad_enabled = false;
  const ValueId constant = p.b.exp(p.b.mul(x, 0.0));
  p.sink.grad_enabled = true;
  p.output(p.b.add(x, constant), true);
  const Graph graph = checked(p);
  EXPECT_EQ(count(graph, Op::stop_gradient), 1);
  EXPECT_EQ(count(graph, Op::stop_backward), 1);
}

TEST(Functionalize, TangentsThatFollowStopWhereTheyWouldEagerly) {
  Traced p;
  const ValueId x = p.in("x"), y = p.b.mul(x, 2.0);
  p.mul_(p.detach(y), 3);
  p.output(y);
  const Graph traced = p.graph;
  const Graph alone = functionalize(traced), followed = functionalize_body(traced);
  const auto said = [](const Graph& graph) {
    return count(graph, Op::stop_gradient) + count(graph, Op::keep_history);
  };
  EXPECT_EQ(said(alone), 0);
  EXPECT_EQ(said(followed), 2);
}

TEST(Functionalize, NothingIsStoppedWhereNothingFlows) {
  Traced p;
  const ValueId x = p.in("x");
  p.sink.grad_enabled = false;
  p.mul_(x, 2);
  p.output(p.b.add(p.detach(x), 1.0));
  const Graph graph = checked(p);
  for (const Op op : {Op::stop_gradient, Op::stop_backward, Op::keep_history, Op::keep_backward})
    EXPECT_EQ(count(graph, op), 0);
  EXPECT_TRUE(graph.epilogue.writes[0].no_grad);
}

TEST(Functionalize, WrittenInputsTakeTangentsUnlessHidden) {
  for (bool hidden : {false, true}) {
    Traced p;
    const ValueId x = p.in("x", kMatrix, true);
    p.mul_(hidden ? p.detach(x) : x, 2);
    p.output(p.b.mul(x, x), true);
    const Graph graph = checked(p);
    EXPECT_EQ(graph.outputs()[1].requires_grad, !hidden);
    EXPECT_EQ(graph.epilogue.writes[0].no_grad, hidden);
    EXPECT_EQ(count(graph, Op::keep_history), hidden ? 1 : 0);
  }
}

TEST(Functionalize, AHookedTensorIsTheSameTensor) {
  test::Program twice(Level::Traced, "twice");
  const ValueId g = twice.input("g", kMatrix);
  twice.output(twice.b.mul(g, 2.0));
  Traced p;
  const ValueId x = p.in("x", kMatrix, true), y = p.b.clone(x);
  const ir::SubgraphId backward = p.graph.add_subgraph(twice.graph);
  const ValueId hooked_x = p.b.emit(Op::hook, {x}, {backward});
  const ValueId hooked_y = p.b.emit(Op::hook, {y}, {backward});
  p.mul_(hooked_x, 2);
  p.mul_(p.b.select(hooked_y, 0, 1), 3);
  p.mul_(y, 2);
  p.output(hooked_y, true);
  p.output(hooked_x, true);
  const Graph graph = checked(p);
  EXPECT_EQ(count(graph, Op::hook), 2);
  EXPECT_EQ(graph.epilogue.results[1].kind, Kind::ViewOfInput);
}

TEST(Functionalize, WritesOfTwoDtypesOverOneMemory) {
  Traced p;
  const ValueId x = p.in("x", {DType::F32, {4}}), bits = p.in("bits", {DType::I32, {2}}),
                bytes = p.in("bytes", {DType::U8, {3}});
  p.graph.inputs()[1].alias_of = ir::AliasOf{0, 2, true};
  p.graph.inputs()[2].alias_of = ir::AliasOf{0, 7, true};  // of x's second element the last, ...
  const ValueId mask = p.b.full({}, DType::I32, 0x7fffffff);
  p.b.pointwise_in_place(Op::bitwise_and, {bits, mask});  // |x| of its second half
  p.mul_(p.b.slice(x, 0, 1, 3), 2);
  p.b.pointwise_in_place(Op::add, {bytes, p.b.full({}, DType::U8, 64)});
  p.output(p.b.clone(x));
  p.output(p.b.clone(bits));
  p.output(bytes);
  checked(p);
}

TEST(Functionalize, ImpureCallsAreInlined) {
  test::Program body(Level::Traced, "body");
  const ValueId v = body.input("v", kMatrix);
  body.b.pointwise_in_place(Op::neg, {body.b.select(v, 0, 1)});
  body.output(body.b.select(v, 0, 1));
  Traced p;
  const ValueId x = p.in("x"), y = p.b.clone(x);
  const ir::SubgraphId id = p.graph.add_subgraph(body.graph);
  const Type row{DType::F32, {4}};
  const ValueId r = p.b.emit_call(Op::call, {&y, 1}, {id}, {&row, 1})[0];
  p.mul_(r, 2);
  p.output(p.b.neg(y));
  const Graph graph = functionalize(p.graph);
  ir::verify(graph);
  EXPECT_EQ(count(graph, Op::call), 0);
  std::vector<ir::Buffer> inputs{test::integers(kMatrix)};
  const std::vector<double> in = test::values(inputs[0]);
  const std::vector<double> out = test::values(ir::interpret(graph, inputs)[0]);
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], in[i] * (i / 4 == 1 ? 2 : -1));
}

TEST(Functionalize, CustomFunctionsMustNotWriteTheirOperands) {
  test::Program forward(Level::Traced, "forward"), backward(Level::Traced, "backward");
  const ValueId v = forward.input("v", kMatrix);
  forward.b.pointwise_in_place(Op::neg, {v});
  forward.output(v);
  const ValueId g = backward.input("g", kMatrix, false, Role::Tangent);
  backward.graph.inputs()[0].target = 0;
  backward.output(g, false, Role::Gradient, 0);
  Traced p;
  const ValueId x = p.in("x");
  const ir::SubgraphId f = p.graph.add_subgraph(forward.graph);
  const ir::SubgraphId b = p.graph.add_subgraph(backward.graph);
  p.output(p.b.emit_call(Op::custom_function, {&x, 1}, {f, b}, {&kMatrix, 1})[0]);
  EXPECT_THROW(functionalize(p.graph), ir::Error);
}

TEST(Functionalize, SubgraphsOfCustomFunctionsAreFunctionalized) {
  test::Program forward(Level::Traced, "forward"), backward(Level::Traced, "backward");
  const ValueId v = forward.input("v", kMatrix), c = forward.b.clone(v);
  forward.b.pointwise_in_place(Op::neg, {forward.b.select(c, 0, 1)});
  forward.output(c);
  const ValueId g = backward.input("g", kMatrix, false, Role::Tangent);
  backward.graph.inputs()[0].target = 0;
  backward.output(backward.b.clone(g), false, Role::Gradient, 0);
  Traced p;
  const ValueId x = p.in("x");
  const ir::SubgraphId f = p.graph.add_subgraph(forward.graph);
  const ir::SubgraphId b = p.graph.add_subgraph(backward.graph);
  const ValueId y = p.b.emit_call(Op::custom_function, {&x, 1}, {f, b}, {&kMatrix, 1})[0];
  p.mul_(y, 2);
  p.output(y);
  const Graph graph = checked(p);
  for (const ir::Graph& sub : graph.subgraphs()) EXPECT_EQ(sub.level, Level::Functional);
}

}  // namespace
}  // namespace tandem::functionalize
