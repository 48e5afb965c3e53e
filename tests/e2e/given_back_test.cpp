// Custom functions whose results lie in memory that others show: inputs given back, views of them,
// one tensor twice. A write that autograd could not follow is an Error, as in PyTorch.
#include <gtest/gtest.h>

#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

enum class Gives : uint8_t { Input, View, Detached, New, ViewOfNew };

/// What `G` says of an input, of which backward and jvp say ten times what they are told.
template <Gives G>
struct GivesBack : Function<GivesBack<G>> {
  static Tensor forward(FunctionContext&, const Tensor& x) {
    switch (G) {
      case Gives::Input:
        return x;
      case Gives::View:
        return x.view({2, 2});
      case Gives::Detached:
        return x.detach();
      case Gives::New:
        return x * 1;
      case Gives::ViewOfNew:
        return (x * 1).view({2, 2});
    }
    return {};
  }
  static Tensors backward(FunctionContext&, const Tensors& grads) {
    return {grads[0].reshape({4}) * 10};
  }
  static Tensors jvp(FunctionContext&, const Tensors& tangents) {
    const bool is_matrix = G == Gives::View || G == Gives::ViewOfNew;
    return {is_matrix ? tangents[0].view({2, 2}) * 10 : tangents[0] * 10};
  }
};

using Unary = std::function<Tensor(const Tensor&)>;
/// A function of an input and of what was given back.
using Use = std::function<Tensor(const Tensor& input, const Tensor& result)>;

/// `use` of twice a leaf, and what `apply` gives of that.
Tensor used(const Unary& apply, const Use& use, const Tensor& leaf) {
  const Tensor input = leaf * 2;
  return use(input, apply(input));
}

Tensor leaf() { return ones({4}).requires_grad_(); }

void expect_refused(const std::string& why, const Unary& apply, const Use& use) {
  SCOPED_TRACE(why);
  expect_error(Errc::Autograd, "lies in the memory of another tensor",
               [&] { used(apply, use, leaf()); });
  expect_error(Errc::Autograd, "lies in the memory of another tensor", [&] {
    jvp([&](const Tensor& x) { return used(apply, use, x); }, ones({4}), ones({4}));
  });
}

const Unary kInMemoryOfTheInput[] = {
    [](const Tensor& x) { return GivesBack<Gives::Input>::apply(x); },
    [](const Tensor& x) { return GivesBack<Gives::View>::apply(x); },
    [](const Tensor& x) { return GivesBack<Gives::Detached>::apply(x); },
    [](const Tensor& x) { return GivesBack<Gives::Input>::apply(x).slice(0, 0, 2); },
    [](const Tensor& x) { return GivesBack<Gives::Input>::apply(x.view({2, 2}).view({4})); }};

TEST(GivenBack, MayNotBeWrittenWhereADerivativeFollows) {
  for (const Unary& apply : kInMemoryOfTheInput) {
    expect_refused("the result", apply, [](auto&, auto& y) { return y.mul_(3); });
    expect_refused("the result, for the input", apply,
                   [](auto& x, auto& y) { return y.mul_(3), x; });
    expect_refused("a view of it", apply, [](auto&, auto& y) { return y[0].mul_(3); });
  }
}

TEST(GivenBack, MayNotBeUsedAfterItsMemoryWasWritten) {
  for (const Unary& apply : kInMemoryOfTheInput) {
    expect_refused("the input", apply, [](auto& x, auto& y) { return x.mul_(3), y * 1; });
    expect_refused("a part of it", apply, [](auto& x, auto& y) { return x[0].mul_(3), y * 1; });
    expect_refused("another operation's operand", apply, [](auto& x, auto& y) {
      return x.mul_(3), GivesBack<Gives::New>::apply(y.reshape({-1}));
    });
    const Tensor x = leaf() * 2, y = apply(x);
    x.mul_(3);
    const auto refused = [&](auto action) {
      expect_error(Errc::Autograd, "is used in grad mode after that memory was written", action);
    };
    refused([&] { y.backward(ones(y.sizes())); });
    refused([&] { grad({y}, {x}, {.grad_outputs = {ones(y.sizes())}}); });
    refused([&] { compile([](const Tensor& t) { return t * 2; })(y); });
    const NoGrad no_grad;
    EXPECT_EQ((y * 1).sum().item(), y.sum().item());
  }
}

