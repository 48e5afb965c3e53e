// Custom functions inside vmap with a derivative outside of it: the user's backward, vmapped.
#include <gtest/gtest.h>
#include <tandem/graph.h>

#include "tests/support/check_compiled.h"

namespace tandem::testing {
namespace {

/// x^2 w, of which backward says twice what is right, so that it can be told apart.
struct Odd : Function<Odd> {
  static Tensor forward(FunctionContext& c, const Tensor& x, const Tensor& w) {
    const Tensor square = x * x;
    c.save_for_backward({x, w, square});
    return square * w;
  }
  static std::vector<Tensor> backward(FunctionContext& c, const std::vector<Tensor>& grads) {
    const Tensor &x = c.saved()[0], &w = c.saved()[1], &square = c.saved()[2];
    EXPECT_EQ(x.dim(), 1);  // one example
    return {c.needs_input_grad(0) ? 4 * x * w * grads[0] : Tensor(),
            c.needs_input_grad(1) ? (2 * square * grads[0]) : Tensor()};
  }
};

/// Gives its input, and saves its result.
struct Saved : Function<Saved> {
  static std::vector<Tensor> forward(FunctionContext& c, const Tensor& x) {
    const Tensor y = exp(x);
    c.save_for_backward({y});
    return {y, x};
  }
  static std::vector<Tensor> backward(FunctionContext& c, const std::vector<Tensor>& grads) {
    const Tensor of_y = grads[0].defined() ? grads[0] * c.saved()[0] * 3 : Tensor();
    return {!of_y.defined() ? grads[1] : grads[1].defined() ? of_y + grads[1] : of_y};
  }
};

using Fn = std::function<Tensor(const Tensor&, const Tensor&)>;

std::vector<Tensor> gradients(const Fn& fn, const Tensor& x, const Tensor& w, bool twice) {
  const Tensor a = x.detach().clone().requires_grad_(), b = w.detach().clone().requires_grad_();
  const Tensor y = fn(a, b);
  std::vector<Tensor> first =
      grad({(y * noise(y.sizes(), 7, f64)).sum()}, {a, b}, {.create_graph = twice});
  if (!twice) return first;
  return grad({(first[0] * noise(x.sizes(), 8, f64)).sum()}, {a, b}, {.allow_unused = true});
}

/// A loop over examples, vmap, vmap in a compiled function, all in one.
void check(const Fn& fn) {
  const Tensor x = noise({3, 4}, 1, f64), w = noise({4}, 2, f64);
  const Fn mapped = [&](const Tensor& a, const Tensor& b) {
    return vmap(fn, {.in_dims = {0, std::nullopt}})(a, b);
  };
  const Fn loop = [&](const Tensor& a, const Tensor& b) {
    return stack({fn(a[0], b), fn(a[1], b), fn(a[2], b)}, 0);
  };
  for (const bool twice : {false, true}) {
    const std::vector<Tensor> expected = gradients(loop, x, w, twice);
    const auto compiled = compile([&](const Tensor& a, const Tensor& b) { return mapped(a, b); });
    const auto whole =
        compile([&](const Tensor& a, const Tensor& b) { return gradients(mapped, a, b, twice); });
    const std::vector<Tensor> eager = gradients(mapped, x, w, twice),
                              got = gradients(compiled, x, w, twice), inside = whole(x, w);
    for (size_t i = 0; i < 2; ++i) {
      if (!expected[i].defined()) continue;
      const std::string what = std::to_string(i) + (twice ? ", twice" : "");
      expect_close(expected[i], eager[i], 1e-12, "eager " + what);
      expect_close(expected[i], got[i], 1e-12, "compiled " + what);
      expect_close(expected[i], inside[i], 1e-12, "whole " + what);
    }
  }
}

TEST(CustomFunctionsInVmap, OfEachAndOfAll) {
  check([](const Tensor& x, const Tensor& w) { return Odd::apply(sin(x), w * 2); });
}

TEST(CustomFunctionsInVmap, InputsAsResults) {
  check([](const Tensor& x, const Tensor& w) {
    const auto both = Saved::apply(x * w);
    return both[0] * both[1] + both[0];
  });
}

TEST(CustomFunctionsInVmap, InBodies) {
  check([](const Tensor& x, const Tensor& w) {
    return fori_loop(
        0, 2, [&](const Tensor&, const Tensor& c) { return Odd::apply(sin(c), x * w); }, x);
  });
  check([](const Tensor& x, const Tensor& w) {
    return cond(
        x.sum() > 0, [&] { return Odd::apply(sin(x), w); }, [&] { return Odd::apply(w, x); });
  });
}

TEST(CustomFunctionsInVmap, Nested) {
  check([](const Tensor& x, const Tensor& w) {
    return vmap([&](const Tensor& s) { return Odd::apply(x * s, w); })(w).sum(0);
  });
}

TEST(CustomFunctionsInVmap, WithGradientsInside) {
  check([](const Tensor& x, const Tensor& w) {
    return grad([&](const Tensor& t) { return Odd::apply(t, w).sum(); })(x) * w;
  });
}

}  // namespace
}  // namespace tandem::testing
