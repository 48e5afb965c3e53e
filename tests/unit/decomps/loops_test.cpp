// What is moved out of scans and shared between them, and that it computes the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "decomps/simplify.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/support/graph_testing.h"

namespace tandem::graph_testing {
namespace {

/// The body of scan `number`, in order.
const Graph& body_of(const Graph& graph, int number = 0) {
  for (uint32_t i = 0; i < graph.num_equations(); ++i)
    if (graph.op({i}) == Op::scan && number-- == 0)
      return graph.subgraph(graph.attr<ir::SubgraphId>({i}, ir::Attr::body));
  throw std::runtime_error("no scan");
}

/// `graph` with what was moved out, or by another pass; in f64 it gives the same.
Graph moved(const Graph& graph, Graph (*pass)(Graph) = decomps::move_out_of_loops) {
  ir::verify(graph);
  const Graph after = pass(graph);
  ir::verify(after);
  const Buffers inputs = random_inputs(graph, 1);
  expect_close(run(after, inputs, true), run(graph, inputs, true), 1e-12, ir::print(after));
  return after;
}

TEST(MoveOutOfLoops, ProductsOfSlicesComeBefore) {
  for (const char* reverse : {"false", "true"}) {
    const Graph after = moved(ir::parse(std::string(R"(
graph @f core {
  graph @body core {
    in %h: f32[2, 4] primal
    in %w: f32[3, 4] primal
    in %b: f32[4] primal
    in %x: f32[2, 3] primal
    %p: f32[2, 4] = mm %x, %w {algorithm=""}
    %e: f32[2, 4] = expand %b {sizes=[2, 4]}
    %q: f32[2, 4] = addmm %e, %x, %w {algorithm=""}
    %s: f32[2, 4] = add %p, %h
    %t: f32[2, 4] = mul %s, %q
    out %t: result
    out %p: result
  }
  in %h: f32[2, 4] primal
  in %w: f32[3, 4] primal
  in %b: f32[4] primal
  in %xs: f32[5, 2, 3] primal
  %last: f32[2, 4], %ys: f32[5, 2, 4] = scan %h, %w, %b, %xs {body=@body, carries=1, constants=2, length=5, reverse=)") +
                                        reverse + R"(}
  out %last: result
  out %ys: result
})"));
    EXPECT_EQ(count(body_of(after), Op::mm) + count(body_of(after), Op::addmm), 0);
    EXPECT_EQ(count(after, Op::mm), 1);
    EXPECT_EQ(count(after, Op::addmm), 1);
  }
}

/// The gradient of a cell: sums of products and of rows, and a y that is a product.
TEST(MoveOutOfLoops, SumsOfProductsComeAfter) {
  const Graph after = moved(ir::parse(R"(
graph @f core {
  graph @body core {
    in %d: f32[2, 3] primal
    in %dw: f32[4, 3] primal
    in %db: f32[4] primal
    in %w: f32[4, 3] primal
    in %h: f32[2, 3] primal
    in %dy: f32[2, 4] primal
    %t: f32[3, 4] = permute %w {dims=[1, 0]}
    %u: f32[2, 4] = mm %d, %t {algorithm=""}
    %g: f32[2, 4] = mul %u, %dy
    %gt: f32[4, 2] = permute %g {dims=[1, 0]}
    %p: f32[4, 3] = mm %gt, %h {algorithm=""}
    %sw: f32[4, 3] = add %dw, %p
    %r: f32[4] = sum %g {dims=[0], keepdim=false, order=[]}
    %sb: f32[4] = add %r, %db
    %dh: f32[2, 3] = mm %g, %w {algorithm=""}
    %dx: f32[2, 3] = mm %dy, %w {algorithm=""}
    out %dh: result
    out %sw: result
    out %sb: result
    out %dx: result
  }
  in %d: f32[2, 3] primal
  in %w: f32[4, 3] primal
  in %hs: f32[5, 2, 3] primal
  in %dys: f32[5, 2, 4] primal
  %z: f32[4, 3] = full {sizes=[4, 3], dtype=f32, value=0.0}
  %zb: f32[4] = full {sizes=[4], dtype=f32, value=1.0}
  %a: f32[2, 3], %b: f32[4, 3], %c: f32[4], %e: f32[5, 2, 3] = scan %d, %z, %zb, %w, %hs, %dys {body=@body, carries=3, constants=1, length=5, reverse=true}
  out %a: result
  out %b: result
  out %c: result
  out %e: result
})"));
  EXPECT_EQ(count(body_of(after), Op::mm), 2) << ir::print(after);  // from step to step
  EXPECT_EQ(count(body_of(after), Op::sum), 0) << ir::print(after);
  EXPECT_EQ(count(after, Op::mm), 2);
  EXPECT_EQ(count(after, Op::sum), 1);
}

TEST(MoveOutOfLoops, WhatNobodyReadsIsLeftOut) {
  const Graph after = moved(ir::parse(R"(
graph @f core {
  graph @body core {
    in %a: f32[2] primal
    in %b: f32[2] primal
    in %w: f32[2] primal
    in %x: f32[2] primal
    %v: f32[2] = exp %w
    %c: f32[2] = mul %a, %v
    %e: f32[2] = add %b, %x
    out %c: result
    out %e: result
    out %a: result
    out %e: result
  }
  in %a: f32[2] primal
  in %b: f32[2] primal
  in %w: f32[2] primal
  in %xs: f32[3, 2] primal
  %p: f32[2], %q: f32[2], %r: f32[3, 2], %s: f32[3, 2] = scan %a, %b, %w, %xs {body=@body, carries=2, constants=1, length=3, reverse=false}
  out %p: result
})"));
  EXPECT_EQ(body_of(after).inputs().size(), 2u) << ir::print(after);  // a carry and exp(w)
  EXPECT_EQ(body_of(after).outputs().size(), 1u);
  EXPECT_EQ(count(body_of(after), Op::exp), 0);
}

TEST(MoveOutOfLoops, LeavesAloneWhatEachStepMustDo) {
  const Graph graph = ir::parse(R"(
graph @f core {
  graph @body core {
    in %h: f32[2, 2] primal
    in %w: f32[2, 2] primal
    %p: f32[2, 2] = mm %h, %w {algorithm=""}
    out %p: result
  }
  in %h: f32[2, 2] primal
  in %w: f32[2, 2] primal
  %p: f32[2, 2] = scan %h, %w {body=@body, carries=1, constants=1, length=3, reverse=false}
  out %p: result
})");
  EXPECT_EQ(decomps::move_out_of_loops(graph), graph);
}

/// A recurrent cell and its gradient, which computes a step again as `again` says.
std::string cell_and_gradient(const std::string& again, int64_t columns = 3) {
  return fmt::format(R"(
graph @f core {{
  graph @step core {{
    in %h: f32[2, 3] primal
    in %w: f32[3, {0}] primal
    in %v: f32[{0}, 3] primal
    in %x: f32[2, {0}] primal
    %p: f32[2, {0}] = mm %h, %w {{algorithm=""}}
    %s: f32[2, {0}] = add %p, %x
    %t: f32[2, {0}] = tanh %s
    %n: f32[2, 3] = mm %t, %v {{algorithm=""}}
    out %n: result
    out %n: result
    out %h: result
  }}
  graph @back core {{
    in %d: f32[2, 3] primal
    in %w: f32[3, {0}] primal
    in %v: f32[{0}, 3] primal
    in %h: f32[2, 3] primal
    in %x: f32[2, {0}] primal
    in %dy: f32[2, 3] primal
{1}
    %a: f32[2, 3] = add %d, %dy
    %vt: f32[3, {0}] = permute %v {{dims=[1, 0]}}
    %u: f32[2, {0}] = mm %a, %vt {{algorithm=""}}
    %q: f32[2, {0}] = mul %t, %t
    %r: f32[2, {0}] = mul %q, %u
    %wt: f32[{0}, 3] = permute %w {{dims=[1, 0]}}
    %e: f32[2, 3] = mm %r, %wt {{algorithm=""}}
    out %e: result
  }}
  in %h: f32[2, 3] primal
  in %w: f32[3, {0}] primal
  in %v: f32[{0}, 3] primal
  in %xs: f32[5, 2, {0}] primal
  in %dys: f32[5, 2, 3] primal
  in %d: f32[2, 3] primal
  %last: f32[2, 3], %ys: f32[5, 2, 3], %hs: f32[5, 2, 3] = scan %h, %w, %v, %xs {{body=@step, carries=1, constants=2, length=5, reverse=false}}
  %dh: f32[2, 3] = scan %d, %w, %v, %hs, %xs, %dys {{body=@back, carries=1, constants=2, length=5, reverse=true}}
  out %last: result
  out %ys: result
  out %dh: result
}})",
                     columns, again);
}

constexpr const char* kSameStep = R"(
    %p: f32[2, 3] = mm %h, %w {algorithm=""}
    %s: f32[2, 3] = add %p, %x
    %t: f32[2, 3] = tanh %s)";

TEST(ShareBetweenBodies, TheGradientTakesWhatTheStepsComputed) {
  const Graph after = moved(ir::parse(cell_and_gradient(kSameStep)), decomps::share_between_bodies);
  const Graph &step = body_of(after, 0), &back = body_of(after, 1);
  EXPECT_EQ(step.outputs().size(), 4u) << ir::print(after);  // tanh, the latest that is no larger
  EXPECT_EQ(step.op(step.producer(step.outputs()[3].value)), Op::tanh);
  EXPECT_EQ(count(back, Op::mm), 2);
  EXPECT_EQ(count(back, Op::tanh) + count(back, Op::add), 1);
}

TEST(ShareBetweenBodies, WhatIsAYAlreadyIsThatOne) {
  const Graph after = moved(ir::parse(cell_and_gradient(std::string(kSameStep) + R"(
    %n: f32[2, 3] = mm %t, %v {algorithm=""}
    %m: f32[2, 3] = mul %n, %n
    %t2: f32[2, 3] = mul %t, %m)")),
                            decomps::share_between_bodies);
  EXPECT_EQ(body_of(after, 0).outputs().size(), 4u) << ir::print(after);  // tanh
  EXPECT_EQ(count(body_of(after, 1), Op::mm), 2);
}

TEST(ShareBetweenBodies, NothingIsSharedThatDiffers) {
  for (const char* product : {R"(%p: f32[2, 3] = mm %h, %v {algorithm=""})",
                              R"(%p: f32[2, 3] = mm %x, %w {algorithm=""})",
                              R"(%wt0: f32[3, 3] = permute %w {dims=[1, 0]}
    %p: f32[2, 3] = mm %h, %wt0 {algorithm=""})",
                              R"(%p: f32[2, 3] = neg %x)"}) {
    const Graph graph = ir::parse(cell_and_gradient(std::string(product) + R"(
    %s: f32[2, 3] = add %p, %x
    %t: f32[2, 3] = tanh %s)"));
    EXPECT_EQ(decomps::share_between_bodies(graph), graph) << product;
  }
}

TEST(ShareBetweenBodies, NotMuchMoreIsGivenThanIsTaken) {
  const auto text = [](int64_t columns) {
    return fmt::format(R"(
    %p: f32[2, {0}] = mm %h, %w {{algorithm=""}}
    %z: f32[2, {0}] = mul %p, %p
    %k: f32[2] = sum %z {{dims=[1], keepdim=false, order=[]}}
    %k2: f32[2, 1] = view %k {{sizes=[2, 1]}}
    %k3: f32[2, {0}] = expand %k2 {{sizes=[2, {0}]}}
    %t: f32[2, {0}] = mul %k3, %p)",
                       columns);
  };
  const Graph narrow = ir::parse(cell_and_gradient(text(8), 8));
  EXPECT_FALSE(decomps::share_between_bodies(narrow) == narrow);
}

TEST(ShareBetweenBodies, BranchesGiveInOnePlace) {
  for (const char* taken : {"true", "false"}) {
    const Graph after = moved(ir::parse(std::string(R"(
graph @f core {
  graph @sine core {
    in %x: f32[2, 3] primal
    in %w: f32[3, 3] primal
    %p: f32[2, 3] = mm %x, %w {algorithm=""}
    %s: f32[2, 3] = sin %p
    out %s: result
  }
  graph @plain core {
    in %x: f32[2, 3] primal
    in %w: f32[3, 3] primal
    %s: f32[2, 3] = neg %x
    out %s: result
  }
  graph @sine_back core {
    in %x: f32[2, 3] primal
    in %w: f32[3, 3] primal
    in %d: f32[2, 3] primal
    %p: f32[2, 3] = mm %x, %w {algorithm=""}
    %c: f32[2, 3] = cos %p
    %e: f32[2, 3] = mul %c, %d
    out %e: result
  }
  graph @plain_back core {
    in %x: f32[2, 3] primal
    in %w: f32[3, 3] primal
    in %d: f32[2, 3] primal
    %e: f32[2, 3] = neg %d
    out %e: result
  }
  in %x: f32[2, 3] primal
  in %w: f32[3, 3] primal
  in %d: f32[2, 3] primal
  %k: bool[] = full {sizes=[], dtype=bool, value=)") +
                                        taken +
                                        R"(}
  %y: f32[2, 3] = cond %k, %x, %w {then=@sine, otherwise=@plain}
  %dx: f32[2, 3] = cond %k, %x, %w, %d {then=@sine_back, otherwise=@plain_back}
  out %y: result
  out %dx: result
})"),
                              decomps::share_between_bodies);
    EXPECT_EQ(after.subgraphs().size(), 4u);
    size_t products = 0;
    for (const Graph& body : after.subgraphs()) products += count(body, Op::mm);
    EXPECT_EQ(products, 1u) << ir::print(after);
  }
}

}  // namespace
}  // namespace tandem::graph_testing
