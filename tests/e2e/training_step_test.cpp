// Whole training steps in one graph, gradients slots, hooks and custom functions inside a trace:
// against the same loop run eagerly.
#include <gtest/gtest.h>
#include <tandem/graph.h>

#include <functional>

#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"
#include "tests/support/graph_testing.h"

namespace tandem::testing {
namespace {

Tensor leaf(const Shape& sizes, uint64_t seed) { return noise(sizes, seed).requires_grad_(); }

struct Net {
  nn::Linear in{6, 8}, out{8, 3};
  TANDEM_FIELDS(Net, in, out)
  Tensor operator()(const Tensor& x) const { return out(relu(in(x))); }
};

/// Runs `steps` steps of the eager loop and of the same as one compiled function, from equal
/// parameters, and compares losses and parameters.
template <class Optimizer, class Options>
void check_loop(const Options& options, int steps = 5) {
  manual_seed(3);
  const Net eager_net;
  manual_seed(3);
  const Net net;
  Optimizer eager_opt(nn::parameters(eager_net), options), opt(nn::parameters(net), options);
  const auto step_of = [](const Net& n, Optimizer& optimizer) {
    return [&](const Tensor& x, const Tensor& y) {
      const Tensor loss = cross_entropy(n(x), y);
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      return loss.detach();
    };
  };
  const auto eager = step_of(eager_net, eager_opt);
  const auto compiled = compile(step_of(net, opt));
  for (int i = 0; i < steps; ++i) {
    const Tensor x = noise({4, 6}, static_cast<uint64_t>(i)), y = arange(4).remainder(3);
    if (i == 3) eager_opt.lr.set(0.01), opt.lr.set(0.01);
    expect_close(eager(x, y), compiled(x, y), 1e-5, "loss");
  }
  const auto expected = nn::parameters(eager_net), got = nn::parameters(net);
  for (size_t i = 0; i < expected.size(); ++i) {
    expect_close(expected[i], got[i], 1e-5, "parameter");
    EXPECT_EQ(expected[i].version(), got[i].version());
    EXPECT_FALSE(got[i].grad().defined());
  }
}

TEST(TrainingStep, Sgd) { check_loop<optim::SGD>(optim::SgdOptions{.lr = 0.1}); }
TEST(TrainingStep, SgdWithMomentum) {
  check_loop<optim::SGD>(optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
}
TEST(TrainingStep, SgdWithNesterovMomentum) {
  check_loop<optim::SGD>(optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true});
}
TEST(TrainingStep, SgdWithDampening) {
  check_loop<optim::SGD>(optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5});
}
TEST(TrainingStep, AdamW) { check_loop<optim::AdamW>(optim::AdamWOptions{.lr = 0.01}); }

TEST(TrainingStep, DampeningStartsAtTheSecondGradient) {
  const Tensor p = ones({1}).requires_grad_();
  optim::SGD opt({p}, {.lr = 1, .momentum = 0.5, .dampening = 0.5});
  for (double expected : {-1.0, -3.0}) {  // v: 2, then 0.5 * 2 + 0.5 * 2
    opt.zero_grad();
    (p * 2).sum().backward();
    opt.step();
    EXPECT_EQ(p.item<double>(), expected);
  }
}

// --- grad slots

/// Calls a function of a leaf three times, the slot empty at first and then as it was left.
void check_slots(const std::function<Tensor(const Tensor&)>& f, bool start_defined) {
  const Tensor eager = leaf({4}, 1), x = leaf({4}, 1);
  if (start_defined) eager.set_grad(ones({4})), x.set_grad(ones({4}));
  const auto compiled = compile([&](const Tensor& t) { return f(t); });
  for (int i = 0; i < 3; ++i) {
    expect_close(f(eager), compiled(x), 1e-6, "result");
    ASSERT_EQ(eager.grad().defined(), x.grad().defined()) << i;
    if (x.grad().defined()) expect_close(eager.grad(), x.grad(), 1e-6, "grad");
    if (i == 1) eager.set_grad(Tensor()), x.set_grad(Tensor());
  }
}

TEST(GradSlots, Accumulated) {
  for (bool defined : {false, true})
    check_slots(
        [](const Tensor& t) {
          (t * t).sum().backward();
          return t.detach() * 2;
        },
        defined);
}

TEST(GradSlots, ReadIfDefined) {
  for (bool defined : {false, true})
    check_slots(
        [](const Tensor& t) {
          const Tensor g = t.grad();
          (t * 3).sum().backward();
          return g.defined() ? g * 2 : t.detach();
        },
        defined);
}

TEST(GradSlots, Assigned) {
  for (bool defined : {false, true})
    check_slots(
        [](const Tensor& t) {
          t.set_grad(t.detach() * 5);
          return t.grad() + 1;
        },
        defined);
}

TEST(GradSlots, Cleared) {
  for (bool defined : {false, true})
    check_slots(
        [](const Tensor& t) {
          t.set_grad(Tensor());
          return t.detach() + 1;
        },
        defined);
}

TEST(GradSlots, WrittenInPlace) {
  check_slots(
      [](const Tensor& t) {
        if (t.grad().defined()) t.grad().mul_(0.5);
        (t * 3).sum().backward();
        return t.grad() * 1;
      },
      true);
}

TEST(GradSlots, OfACapturedParameterAreReadAnew) {
  const Tensor w = leaf({4}, 1);
  const auto decay = compile([&](const Tensor& x) { return w.grad() * x; });
  for (double value : {1.0, 2.0, 3.0}) {
    w.set_grad(full({4}, value));  // another tensor each time
    EXPECT_EQ(decay(ones({4})).to_vector<double>()[0], value);
  }
}

TEST(GradSlots, AreNotGuardedWhereTheyAreNotUsed) {
  const auto f = compile([](const Tensor& x) { return sum(x * x); });
  const Tensor x = leaf({4}, 1);
  const CompiledGraphs* first = &f.graphs(x);
  f(x).backward();
  EXPECT_EQ(first, &f.graphs(x));
}

// --- hooks

/// The gradient of f(x).sum(), eager and compiled.
void check_gradient(const std::function<Tensor(const Tensor&)>& f) {
  const Tensor eager = leaf({2, 3}, 1), x = leaf({2, 3}, 1);
  const auto compiled = compile([&](const Tensor& t) { return f(t); });
  f(eager).sum().backward();
  compiled(x).sum().backward();
  expect_close(eager.grad(), x.grad(), 1e-6, "grad");
}

/// Gradients that are the values of other tensors: what is added to them later is not written
/// there.
TEST(GradSlots, HaveMemoryOfTheirOwn) {
  const std::vector<std::function<Tensor(const Tensor&, const Tensor&)>> losses{
      [](const Tensor& x, const Tensor& w) { return (x * w).sum(); },
      [](const Tensor& x, const Tensor& w) { return (x * w + x.t().t()).sum() + (w * 1).sum(); },
      [](const Tensor& x, const Tensor& w) { return mul(x, w).view({-1}).dot(ones({6})); }};
  for (size_t i = 0; i < losses.size(); ++i) {
    SCOPED_TRACE(i);
    const auto step = [&](const Tensor& x, const Tensor& w) {
      const Tensor loss = losses[i](x, w);
      loss.backward();
      return loss.detach();
    };
    const auto compiled = compile(step);
    const Tensor x = leaf({2, 3}, 1), w = leaf({2, 3}, 2), at_first = x.detach().clone();
    const Tensor eager_x = leaf({2, 3}, 1), eager_w = leaf({2, 3}, 2);
    for (int call = 0; call < 3; ++call) {
      expect_close(step(eager_x, eager_w), compiled(x, w), 1e-6, "loss");
      expect_close(eager_x.grad(), x.grad(), 1e-6, "gradient of x");
      expect_close(eager_w.grad(), w.grad(), 1e-6, "gradient of w");
      EXPECT_FALSE(w.grad().shares_storage(x) || x.grad().shares_storage(w));
    }
    EXPECT_TRUE(x.detach().equal(at_first));
  }
}

/// A tensor that the function itself puts there is that tensor.
TEST(GradSlots, HoldTheTensorThatIsPutThere) {
  const auto puts = compile([](const Tensor& x, const Tensor& g) {
    x.set_grad(g);
    return x * 2;
  });
  const Tensor x = leaf({2, 3}, 1), g = ones({2, 3});
  for (int call = 0; call < 2; ++call) {
    puts(x, g);
    EXPECT_TRUE(x.grad().is_same(g));
  }
}

TEST(GradSlots, MayChangePlaces) {
  const auto step = [](const Tensor& x, const Tensor& w) {
    (x * w * w).sum().backward();
    const Tensor of_x = x.grad(), of_w = w.grad();
    x.set_grad(of_w);
    w.set_grad(of_x);
    return x * 2;
  };
  const auto compiled = compile(step);
  const Tensor x = leaf({2, 3}, 1), w = leaf({2, 3}, 2);
  const Tensor eager_x = leaf({2, 3}, 1), eager_w = leaf({2, 3}, 2);
  for (int call = 0; call < 4; ++call) {
    step(eager_x, eager_w);
    compiled(x, w);
    expect_close(eager_x.grad(), x.grad(), 1e-6, "gradient of x");
    expect_close(eager_w.grad(), w.grad(), 1e-6, "gradient of w");
  }
}

TEST(Hooks, InATraceAreAnEquation) {
  const auto f = [](const Tensor& x) {
    const Tensor h = exp(x);
    h.register_hook([](const Tensor& g) { return g * 2 + 1; });
    return h * h;
  };
  check_gradient(f);
  const Graph traced = compile(f).graphs(leaf({2, 3}, 1)).traced;
  EXPECT_EQ(graph_testing::count(traced, ir::Op::hook), 1);
}

TEST(Hooks, SeeEarlierUses) {
  check_gradient([](const Tensor& x) {
    const Tensor h = exp(x), y = h * 3;
    h.register_hook([](const Tensor& g) { return g * g.sin(); });
    return y + h.sin();
  });
}

TEST(Hooks, OnOneValueRunInTheOrderOfTheirRegistration) {
  check_gradient([](const Tensor& x) {
    const Tensor h = exp(x), row = h[0];
    h.register_hook([](const Tensor& g) { return g * g; });
    row.register_hook([](const Tensor& g) { return g - 3; });
    h.register_hook([](const Tensor& g) { return g + 1; });
    row.register_hook([](const Tensor& g) { return g.exp(); });
    h.register_hook([](const Tensor& g) { return g.sin(); });
    return h.cos() + row;
  });
}

/// Gives and saves its result.
struct SavedExp : Function<SavedExp> {
  static Tensor forward(FunctionContext& context, const Tensor& x) {
    const Tensor y = exp(x);
    context.save_for_backward({y});
    return y;
  }
  static Tensors backward(FunctionContext& context, const Tensors& grads) {
    return {grads[0] * context.saved()[0]};
  }
};

/// A rule that reads its result gives that a gradient in a second backward: part of what the hook
/// sees then.
TEST(Hooks, SeeTheWholeOfASecondGradient) {
  using Unary = Tensor (*)(const Tensor&);
  const Unary functions[] = {[](const Tensor& x) { return exp(x); },
                             [](const Tensor& x) { return sqrt(x * x + 1); },
                             [](const Tensor& x) { return softmax(x, 0); },
                             [](const Tensor& x) { return Tensor(SavedExp::apply(x)); }};
  for (const Unary function : functions) {
    const auto hooked = [function](const Tensor& x) {
      const Tensor h = function(x);
      h.register_hook([](const Tensor& g) { return g * g; });
      h.register_hook([](const Tensor& g) { return g.sin(); });
      return (h.cos() + h * h).sum();
    };
    const auto second = [](const auto& f) {
      const Tensor x = leaf({4}, 1).detach().to(f64).requires_grad_();
      const Tensor first = grad({f(x)}, {x}, {.create_graph = true})[0];
      return grad({square(first).sum()}, {x})[0];
    };
    expect_close(second(hooked), second(compile(hooked)), 1e-10, "second gradient");
  }
}

using Hook = std::function<Tensor(const Tensor&)>;

/// y and its squares' sum, y = x sin x with a hook on it.
Tensors hooked_square(const Tensor& x, const Hook& hook) {
  const Tensor y = x * x.sin();
  y.register_hook(hook);
  return {square(y).sum(), y};
}

/// The second gradient of what is not linear in the results: it comes to y through the results, and
/// through the gradients that were differentiated. `adds_loss`: also through the loss that a
/// penalty on the gradient is added to.
template <class F>
Tensor second_gradient(const F& f, bool adds_loss) {
  const Tensor x = leaf({4}, 1).detach().to(f64).requires_grad_();
  const Tensors y = f(x);
  const Tensor loss = adds_loss ? y[0] : square(y[0]) * 0.5 + square(y[1]).sum() + y[1].sum();
  const Tensor first = grad({loss}, {x}, {.create_graph = true})[0];
  const Tensor penalty = square(first).sum();
  return grad({adds_loss ? penalty + y[0] : penalty}, {x})[0];
}

TEST(Hooks, ThatAreLinearAddUpTheTwoPartsOfASecondGradient) {
  const Hook hooks[] = {[](const Tensor& g) { return g * 1.5; },
                        [](const Tensor& g) { return -(g.to(f32) / 4).to(f64) - g; },
                        [](const Tensor& g) { return cat({g.slice(0, 2), g.slice(0, 0, 2)}, 0); },
                        [](const Tensor& g) { return g.sum().expand_as(g).clone(); },
                        [](const Tensor& g) { return matmul(ones({4, 4}, f64), g) * g.size(0); },
                        [](const Tensor& g) { return zeros_like(g); }};
  for (const Hook& hook : hooks)
    for (const bool adds_loss : {false, true}) {
      const auto f = [&](const Tensor& x) { return hooked_square(x, hook); };
      expect_close(second_gradient(f, adds_loss), second_gradient(compile(f), adds_loss), 1e-6,
                   "second gradient");
    }
}

TEST(Hooks, ThatAreNotLinearRefuseASecondGradientInTwoParts) {
  const Hook hooks[] = {[](const Tensor& g) { return g.tanh(); },
                        [](const Tensor& g) { return g * g; },
                        [](const Tensor& g) { return g + 1; },
                        [](const Tensor& g) { return g.clamp(-0.5, 0.5); },
                        [](const Tensor& g) { return g / (g.norm() + 1); },
                        [](const Tensor& g) { return where(g > 0, g, g * 0.5); }};
  for (const Hook& hook : hooks)
    for (const bool adds_loss : {false, true}) {
      const auto f = [&](const Tensor& x) { return hooked_square(x, hook); };
      const auto compiled = compile(f);
      expect_error(Errc::Unsupported,
                   "a hook in it that is not linear would see the two one by one",
                   [&] { second_gradient(compiled, adds_loss); });
      check_gradient([&](const Tensor& x) { return hooked_square(x, hook)[1]; });
    }
}

TEST(Hooks, FollowWrites) {
  check_gradient([](const Tensor& x) {
    const Tensor h = x + 1;
    h.select(0, 1).mul_(x.select(0, 0));
    h.register_hook([](const Tensor& g) { return g * g; });
    const Tensor y = h * 3;
    h.mul_(2);
    return y + h;
  });
}

TEST(Hooks, ThatOnlyLookChangeNothing) {
  int calls = 0;
  check_gradient([&](const Tensor& x) {
    const Tensor h = exp(x);
    h.register_hook([&](const Tensor&) {
      ++calls;
      return Tensor();
    });
    return h * h;
  });
  EXPECT_GE(calls, 2);
}

TEST(Hooks, RunInABackwardInsideTheTrace) {
  for (bool on_leaf : {false, true}) {
    const auto step = [](const Tensor& x) {
      const Tensor h = exp(x);
      h.register_hook([](const Tensor& g) { return g * 2; });
      h.sum().backward();
      return x.detach() * 1;
    };
    const Tensor eager = leaf({3}, 1), x = leaf({3}, 1);
    if (on_leaf)
      for (const Tensor& t : {eager, x}) t.register_hook([](const Tensor& g) { return g + 1; });
    step(eager);
    compile(step)(x);
    expect_close(eager.grad(), x.grad(), 1e-6, "grad");
  }
}

TEST(Hooks, OnAnInputAreRefused) {
  const auto f = compile([](const Tensor& x) {
    x.register_hook([](const Tensor& g) { return g * 2; });
    return x * 2;
  });
  const Tensor x = leaf({3}, 1);
  try {
    f(x);
    FAIL() << "expected an Error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Errc::Unsupported);
  }
}

// --- custom functions

struct ScaledExp : Function<ScaledExp> {
  static Tensor forward(FunctionContext& context, const Tensor& x, double scale) {
    const Tensor y = exp(x * scale);
    context.save_for_backward({x, y});
    return y;
  }
  // Not the true gradient, so that it shows which one was used.
  static std::vector<Tensor> backward(FunctionContext& context, const std::vector<Tensor>& grads) {
    return {grads[0] * context.saved()[1] * 7 + context.saved()[0]};
  }
};

TEST(CustomFunctions, AreDifferentiatedByTheirOwnBackward) {
  const auto f = [](const Tensor& x) { return ScaledExp::apply(x * 2, 0.5) * x; };
  check_gradient(f);
  const auto compiled = compile(f);
  const CompiledGraphs& graphs = compiled.graphs(leaf({2, 3}, 1));
  EXPECT_EQ(graph_testing::count(graphs.traced, ir::Op::custom_function), 1);
  EXPECT_EQ(graph_testing::count(graphs.joint, ir::Op::custom_function), 1);
}

/// Writes into what it saved: a tensor of its own, or (`Shared`) its operand.
template <bool Shared>
struct WritesSaved : Function<WritesSaved<Shared>> {
  static Tensor forward(FunctionContext& context, const Tensor& x) {
    const Tensor scale = Shared ? x : cos(x);
    context.save_for_backward({scale});
    return sin(x);
  }
  static std::vector<Tensor> backward(FunctionContext& context, const std::vector<Tensor>& grads) {
    const Tensor scale = context.saved()[0];
    scale.slice(-1, 0, 1).mul_(2);
    scale.t().mul_(grads[0].t());
    return {scale};
  }
};

TEST(CustomFunctions, WriteWhatTheySaved) {
  const auto f = [](const Tensor& x) { return WritesSaved<false>::apply(x) * x; };
  check_gradient(f);
  const auto shared = [](const Tensor& x) { return WritesSaved<true>::apply(x) * 1; };
  expect_error(Errc::Mutation, "may not write a saved tensor that others see",
               [&] { compile(shared)(leaf({2, 3}, 1)); });
}

struct TenTimesBack : Function<TenTimesBack> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x; }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) {
    return {grads[0] * 10};
  }
};