TEST(GivenBack, HasNoTangentAfterItsMemoryWasWritten) {
  for (const Unary& apply : kInMemoryOfTheInput) {
    const Use returned = [](const Tensor& x, const Tensor& y) { return x.mul_(3), y; };
    expect_error(Errc::Autograd, "is used after that memory was written", [&] {
      jvp([&](const Tensor& x) { return used(apply, returned, x); }, ones({4}), ones({4}));
    });
  }
}

TEST(GivenBack, IsDifferentiatedByItsOwnBackward) {
  for (const Unary& apply : kInMemoryOfTheInput) {
    const Tensor x = leaf(), twice = x * 2, y = apply(twice);
    EXPECT_TRUE(y.shares_storage(twice));
    EXPECT_TRUE(y.requires_grad() && !y.is_leaf() && !y.is_same(twice));
    const Tensor z = y * 1;
    twice.mul_(3);  // what was used before stays as it was
    (z.sum() + twice.sum()).backward();
    EXPECT_EQ(x.grad().sum().item(), 20 * static_cast<double>(int64_t{z.numel()}) + 4 * 6);
  }
}

TEST(GivenBack, OfNothingThatRequiresGradIsAView) {
  const Tensor x = ones({4}), y = GivesBack<Gives::Input>::apply(x);
  EXPECT_FALSE(y.is_same(x));
  y.mul_(2);
  EXPECT_EQ(x.sum().item(), 8);
  x.copy_(leaf());  // what y shows now has a history, which y has not
  expect_error(Errc::Autograd, "after that memory was written", [&] { y * 2; });
}

TEST(GivenBack, UnderNoGradIsDetached) {
  const Tensor x = leaf();
  Tensor y;
  {
    const NoGrad no_grad;
    y = GivesBack<Gives::Input>::apply(x);
  }
  EXPECT_FALSE(y.requires_grad() || y.is_same(x));
  EXPECT_TRUE(y.shares_storage(x));
  (y * x).sum().backward();
  EXPECT_EQ(x.grad().sum().item(), 4);
}

TEST(GivenBack, NewResultsMayBeWritten) {
  const Unary functions[] = {[](const Tensor& x) { return GivesBack<Gives::New>::apply(x); },
                             [](const Tensor& x) { return GivesBack<Gives::ViewOfNew>::apply(x); }};
  for (const Unary& apply : functions) {
    const auto written = [&](const Tensor& x) { return apply(x * 2).mul_(3); };
    const auto mapped = [&](const Tensor& x) { return vmap(written)(x.unsqueeze(0))[0]; };
    for (const Unary& f : {Unary(written), Unary(compile(written)), Unary(mapped)}) {
      const Tensor x = leaf();
      f(x).sum().backward();
      EXPECT_EQ(x.grad().sum().item(), 4 * 60);
    }
    EXPECT_EQ(jvp(written, ones({4}), ones({4})).tangent.sum().item(), 4 * 60);
  }
}

/// The same result twice, and a view of it.
struct Thrice : Function<Thrice> {
  static Tensors forward(FunctionContext&, const Tensor& x) {
    const Tensor y = x * 1;
    return {y, y, y.view({2, 2})};
  }
  static Tensors backward(FunctionContext&, const Tensors& grads) {
    Tensor sum = zeros({4});
    for (const Tensor& g : grads)
      if (g.defined()) sum = sum + g.reshape({4});
    return {sum};
  }
};

TEST(GivenBack, OneTensorAsSeveralResults) {
  const Tensor x = leaf();
  const Tensors all = Thrice::apply(x);
  (all[0].sum() + all[1].sum() * 2 + all[2].sum() * 4).backward();
  EXPECT_EQ(x.grad().sum().item(), 4 * 7);
  for (const Tensor& t : Thrice::apply(leaf()))
    expect_error(Errc::Autograd, "lies in the memory of another tensor", [&] { t.mul_(2); });
}

struct Twice : Function<Twice> {
  static Tensors forward(FunctionContext&, const Tensor& x) {
    const Tensor y = x * 1;
    return {y, y};
  }
  static Tensors backward(FunctionContext&, const Tensors& grads) {
    return {grads[1].defined() ? grads[0] + grads[1] : grads[0]};
  }
};

