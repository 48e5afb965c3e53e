// What is moved out of scans, and that it computes the same.
#include <gtest/gtest.h>

#include "decomps/simplify.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/support/graph_testing.h"

namespace tandem::graph_testing {
namespace {

const Graph& body_of(const Graph& graph) {
  for (uint32_t i = 0; i < graph.num_equations(); ++i)
    if (graph.op({i}) == Op::scan)
      return graph.subgraph(graph.attr<ir::SubgraphId>({i}, ir::Attr::body));
  throw std::runtime_error("no scan");
}

/// `graph` with what was moved out; in f64 it gives the same.
Graph moved(const Graph& graph) {
  ir::verify(graph);
  const Graph after = decomps::move_out_of_loops(graph);
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

}  // namespace
}  // namespace tandem::graph_testing