/// In eager the result lies in the input's memory: a trace refuses writes that would show it.
TEST(CustomFunctions, ThatGiveTheirInputBack) {
  check_gradient([](const Tensor& x) {
    const Tensor t = x * 2, y = TenTimesBack::apply(t), z = y * 2;
    t.mul_(3);  // y is not used any more
    return z + t;
  });
  const Tensor x = leaf({2, 3}, 1);
  const auto refused = [&](const std::function<Tensor(const Tensor&, const Tensor&)>& use) {
    const auto compiled = compile([&](const Tensor& a) {
      const Tensor t = a * 2;
      return use(t, TenTimesBack::apply(t));
    });
    expect_error(Errc::Mutation, "custom function: it gives an input", [&] { compiled(x); });
  };
  refused([](const Tensor&, const Tensor& y) { return y.mul_(2); });
  refused([](const Tensor& t, const Tensor& y) { return y[0].mul_(2), t; });
  refused([](const Tensor& t, const Tensor& y) { return t.mul_(2), y * 1; });
  refused([](const Tensor& t, const Tensor& y) { return t[0].mul_(2), y; });
}

TEST(CustomFunctions, InsideAWholeStep) {
  const auto step = [](const Tensor& x) {
    ScaledExp::apply(x, 0.5).sum().backward();
    return x.detach() * 1;
  };
  const Tensor eager = leaf({3}, 1), x = leaf({3}, 1);
  step(eager);
  compile(step)(x);
  expect_close(eager.grad(), x.grad(), 1e-6, "grad");
}

TEST(CustomFunctions, ToSecondOrder) {
  const auto f = [](const Tensor& x) { return ScaledExp::apply(x, 0.5); };
  const auto second = [](const auto& function) {
    const Tensor x = leaf({3}, 1);
    const Tensor first = grad({function(x).sum()}, {x}, {.create_graph = true})[0];
    return grad({(first * first).sum()}, {x})[0];
  };
  expect_close(second(f), second(compile(f)), 1e-5, "second");
}

}  // namespace
}  // namespace tandem::testing
