// What branches and loops refuse, eagerly and inside compiled functions.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

/// Compiled functions that refuse leave their arguments as they were.
void expect_refused(Errc code, const std::string& part, const Function& fn) {
  const Tensor x = ones({3}), before = x.clone();
  const auto compiled = compile([&](const Tensor& t) { return fn(t); });
  expect_error(code, part, [&] { compiled(x); });
  EXPECT_TRUE(equal(x, before));
}

void expect_refused_everywhere(Errc code, const std::string& part, const Function& fn) {
  expect_error(code, part, [&] { fn(ones({3})); });
  expect_refused(code, part, fn);
}

const auto kSame = [](const Tensor& x) { return x * 1; };

TEST(ControlFlowErrors, PredicatesAreOneNumber) {
  expect_refused_everywhere(Errc::Shape, "the predicate is f32[3]; expected one number",
                            [](const Tensor& x) { return cond(x, kSame, kSame, x); });
  expect_refused_everywhere(
      Errc::Shape, "the predicate is bool[3]; expected one number",
      [](const Tensor& x) { return while_loop([](const Tensor& c) { return c > 0; }, kSame, x); });
}

TEST(ControlFlowErrors, AValueOfATraceIsNotKnown) {
  expect_refused(Errc::Trace, "not known while the function is traced",
                 [](const Tensor& x) { return x.sum().item() > 0 ? x + 1 : x - 1; });
  expect_refused(Errc::Trace, "not known while the function is traced", [](const Tensor& x) {
    return while_loop([](const Tensor& c) { return full({}, c.sum().item() > 0); }, kSame, x);
  });
}

TEST(ControlFlowErrors, BranchesGiveTheSameTypes) {
  expect_refused(Errc::Shape, "expected (f32[3]) as the first gives, got (f32[])",
                 [](const Tensor& x) {
                   return cond(x.sum(), kSame, [](const Tensor& t) { return t.sum(); }, x);
                 });
  expect_refused(Errc::Argument, "cond: bodies give structures that differ", [](const Tensor& x) {
    return cond(x.sum(), [&] { return std::vector{x}; }, [&] { return std::vector{x, x}; })[0];
  });
}

TEST(ControlFlowErrors, CarriesKeepTheirTypes) {
  expect_refused_everywhere(
      Errc::Shape,
      "while_loop: carry 0 comes out of the body as another type; expected f32[3], got f32[1, 3]",
      [](const Tensor& x) {
        return while_loop([](const Tensor& c) { return c.sum() > 0; },
                          [](const Tensor& c) { return c.unsqueeze(0); }, x);
      });
  expect_refused_everywhere(
      Errc::Shape, "scan: carry 0 comes out of the body as another type", [](const Tensor& x) {
        return scan([](const Tensor& c, const Tensor& v) { return std::pair(c + v, v); },
                    full({}, 0, DType::I64), x)
            .second;
      });
}

TEST(ControlFlowErrors, SlicesAreOfOneLength) {
  const auto add = [](const Tensor& c, const std::vector<Tensor>& v) {
    return std::pair(c + v[0], c);
  };
  expect_refused_everywhere(Errc::Shape, "xs of different lengths; expected 3, got 2",
                            [=](const Tensor& x) {
                              return scan(add, zeros({}), std::vector{x, x.slice(0, 0, 2)}).first;
                            });
  expect_refused_everywhere(
      Errc::Shape, "xs of different lengths; expected 5, got 3",
      [=](const Tensor& x) { return scan(add, zeros({}), std::vector{x}, {.length = 5}).first; });
  expect_refused_everywhere(Errc::Shape, "xs have no dimension to go along", [=](const Tensor& x) {
    return scan(add, zeros({}), std::vector{x.sum()}).first;
  });
  expect_refused_everywhere(Errc::Argument, "expected xs, or a length", [=](const Tensor& x) {
    return scan([](const Tensor& c, std::tuple<> none) { return std::pair(c, none); }, x,
                std::tuple<>())
        .first;
  });
}