TEST(GivenBack, OneTensorAsSeveralResultsInsideATrace) {
  const auto given = [](const Tensor& x) { return Tensors(Thrice::apply(x)); };
  const Tensor x = leaf();
  const Tensors all = compile(given)(x);
  (all[0].sum() + all[1].sum() * 2 + all[2].sum() * 4).backward();
  EXPECT_EQ(x.grad().sum().item(), 4 * 7);
  for (const size_t written : {0, 1, 2})
    expect_error(Errc::Mutation, "or one tensor twice", [&] {
      compile([&](const Tensor& t) { return given(t)[written].mul_(2); })(leaf());
    });
  const auto write = [&](const Tensor& t) {
    const Tensors results = Twice::apply(t);
    results[1][0].mul_(3);
    return Tensors{results[0], results[1]};
  };
  for (const Tensors& results : {write(ones({4})), compile(write)(ones({4}))}) {
    EXPECT_TRUE(results[0].shares_storage(results[1]));
    for (const Tensor& t : results) EXPECT_EQ(t.sum().item(), 6);
  }
}

/// A result that is dense keeps its strides: views of it are those that eager could take.
TEST(GivenBack, ResultsLieAsForwardGaveThem) {
  const auto apply = [](const Tensor& x) { return Tensor(Twice::apply(x.t())[0]); };
  const auto flat = [&](const Tensor& x) { return apply(x).t().view({12}) * 2; };
  const Tensor x = noise({3, 4}, 1).requires_grad_();
  EXPECT_EQ(apply(x).strides(), compile(apply)(x).strides());
  const Tensor expected = flat(x), got = compile(flat)(x);
  expect_close(expected, got, 1e-6, "flat");
  expect_close(grad({expected.square().sum()}, {x})[0], grad({got.square().sum()}, {x})[0], 1e-6,
               "gradient");
}

/// A tensor from outside, and a view of it.
Tensor& outside() {
  static auto* const tensor = new Tensor;
  return *tensor;
}
struct GivesOutside : Function<GivesOutside> {
  static Tensors forward(FunctionContext&, const Tensor&) {
    return {outside(), outside().view({2, 2})};
  }
  static Tensors backward(FunctionContext&, const Tensors&) { return {Tensor()}; }
};

TEST(GivenBack, ATensorFromOutside) {
  for (const size_t result : {0, 1}) {
    outside() = ones({4});
    Tensor y = GivesOutside::apply(leaf())[result];
    expect_error(Errc::Autograd, "lies in the memory of another tensor", [&] { y.mul_(2); });
    outside().mul_(2);
    expect_error(Errc::Autograd, "after that memory was written", [&] { y * 2; });
  }
  outside() = Tensor();
}

/// Writes its input.
struct Doubles : Function<Doubles> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x.mul_(2); }
  static Tensors backward(FunctionContext&, const Tensors& grads) { return {grads[0] * 2}; }
  static Tensors jvp(FunctionContext&, const Tensors& tangents) { return {tangents[0] * 2}; }
};

TEST(GivenBack, ForwardMayNotWriteWhatADerivativeIsTakenBy) {
  const auto body = [](const Tensor& x) { return Doubles::apply(x * 1); };
  const auto refused = [&](const char* what, const auto& action) {
    SCOPED_TRACE(what);
    expect_error(Errc::Mutation, "custom function: ", action);
  };
  refused("eager", [&] { body(leaf()); });
  refused("compiled", [&] { compile(body)(leaf()); });
  refused("jvp", [&] { jvp(body, ones({4}), ones({4})); });
  refused("vmap", [&] { vmap(body)(ones({2, 4}).requires_grad_()); });
  EXPECT_EQ(body(ones({4})).sum().item(), 8);
}

/// Gives and saves its input: backward is 3 x g.
struct SavesInput : Function<SavesInput> {
  static Tensor forward(FunctionContext& context, const Tensor& x) {
    context.save_for_backward({x});
    return x;
  }
  static Tensors backward(FunctionContext& context, const Tensors& grads) {
    return {context.saved()[0] * grads[0] * 3};
  }
};

/// What is saved is the input, so that a second derivative does not go through backward again.
TEST(GivenBack, IsSavedAsTheInput) {
  const auto body = [](const Tensor& x) { return SavesInput::apply(x * 1); };
  const auto mapped = [&](const Tensor& x) { return vmap(body)(x.unsqueeze(0))[0]; };
  for (const Unary& f : {Unary(body), Unary(compile(body)), Unary(mapped)}) {
    const Tensor x = full({4}, 2.0).requires_grad_();
    const Tensor g = grad({f(x).sum()}, {x}, {.create_graph = true})[0];
    EXPECT_EQ(g.sum().item(), 4 * 6);
    EXPECT_EQ(grad({g.sum()}, {x})[0].sum().item(), 4 * 3);
  }
}

}  // namespace
}  // namespace tandem::testing
