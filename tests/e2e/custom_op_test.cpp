// Operators of the user's own: eager, traced, differentiated, compiled; and wrong declarations.
#include <gtest/gtest.h>
#include <tandem/graph.h>

#include <functional>

#include "codegen/lower.h"
#include "runtime/backends/backends.h"
#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"
#include "tests/support/graph_testing.h"

namespace tandem::testing {
namespace {

using Numbers = std::vector<Number>;

Tensor leaf(const Shape& sizes, uint64_t seed) { return noise(sizes, seed).requires_grad_(); }

/// y += alpha * x; returns y.
const Operator& axpy() {
  static const Operator op =
      register_operator({.schema = "test::axpy_(Tensor(a!) y, Tensor x, float alpha) -> Tensor(a!)",
                         .run =
                             [](const Tensors& t, const Numbers& n) {
                               t[0].add_(t[1] * n[0].to_double());
                               return Tensors();
                             },
                         .gradient = [](const OperatorGradient& call) -> Tensors {
                           return {call.grads[0], call.grads[0] * call.numbers[0].to_double()};
                         }});
  return op;
}

/// x * x by hand, and its sum over all elements.
const Operator& squares() {
  static const Operator op = register_operator(
      {.schema = "test::squares(Tensor x) -> (Tensor square, Tensor total)",
       .run = [](const Tensors& t, const Numbers&) -> Tensors {
         const Tensor x = t[0].contiguous();
         const Tensor square = zeros(x.sizes()), total = zeros({});
         for (int64_t i = 0; i < x.numel(); ++i) {
           const float v = x.data<float>()[i];
           square.data<float>()[i] = v * v;
           total.data<float>()[0] += v * v;
         }
         return {square, total};
       },
       .shape = [](const std::vector<TensorType>& t,
                   const Numbers&) { return std::vector<TensorType>{t[0], {t[0].dtype, {}}}; },
       .gradient = [](const OperatorGradient& call) -> Tensors {
         Tensor factor = zeros({});
         for (const Tensor& g : call.grads)
           if (g.defined()) factor = factor + g;
         return {2 * call.arguments[0] * factor};
       },
       .saves = {"x"}});
  return op;
}

/// Swaps the contents of two tensors.
const Operator& swap() {
  static const Operator op =
      register_operator({.schema = "test::swap_(Tensor(a!) x, Tensor(b!) y) -> ()",
                         .run =
                             [](const Tensors& t, const Numbers&) {
                               const Tensor x = t[0].clone();
                               t[0].copy_(t[1]);
                               t[1].copy_(x);
                               return Tensors();
                             },
                         .gradient = [](const OperatorGradient& call) -> Tensors {
                           return {call.grads[1], call.grads[0]};
                         }});
  return op;
}

/// The first row.
const Operator& head() {
  static const Operator op = register_operator(
      {.schema = "test::head(Tensor(a) x, Tensor y) -> (Tensor(a) row, Tensor sum)",
       .run = [](const Tensors& t, const Numbers&) -> Tensors { return {t[0] + t[1]}; },
       .shape = [](const std::vector<TensorType>& t,
                   const Numbers&) { return std::vector<TensorType>{t[0]}; },
       .view = [](size_t, const Tensor& x) { return x.select(0, 0); }});
  return op;
}

std::function<Tensors()> inputs(const std::vector<Shape>& sizes, bool requires_grad) {
  return [=] {
    Tensors t;
    for (size_t i = 0; i < sizes.size(); ++i)
      t.push_back(noise(sizes[i], i + 1).requires_grad_(requires_grad));
    return t;
  };
}

TEST(CustomOperators, RunEagerly) {
  const Tensor y = ones({3}), x = full({3}, 2.0);
  const Tensors out = axpy()({y, x}, {0.5});
  EXPECT_TRUE(out[0].is_same(y));
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(y.version(), 1u);
}

TEST(CustomOperators, AreDifferentiatedEagerly) {
  const Tensor x = leaf({3}, 1), w = leaf({3}, 2);
  const Tensor y = w * 1;
  axpy()({y, x}, {0.5});
  (y * y).sum().backward();
  const Tensor sum_of = (w + 0.5 * x).detach();
  expect_close(2 * sum_of, w.grad(), 1e-6, "w.grad");
  expect_close(sum_of, x.grad(), 1e-6, "x.grad");
}

TEST(CustomOperators, Compiled) {
  const Program program = [](const Tensors& in) -> Tensors {
    const Tensors s = squares()({in[0] * in[1]});
    return {s[0] * in[0], s[1].exp()};
  };
  for (bool requires_grad : {false, true})
    check_compiled(program, inputs({{4, 3}, {3}}, requires_grad),
                   {.partitions = {"default", "save-all", "recompute-all", "reference"}});
}

TEST(CustomOperators, WriteAnInput) {
  const Program program = [](const Tensors& in) -> Tensors {
    axpy()({in[0], in[1]}, {0.25});
    return {in[0] * 2};
  };
  check_compiled(program, inputs({{4, 3}, {4, 3}}, false));
}

TEST(CustomOperators, WriteAnIntermediate) {
  const Program program = [](const Tensors& in) -> Tensors {
    const Tensor y = in[0] * in[1];
    const Tensor same = axpy()({y, in[1]}, {0.25})[0];
    return {same.sin() + y};
  };
  for (bool requires_grad : {false, true})
    check_compiled(program, inputs({{4, 3}, {4, 3}}, requires_grad));
}

TEST(CustomOperators, WriteSeveralViewsOfOneBase) {
  const Program program = [](const Tensors& in) -> Tensors {
    const Tensor y = in[0] * 1;
    swap()({y.select(1, 0), y.select(1, 2)});
    axpy()({y.slice(0, 0, 4, 2), y.slice(0, 1, 4, 2)}, {2});
    return {y * in[0], y.select(0, 1)};
  };
  for (bool requires_grad : {false, true}) check_compiled(program, inputs({{4, 3}}, requires_grad));
}

TEST(CustomOperators, WriteViewsOfAnInput) {
  const Program program = [](const Tensors& in) -> Tensors {
    swap()({in[0].select(0, 0), in[0].select(0, 3)});
    return {in[0] + in[1]};
  };
  check_compiled(program, inputs({{4, 3}, {3}}, false));
}

TEST(CustomOperators, ReturnViews) {
  const Program program = [](const Tensors& in) -> Tensors {
    const Tensors out = head()({in[0], in[1]});
    out[0].mul_(2);
    return {out[0], out[1], in[0] * 3};
  };
  check_compiled(program, inputs({{4, 3}, {4, 3}}, false));
}

TEST(CustomOperators, ToSecondOrder) {
  const auto f = [](const Tensor& x) { return squares()({x})[0] * x; };
  const auto second = [](const auto& function) {
    const Tensor x = leaf({5}, 1);
    const Tensor first = grad({function(x).sum()}, {x}, {.create_graph = true})[0];
    return grad({(first * first).sum()}, {x})[0];
  };
  const Tensor x = noise({5}, 1);
  expect_close(36 * x * x * x, second(f), 1e-5, "eager");
  expect_close(36 * x * x * x, second(compile(f)), 1e-5, "compiled");
}

TEST(CustomOperators, OnTheInterpreter) {
  CompileOptions options;
  options.backend = runtime::interpreter_backend();
  const auto f = compile([](const Tensor& x) { return squares()({x * 2})[1]; }, options);
  const Tensor x = leaf({5}, 1);
  f(x).backward();
  expect_close(8 * x.detach(), x.grad(), 1e-6, "x.grad");
}

TEST(CustomOperators, AreOneOpaqueStepOfThePlan) {
  const auto f = compile([](const Tensor& x) { return squares()({x * 2})[0] + 1; });
  const Graph forward = f.graphs(noise({5}, 1)).forward;
  EXPECT_EQ(graph_testing::count(forward, ir::Op::custom_operator), 1);
  const codegen::Plan plan = codegen::lower(forward, {});
  EXPECT_EQ(plan.report.external_calls, 1);
  EXPECT_EQ(plan.report.kernels, 2);
  EXPECT_NE(codegen::print(plan).find("test::squares("), std::string::npos);
}

TEST(CustomOperators, RoundTripThroughTextAndJson) {
  const auto f = compile([](const Tensor& y, const Tensor& x) { axpy()({y, x}, {0.5}); });
  const Graph& traced = f.graphs(ones({2}), ones({2})).traced;
  EXPECT_EQ(ir::parse(ir::print(traced)), traced);
  EXPECT_EQ(ir::from_json(ir::to_json(traced))[0], traced);
}

TEST(CustomOperators, RunOnceAtEveryPartition) {
  for (const char* partition : {"default", "reference", "save-all", "recompute-all"}) {
    CompileOptions options;
    options.partition = partition;
    const auto f = compile([](const Tensor& x) { return squares()({x})[0].sin().exp(); }, options);
    const CompiledGraphs& graphs = f.graphs(leaf({5}, 1));
    EXPECT_EQ(graph_testing::count(graphs.backward, ir::Op::custom_operator), 0) << partition;
  }
}

TEST(CustomOperators, WithoutAGradientSaySo) {
  const Tensor x = leaf({3, 2}, 1), y = noise({3, 2}, 2);
  const Tensor out = head()({x, y})[1];
  EXPECT_NE(error_of([&] { out.sum().backward(); }, Errc::Autograd).find("test::head"),
            std::string::npos);
  const NoGrad no_grad;
  EXPECT_FALSE(head()({x, y})[1].requires_grad());
}

TEST(CustomOperators, OverlappingWritesInATraceAreRefused) {
  const auto f =
      compile([](const Tensor& x) { axpy()({x.slice(0, 0, 3), x.slice(0, 1, 4)}, {1}); });
  const Tensor x = noise({4}, 1), before = x.clone();
  EXPECT_NE(error_of([&] { f(x); }, Errc::Mutation).find("overlaps"), std::string::npos);
  expect_close(before, x, 0, "x");
}

// --- wrong declarations

TEST(CustomOperatorDeclarations, AnUndeclaredWriteIsFound) {
  const Operator op = register_operator(
      {.schema = "test::sneaky(Tensor x) -> Tensor",
       .run = [](const Tensors& t, const Numbers&) -> Tensors {
         t[0].data<float>()[0] += 1;
         return {t[0] + 1};
       },
       .shape = [](const std::vector<TensorType>& t, const Numbers&) { return t; }});
  EXPECT_NE(error_of([&] { op({ones({3})}); }, Errc::Mutation).find("argument x"),
            std::string::npos);
  const auto f = compile([&](const Tensor& x) { return op({x * 2})[0]; });
  error_of([&] { f(ones({3})); }, Errc::Mutation);
}

TEST(CustomOperatorDeclarations, AnUndeclaredAliasIsFound) {
  const Operator op = register_operator(
      {.schema = "test::sharing(Tensor x) -> Tensor",
       .run = [](const Tensors& t, const Numbers&) -> Tensors { return {t[0].slice(0, 0, 3)}; },
       .shape = [](const std::vector<TensorType>& t, const Numbers&) { return t; }});
  EXPECT_NE(error_of([&] { op({ones({3})}); }, Errc::Mutation).find("shares memory"),
            std::string::npos);
  const auto f = compile([&](const Tensor& x) { return op({x * 2})[0]; });
  error_of([&] { f(ones({3})); }, Errc::Mutation);
}

TEST(CustomOperatorDeclarations, AWrongShapeIsFound) {
  const Operator op = register_operator(
      {.schema = "test::misshapen(Tensor x) -> Tensor",
       .run = [](const Tensors& t, const Numbers&) -> Tensors { return {t[0].sum()}; },
       .shape = [](const std::vector<TensorType>& t, const Numbers&) { return t; }});
  EXPECT_NE(error_of([&] { op({ones({3})}); }, Errc::Shape).find("expected f32[3]"),
            std::string::npos);
}

TEST(CustomOperatorDeclarations, MalformedOnesAreRefused) {
  const auto run = [](const Tensors&, const Numbers&) { return Tensors(); };
  for (const char* schema :
       {"", "f", "f(", "f(Tensor) -> ()", "f(Tensor x) ->", "f(Matrix x) -> ()",
        "f(Tensor(a! x) -> ()", "f(Tensor(a!) x) -> Tensor(b)", "f(Tensor(a!) x) -> () more"})
    error_of([&] { register_operator({.schema = schema, .run = run}); }, Errc::Parse);
  for (const char* schema : {"f(Tensor x) -> ()", "f(float x) -> ()", "f(Tensor x) -> Tensor"})
    error_of([&] { register_operator({.schema = schema, .run = run}); }, Errc::Argument);
  axpy();
  error_of([&] { register_operator({.schema = "test::axpy_(Tensor(a!) y) -> ()", .run = run}); },
           Errc::Argument);
  error_of([] { axpy()({ones({2})}, {1.0}); }, Errc::Argument);
}

TEST(CustomOperatorDeclarations, AnUnknownOneInAGraphIsNamed) {
  EXPECT_NE(error_of(
                [] {
                  ir::parse(R"(graph @g functional {
  in %x: f32[2] primal
  %y: f32[2] = custom_operator %x {operator_name="nobody::knows", arguments=""}
  out %y: result
  epilogue { result output 0 }
}
)");
                },
                Errc::Parse)
                .find("nobody::knows"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem::testing