TEST(ControlFlowErrors, WritesOfSharedMemory) {
  expect_refused(Errc::Mutation, "shares memory with another", [](const Tensor& x) {
    Tensor all = x.clone(), part = all.slice(0, 0, 2);
    return fori_loop(
        0, 2,
        [&](const Tensor&, const Tensor& c) {
          all.add_(1);
          return c + part;
        },
        x.slice(0, 0, 2));
  });
  expect_refused(Errc::Mutation, "its condition writes", [](const Tensor& x) {
    Tensor count = zeros({});
    return while_loop([&](const Tensor& c) { return count.add_(1) < c.sum(); }, kSame, x);
  });
}

TEST(ControlFlowErrors, WhatBodiesMayNotDo) {
  expect_refused(Errc::Mutation, "a captured tensor itself is changed", [](const Tensor& x) {
    Tensor y = x.clone();
    cond(x.sum(), [&] { y.unsqueeze_(0); }, [] {});
    return y;
  });
  expect_refused(Errc::Unsupported, "changes a tensor itself", [](const Tensor& x) {
    return fori_loop(
        0, 2, [](const Tensor&, const Tensor& c) { return c.unsqueeze_(0).squeeze(0); }, x);
  });
  expect_refused(Errc::Unsupported, "uses the .grad of a tensor", [](const Tensor& x) {
    Tensor w = x.detach().requires_grad_();
    return cond(
        x.sum(),
        [&] {
          (w * w).sum().backward();
          return w.grad();
        },
        [&] { return x; });
  });
  expect_refused(Errc::Unsupported, "draws from the process's generator", [](const Tensor& x) {
    return while_loop([](const Tensor& c) { return c.sum() < 5; },
                      [](const Tensor& c) { return c + rand({3}); }, x);
  });
  expect_refused(Errc::Unsupported, "its branches draw different numbers", [](const Tensor& x) {
    return cond(x.sum(), [&] { return x + rand({3}); }, [&] { return x; });
  });
}

TEST(ControlFlowErrors, EffectsWhereExamplesDiffer) {
  const Tensor xs = tensor({1., 2., 3.});
  Tensor total = zeros({});
  expect_error(Errc::Mutation, "while_loop: inside vmap, where its predicate differs", [&] {
    vmap([&](const Tensor& x) {
      return while_loop([](const Tensor& c) { return c < 10; },
                        [&](const Tensor& c) { return total.add_(1), c * 2; }, x);
    })(xs);
  });
  EXPECT_EQ(total.item(), 0);
  expect_error(Errc::Mutation, "same for all examples of vmap is written", [&] {
    vmap([&](const Tensor& x) {
      cond(x > 1.5, [&] { total.add_(1); }, [] {});
      return x;
    })(xs);
  });
  EXPECT_EQ(total.item(), 0);
  expect_error(Errc::Unsupported, "its branches draw from the process's generator", [&] {
    vmap(
        [](const Tensor& x) {
          return cond(x > 1.5, [&] { return x + rand({}); }, [&] { return x - rand({}); });
        },
        {.randomness = Randomness::Different})(xs);
  });
  expect_error(Errc::Argument, "random numbers inside vmap", [&] {
    compile([](const Tensor& t) {
      return vmap([](const Tensor& x) {
        return fori_loop(0, 2, [](const Tensor&, const Tensor& c) { return c + rand({}); }, x);
      })(t);
    })(xs);
  });
}

TEST(ControlFlowErrors, Bounds) {
  expect_refused_everywhere(
      Errc::Argument, "expected max_steps of at least 0, got -1", [](const Tensor& x) {
        return while_loop([](const Tensor& c) { return c.sum() < 5; }, kSame, x, {.max_steps = -1});
      });
}

