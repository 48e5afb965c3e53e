// Branches and loops inside vmap and forward mode, eager and inside compiled functions: against
// loops over examples, and tangents against differences.
#include <gtest/gtest.h>
#include <tandem/graph.h>

#include "tests/support/check_compiled.h"

namespace tandem::testing {
namespace {

using Function = std::function<Tensor(const Tensor&, const Tensor&)>;

/// fn of examples of x, and of examples of w or of one w, by a loop.
Tensor one_by_one(const Function& fn, const Tensor& x, const Tensor& w, bool of_each) {
  Tensors all;
  for (int64_t i = 0; i < x.sizes()[0]; ++i) all.push_back(fn(x[i], of_each ? w[i] : w));
  return stack(all, 0);
}

/// vmap of fn, eager and compiled, and with gradients on either side of it.
void check_examples(const Function& fn, const Tensor& x, const Tensor& w) {
  for (const bool of_each : {false, true}) {
    const Tensor other = of_each ? stack({w, w * 2, w - 1}, 0) : w;
    const auto mapped = vmap(fn, {.in_dims = {0, of_each ? std::optional<int>(0) : std::nullopt}});
    const Tensor expected = one_by_one(fn, x, other, of_each);
    expect_close(expected, mapped(x, other), 1e-12, "eager");
    expect_close(expected,
                 compile([&](const Tensor& a, const Tensor& b) { return mapped(a, b); })(x, other),
                 1e-12, "compiled");

    const auto gradients = [](const Function& f, const Tensor& a, const Tensor& b) {
      const Tensor a1 = a.detach().clone().requires_grad_(),
                   b1 = b.detach().clone().requires_grad_();
      const Tensor y = f(a1, b1);
      return grad({(y * noise(y.sizes(), 7, f64)).sum()}, {a1, b1});
    };
    const Tensors outside = gradients(
        [&](const Tensor& a, const Tensor& b) { return one_by_one(fn, a, b, of_each); }, x, other);
    const Tensors eager = gradients(mapped, x, other);
    const auto compiled = compile([&](const Tensor& a, const Tensor& b) { return mapped(a, b); });
    const Tensors got = gradients(compiled, x, other);
    const Tensors whole = compile(
        [&](const Tensor& a, const Tensor& b) { return gradients(mapped, a, b); })(x, other);
    for (size_t i = 0; i < 2; ++i) {
      expect_close(outside[i], eager[i], 1e-11, "eager gradient " + std::to_string(i));
      expect_close(outside[i], got[i], 1e-11, "compiled gradient " + std::to_string(i));
      expect_close(outside[i], whole[i], 1e-11, "whole gradient " + std::to_string(i));
    }

    const auto of_sum =
        value_and_grad<0, 1>([&](const Tensor& a, const Tensor& b) { return fn(a, b).sum(); });
    const auto gradient = [&](const Tensor& a, const Tensor& b) {
      const auto g = of_sum(a, b).gradients;
      return std::pair(std::get<0>(g), std::get<1>(g));
    };
    const auto inside =
        vmap(gradient, {.in_dims = {0, of_each ? std::optional<int>(0) : std::nullopt}});
    const auto of_compiled =
        compile([&](const Tensor& a, const Tensor& b) { return inside(a, b); })(x, other);
    const auto of_eager = inside(x, other);
    for (int64_t i = 0; i < x.sizes()[0]; ++i) {
      const auto one = gradient(x[i], of_each ? other[i] : other);
      expect_close(one.first, of_eager.first[i], 1e-11, "eager inside 0");
      expect_close(one.second, of_eager.second[i], 1e-11, "eager inside 1");
      expect_close(one.first, of_compiled.first[i], 1e-11, "compiled inside 0");
      expect_close(one.second, of_compiled.second[i], 1e-11, "compiled inside 1");
    }
  }
}

/// jvp of fn eager and compiled, of the compiled function's gradient, and gradients of jvp.
void check_tangents(const Function& fn, const Tensor& x, const Tensor& w) {
  const Tensor dx = noise(x.sizes(), 21, f64), dw = noise(w.sizes(), 22, f64);
  const auto moved = [&](const Tensor& a, const Tensor& b) {
    return jvp(fn, std::tuple(a, b), std::tuple(dx, dw)).tangent;
  };
  const Tensor expected =
      (fn(x + dx * 1e-6, w + dw * 1e-6) - fn(x - dx * 1e-6, w - dw * 1e-6)) / 2e-6;
  const Tensor eager = moved(x, w);
  expect_close(expected, eager, 1e-7, "tangent");
  expect_close(eager, compile([&](const Tensor& a, const Tensor& b) { return moved(a, b); })(x, w),
               1e-11, "compiled tangent");

  const auto gradient_of = [](const Function& f, const Tensor& a, const Tensor& b) {
    const Tensor point = a.detach().requires_grad_();
    const Tensor y = f(point, b);
    return grad({(y * noise(y.sizes(), 7, f64)).sum()}, {point})[0];
  };
  const auto reverse_over_forward = [&](const Tensor& a, const Tensor& b) {
    return gradient_of(moved, a, b);
  };
  const Tensor of_tangent = reverse_over_forward(x, w);
  expect_close(of_tangent, compile([&](const Tensor& a, const Tensor& b) {
                 return reverse_over_forward(a, b);
               })(x, w),
               1e-10, "reverse over forward, whole");
  const auto compiled = compile([&](const Tensor& a, const Tensor& b) { return moved(a, b); });
  expect_close(of_tangent, gradient_of(compiled, x, w), 1e-10, "reverse over forward, compiled");

  const auto product = [&](const Tensor& a, const Tensor& b) {
    const auto weighed = [&](const Tensor& t) {
      const Tensor y = fn(t, b);
      return (y * noise(y.sizes(), 7, f64)).sum();
    };
    return hvp(weighed, a, dx).tangent;
  };
  const Tensor of_gradient = product(x, w);
  const Tensor differences =
      (gradient_of(fn, x + dx * 1e-6, w) - gradient_of(fn, x - dx * 1e-6, w)) / 2e-6;
  expect_close(differences, of_gradient, 1e-6, "forward over reverse");
  expect_close(of_gradient,
               compile([&](const Tensor& a, const Tensor& b) { return product(a, b); })(x, w),
               1e-10, "forward over reverse, compiled");
}

void check(const Function& fn, const Tensor& xs, const Tensor& w) {
  check_examples(fn, xs, w);
  check_tangents(fn, xs[0], w);
}

Tensor xs() { return noise({3, 4}, 1, f64); }
Tensor w() { return noise({4}, 2, f64) + 0.5; }

TEST(ControlFlowLevels, ABranchThatAllTake) {
  for (const bool taken : {true, false})
    check(
        [=](const Tensor& x, const Tensor& v) {
          return cond(
              full({}, taken ? -100.0 : 100.0, f64) < v.sum(), [&] { return sin(x) * v; },
              [&] { return x * x - v; });
        },
        xs(), w());
}

TEST(ControlFlowLevels, ABranchOfEach) {
  check(
      [](const Tensor& x, const Tensor& v) {
        return cond(
            x.sum() > 0, [&] { return sin(x) * v; },
            [&] { return cond(v.sum() > 0, [&] { return x * x; }, [&] { return v * x; }); });
      },
      xs(), w());
}

TEST(ControlFlowLevels, WritesOfBranches) {
  const Function fn = [](const Tensor& x, const Tensor& v) {
    Tensor y = x * 1;
    const Tensor z = cond(
        x.sum() > 0,
        [&] {
          y.mul_(v);
          return y.sum();
        },
        [&] { return v.sum(); });
    return y * z;
  };
  check(fn, xs(), w());
}

TEST(ControlFlowLevels, Scans) {
  for (const bool reverse : {false, true})
    check(
        [=](const Tensor& x, const Tensor& v) {
          const auto [last, ys] = scan(
              [&](const std::pair<Tensor, Tensor>& c, const Tensor& s) {
                const Tensor next = tanh(c.first * v + s);
                return std::pair(std::pair(next, c.second + 1), next * s + c.second);
              },
              std::pair(v * 2, full({}, 0, DType::I64)), x, {.reverse = reverse});
          return cat({last.first, ys.sum(1)}, 0);
        },
        xs(), w());
}

TEST(ControlFlowLevels, ACarryThatAStepMoves) {
  check(
      [](const Tensor& x, const Tensor& v) {
        return fori_loop(
                   0, 3,
                   [&](const Tensor& i, const std::pair<Tensor, Tensor>& c) {
                     return std::pair(c.second * v, c.first + x * i);
                   },
                   std::pair(zeros({4}, f64), ones({4}, f64)))
            .first;
      },
      xs(), w());
}

TEST(ControlFlowLevels, LoopsOfOneLength) {
  const Function fn = [](const Tensor& x, const Tensor& v) {
    return while_loop([](const std::pair<Tensor, Tensor>& c) { return c.first < 3; },
                      [&](const std::pair<Tensor, Tensor>& c) {
                        return std::pair(c.first + 1, sin(c.second) * v);
                      },
                      std::pair(full({}, 0, DType::I64), x), {.max_steps = 5})
        .second;
  };
  check(fn, xs(), w());
}

TEST(ControlFlowLevels, LoopsThatEndByExample) {
  const auto fn = [](const WhileOptions& options) {
    return Function([=](const Tensor& x, const Tensor& v) {
      return while_loop([](const Tensor& c) { return (c * c).sum() < 20; },
                        [&](const Tensor& c) { return c * (1.2 + v * v); }, x, options);
    });
  };
  check(fn({.max_steps = 7}), xs(), w());
  const Tensor a = xs(), b = w();
  const auto mapped = vmap(fn({}), {.in_dims = {0, std::nullopt}});
  const Tensor expected = one_by_one(fn({}), a, b, false);
  expect_close(expected, mapped(a, b), 1e-12, "eager");
  expect_close(expected,
               compile([&](const Tensor& x, const Tensor& v) { return mapped(x, v); })(a, b), 1e-12,
               "compiled");
  const auto moved = [&](const Tensor& x, const Tensor& v) {
    return jvp([&](const Tensor& t) { return mapped(t, v); }, x, ones_like(x)).tangent;
  };
  expect_close(moved(a, b),
               compile([&](const Tensor& x, const Tensor& v) { return moved(x, v); })(a, b), 1e-11,
               "tangent");
}

TEST(ControlFlowLevels, Nested) {
  check(
      [](const Tensor& x, const Tensor& v) {
        return map(
            [&](const Tensor& s) {
              return fori_loop(
                  0, 2,
                  [&](const Tensor& i, const Tensor& c) {
                    return cond(
                        s + i > 0.5, [&] { return sin(c) * s; }, [&] { return c * v.sum(); });
                  },
                  s * 2);
            },
            x);
      },
      xs(), w());
}

/// What autograd does not see, or sees in part: NoGrad stops gradients and lets tangents pass,
/// detach stops both, and what is written hidden from it keeps its history.
std::vector<Function> hidden_programs() {
  return {[](const Tensor& x, const Tensor& v) { return sin(x).detach() * x * v; },
          [](const Tensor& x, const Tensor& v) {
            Tensor hidden;
            {
              const NoGrad no_grad;
              hidden = sin(x) * v;
            }
            return hidden * x;
          },
          [](const Tensor& x, const Tensor& v) {
            const Tensor y = sin(x) * v;
            Tensor part;
            {
              const NoGrad no_grad;
              part = y.slice(0, 0, 1);
            }
            return y * x * part;
          },
          [](const Tensor& x, const Tensor& v) {
            const Tensor y = sin(x) * v;
            {
              const NoGrad no_grad;
              y.mul_(x);
            }
            return y * v;
          },
          [](const Tensor& x, const Tensor& v) {
            const Tensor y = sin(x) * v;
            y.detach().mul_(x);
            return y * x;
          },
          [](const Tensor& x, const Tensor& v) {
            const Tensor y = sin(x) * v, detached = y.detach();
            detached.mul_(x);
            return y * v + detached;
          },
          [](const Tensor& x, const Tensor& v) {
            const Tensor y = zeros({4}, f64);
            y.detach().copy_(x * v);
            return y * x * v;
          }};
}

TEST(ControlFlowLevels, WhatAutogradDoesNotSeeInBodies) {
  const Tensor dx = noise({3, 4}, 21, f64), dw = noise({4}, 22, f64);
  const std::vector<Function> programs = hidden_programs();
  for (size_t number = 0; number < programs.size(); ++number) {
    SCOPED_TRACE(number);
    const Function& program = programs[number];
    const Function in_loop = [&](const Tensor& x, const Tensor& v) {
      return map([&](const Tensor& row) { return program(row, v); }, x);
    };
    const Function in_branch = [&](const Tensor& x, const Tensor& v) {
      return cond(v.sum() > 0, [&] { return program(x[0], v); }, [&] { return v * 1; });
    };
    const Function straight = [&](const Tensor& x, const Tensor& v) {
      return one_by_one(program, x, v, false);
    };
    for (const bool has_history : {false, true})
      for (const bool grad_mode : {true, false}) {
        const Tensor x = xs().requires_grad_(has_history), v = w().requires_grad_(has_history);
        const GradMode mode(grad_mode);
        const auto along = [&](const Function& fn) {
          return Function([&](const Tensor& a, const Tensor& b) {
            return jvp(fn, std::tuple(a, b), std::tuple(dx, dw)).tangent;
          });
        };
        const Tensor expected = along(straight)(x, v);
        expect_close(expected, along(in_loop)(x, v), 1e-12, "eager loop");
        expect_close(expected, compile(along(in_loop))(x, v), 1e-12, "compiled loop");
        expect_close(expected[0], along(in_branch)(x, v), 1e-12, "eager branch");
        expect_close(expected[0], compile(along(in_branch))(x, v), 1e-12, "compiled branch");
        if (!has_history || !grad_mode) continue;
        const auto gradients = [&](const Function& fn) {
          Tensors all = grad({fn(x, v).sum()}, {x, v}, {.allow_unused = true});
          if (!all[0].defined()) all[0] = zeros_like(x);
          if (!all[1].defined()) all[1] = zeros_like(v);
          return all;
        };
        for (const auto& [eager, compiled] :
             {std::pair(straight, in_loop), std::pair(along(straight), along(in_loop))})
          for (size_t i = 0; i < 2; ++i)
            expect_close(gradients(eager)[i], gradients(compile(compiled))[i], 1e-12, "gradient");
      }
  }
}

TEST(ControlFlowLevels, TransformsInBodies) {
  check(
      [](const Tensor& x, const Tensor& v) {
        return scan(
                   [&](const Tensor& c, const Tensor& s) {
                     const auto f = [&](const Tensor& t) { return (sin(t * s) * v).sum(); };
                     const Tensor g = grad(f)(c);
                     const Tensor d = vmap([&](const Tensor& t) { return t * s + c.sum(); })(v);
                     return std::pair(g + d, jvp(f, c, v).tangent);
                   },
                   v * 1, x)
            .second;
      },
      xs(), w());
}

TEST(ControlFlowLevels, AssociativeScans) {
  for (const int64_t length : {1, 2, 3, 6, 7})
    for (const bool reverse : {false, true}) {
      const auto multiply = [](const std::pair<Tensor, Tensor>& a,
                               const std::pair<Tensor, Tensor>& b) {
        return std::pair(a.first * b.first, b.first * a.second + b.second);
      };
      const Function fn = [=](const Tensor& x, const Tensor& v) {
        const auto [a, b] = associative_scan(multiply, std::pair(x, sin(x) * v.sum()),
                                             {.dim = -1, .reverse = reverse});
        return a * 0.5 + b;
      };
      const Tensor x = noise({3, 2, length}, 5, f64);
      check(fn, x, w());
      const Tensor v = w(), first = x[0], second = sin(first) * v.sum();
      Tensors expected(static_cast<size_t>(length));
      std::pair<Tensor, Tensor> so_far;
      for (int64_t i = 0; i < length; ++i) {
        const int64_t at = reverse ? length - 1 - i : i;
        const std::pair here(first.select(1, at), second.select(1, at));
        so_far = i == 0 ? here : multiply(so_far, here);
        expected[static_cast<size_t>(at)] = so_far.first * 0.5 + so_far.second;
      }
      expect_close(stack(expected, 1), fn(first, v), 1e-12, "prefixes");
    }
}

TEST(ControlFlowLevels, NestedExamples) {
  const auto fn = [](const Tensor& x, const Tensor& y) {
    return cond(
        x.sum() > 0,
        [&] {
          return fori_loop(0, 2, [&](const Tensor&, const Tensor& c) { return sin(c) * y; }, x);
        },
        [&] { return x * y; });
  };
  const auto all = [&](const Tensor& a, const Tensor& b) {
    return vmap(
        [&](const Tensor& x) { return vmap([&](const Tensor& y) { return fn(x, y); })(b); })(a);
  };
  const Tensor a = noise({3, 4}, 1, f64), b = noise({2, 4}, 2, f64);
  Tensors rows;
  for (int64_t i = 0; i < 3; ++i) rows.push_back(stack({fn(a[i], b[0]), fn(a[i], b[1])}, 0));
  expect_close(stack(rows, 0), all(a, b), 1e-12, "eager");
  expect_close(stack(rows, 0),
               compile([&](const Tensor& x, const Tensor& y) { return all(x, y); })(a, b), 1e-12,
               "compiled");
}

// Of a loop whose values are the same for all examples and whose tangents are not: the former's
// history is that outside of vmap.
TEST(ControlFlowLevels, ValuesThatAllExamplesShare) {
  const auto fn = [](const Tensor& x) {
    return fori_loop(0, 2, [&](const Tensor&, const Tensor& c) { return sin(c) * x; }, x);
  };
  const Tensor x = noise({3}, 1, f64);
  const auto third = jacrev(jacrev(jacfwd(fn)));
  expect_close(jacfwd(jacfwd(jacfwd(fn)))(x), third(x), 1e-11, "eager");
  expect_close(third(x), compile([&](const Tensor& t) { return third(t); })(x), 1e-11, "compiled");
}

/// What steps draw for each example, [examples, steps, 2].
Tensor drawn(const Tensor& x, Randomness randomness) {
  const auto draw = [](const Tensor& t) {
    return scan(
               [](const Tensor& c, std::tuple<>) {
                 const Tensor once = rand({});
                 return std::pair(c + once, stack({once, rand({})}, 0));
               },
               t, std::tuple<>(), {.length = 4})
        .second;
  };
  return vmap(draw, {.randomness = randomness})(x);
}

TEST(ControlFlowLevels, RandomNumbersInBodies) {
  for (const Randomness randomness : {Randomness::Different, Randomness::Same}) {
    const bool differ = randomness == Randomness::Different;
    const auto compiled = compile([&](const Tensor& x) { return drawn(x, randomness); });
    manual_seed(3);
    const Tensor all = compiled(zeros({3}));
    const Tensor sorted = sort(all.reshape({-1})).values;
    const int64_t count =
        1 + (sorted.slice(0, 1, 24) != sorted.slice(0, 0, 23)).sum().item<int64_t>();
    EXPECT_EQ(count, differ ? 24 : 8);
    EXPECT_FALSE(equal(all, compiled(zeros({3}))));  // the generator went on
  }
}

}  // namespace
}  // namespace tandem::testing