TEST(ControlFlowErrors, AssociativeScans) {
  const auto add = [](const Tensor& a, const Tensor& b) { return a + b; };
  expect_refused_everywhere(Errc::Index, "expected -1 <= dim < 1, got 1",
                            [=](const Tensor& x) { return associative_scan(add, x, {.dim = 1}); });
  expect_refused_everywhere(
      Errc::Shape, "fn gives another type than its operands have", [](const Tensor& x) {
        return associative_scan([](const Tensor& a, const Tensor& b) { return (a + b).sum(); }, x);
      });
  expect_refused_everywhere(
      Errc::Shape, "xs differ along the dimension; expected a length of 3", [=](const Tensor& x) {
        return associative_scan(
            [](const std::vector<Tensor>& a, const std::vector<Tensor>&) { return a; },
            std::vector{x, x.slice(0, 0, 2)})[0];
      });
}

TEST(ControlFlowErrors, OrderedOperators) {
  static const Operator note =
      register_operator({.schema = "control_flow::note(Tensor x) -> ()",
                         .run = [](const std::vector<Tensor>&,
                                   const std::vector<Number>&) { return std::vector<Tensor>(); },
                         .ordered = true});
  expect_refused(Errc::Unsupported, "calls an ordered operator", [](const Tensor& x) {
    cond(x.sum(), [&] { note({x}); }, [] {});
    return x;
  });
}

TEST(ControlFlowErrors, AnUnboundedLoopHasNoGradient) {
  const auto fn = compile([](const Tensor& x) {
    return while_loop([](const Tensor& c) { return c.sum() < 100; },
                      [](const Tensor& c) { return c * 2; }, x);
  });
  const Tensor y = fn(ones({3}).requires_grad_());
  const auto expect_refused_gradient = [](const auto& run) {
    expect_error(Errc::Autograd, "while_loop: no gradient, since nothing bounds", run);
  };
  expect_refused_gradient([&] { y.sum().backward(); });
  const auto inside = compile([](const Tensor& x) {
    return grad([](const Tensor& t) {
      return while_loop([](const Tensor& c) { return c.sum() < 100; },
                        [](const Tensor& c) { return c * 2; }, t)
          .sum();
    })(x);
  });
  expect_refused_gradient([&] { inside(ones({3})); });
  const auto nested = compile([](const Tensor& x) {
    return map(
        [](const Tensor& s) {
          return while_loop([](const Tensor& c) { return c < 100; },
                            [](const Tensor& c) { return c * 2; }, s);
        },
        x);
  });
  const Tensor z = nested(ones({3}).requires_grad_());
  expect_refused_gradient([&] { z.sum().backward(); });
}

TEST(ControlFlowErrors, BodiesOfBodiesEnd) {
  const std::function<Tensor(int, const Tensor&)> nested = [&](int depth, const Tensor& x) {
    if (depth == 0) return x + 1;
    return cond(x.sum(), [&] { return nested(depth - 1, x); }, [&] { return x * 1; });
  };
  const auto fn = compile([&](const Tensor& x) { return nested(63, x); });
  EXPECT_TRUE(equal(fn(ones({3})), full({3}, 2.0)));
  expect_refused(Errc::Unsupported,
                 "then: inside a trace branches, loops, custom functions and "
                 "hooks lie too deep one inside another; expected at most 63",
                 [&](const Tensor& x) { return nested(64, x); });
}

TEST(ControlFlowErrors, IndicesInBodies) {
  const auto fn = [](const Tensor& table, const Tensor& index) {
    return map([&](const Tensor& i) { return index_select(table, 0, i.reshape({1})); }, index);
  };
  const Tensor table = ones({3}), index = tensor({0, 2, 3});
  expect_error(Errc::Index, "index out of range", [&] { fn(table, index); });
  expect_error(Errc::Index, "index out of range", [&] { compile(fn)(table, index); });
}

}  // namespace
}  // namespace tandem::testing
