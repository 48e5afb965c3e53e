// Operators that do something beside giving results: compiled, they do it as often as in eager mode
// and in the same order, whatever is read, saved or computed again.
#include <gtest/gtest.h>
#include <tandem/graph.h>

#include <functional>
#include <mutex>

#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

using Numbers = std::vector<Number>;

/// What the operators below did, in order.
class Log {
 public:
  void add(double what) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(what);
  }
  std::vector<double> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(entries_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<double> entries_;
};
Log& log() {
  static Log entries;
  return entries;
}

OperatorDefinition noting(std::string schema) {
  return {.schema = std::move(schema),
          .run = [](const Tensors& t, const Numbers& n) -> Tensors {
            log().add(n[0].to_double());
            return {t[0].clone()};
          },
          .shape = [](const std::vector<TensorType>& t,
                      const Numbers&) { return std::vector<TensorType>{t[0]}; },
          .ordered = true};
}

/// The identity; notes its number, and in backward the number's negative.
const Operator& note() {
  static const Operator back =
      register_operator(noting("ordered::note_backward(Tensor g, int i)"
                               " -> Tensor"));
  static const Operator op = [] {
    OperatorDefinition definition = noting("ordered::note(Tensor x, int i) -> Tensor");
    definition.gradient = [](const OperatorGradient& call) -> Tensors {
      return back({call.grads[0]}, {-call.numbers[0].to_int()});
    };
    return register_operator(std::move(definition));
  }();
  return op;
}
Tensor note(const Tensor& x, int i) { return note()({x}, {i})[0]; }

/// Notes its number and how many elements there are; gives nothing.
void say(const Tensor& x, int i) {
  static const Operator op =
      register_operator({.schema = "ordered::say(Tensor x, int i) -> ()",
                         .run =
                             [](const Tensors& t, const Numbers& n) {
                               log().add(n[0].to_double());
                               log().add(static_cast<double>(int64_t{t[0].numel()}));
                               return Tensors();
                             },
                         .ordered = true});
  op({x}, {i});
}

/// Adds one to its argument, and notes its number.
void bump(const Tensor& x, int i) {
  static const Operator op = register_operator(
      {.schema = "ordered::bump_(Tensor(a!) x, int i) -> ()",
       .run =
           [](const Tensors& t, const Numbers& n) {
             log().add(n[0].to_double());
             t[0].add_(1);
             return Tensors();
           },
       .gradient = [](const OperatorGradient& call) -> Tensors { return {call.grads[0]}; },
       .ordered = true});
  op({x}, {i});
}

using Fn = std::function<Tensor(const Tensor&)>;

struct Run {
  std::vector<double> log;
  Tensor result, gradient;
};

Run run(const Fn& f) {
  const Tensor x = noise({6}, 1).requires_grad_();
  log().take();
  const Tensor y = f(x);
  if (y.requires_grad()) sum(y).backward();
  return {log().take(), y.detach(), x.grad()};
}

/// Compiled, twice, `f` does what it does in eager mode; what that is.
std::vector<double> checked(const Fn& f) {
  const Run eager = run(f);
  for (const char* partition : {"default", "reference", "save-all", "recompute-all"}) {
    const auto compiled = compile(f, {.partition = partition});
    for (int call = 0; call < 2; ++call) {
      const Run again = run([&](const Tensor& x) { return compiled(x); });
      EXPECT_EQ(again.log, eager.log) << partition;
      expect_close(eager.result, again.result, 1e-6, partition);
      EXPECT_EQ(again.gradient.defined(), eager.gradient.defined()) << partition;
      if (eager.gradient.defined() && again.gradient.defined())
        expect_close(eager.gradient, again.gradient, 1e-6, partition);
    }
  }
  return eager.log;
}

using Entries = std::vector<double>;

TEST(OrderedOperator, HappensOnceInTheOrderOfTheProgram) {
  EXPECT_EQ(checked([](const Tensor& x) {
              const Tensor y = note(sin(note(x, 1)), 2);
              return y * note(x, 3);
            }),
            (Entries{1, 2, 3, -3, -2, -1}));
}

TEST(OrderedOperator, IsNeitherMergedNorLeftOut) {
  EXPECT_EQ(checked([](const Tensor& x) {
              note(x, 1);
              const Tensor y = note(x, 2) + note(x, 2);
              note(y, 3);
              return y;
            }),
            (Entries{1, 2, 2, 3, -2, -2}));
}

TEST(OrderedOperator, MayGiveNothing) {
  EXPECT_EQ(checked([](const Tensor& x) {
              say(x, 1);
              const Tensor y = exp(x);
              say(y.slice(0, 0, 2), 2);
              say(x.view({2, 3}).t(), 3);
              return y * y;
            }),
            (Entries{1, 6, 2, 2, 3, 6}));
  EXPECT_EQ(checked([](const Tensor& x) {
              say(x, 1);
              return x.detach();
            }),
            (Entries{1, 6}));
}

TEST(OrderedOperator, MayWriteItsArgument) {
  EXPECT_EQ(checked([](const Tensor& x) {
              const Tensor y = sin(x);
              bump(y, 1);
              bump(y, 2);
              note(y, 3);
              return y * y;
            }),
            (Entries{1, 2, 3}));
}

TEST(OrderedOperator, RunsOnceInACheckpointRegion) {
  const Fn f = [](const Tensor& x) {
    const auto region = checkpoint([](const Tensor& t) { return sin(note(sin(t), 1)) * t; });
    return note(region(x), 2);
  };
  log().take();
  EXPECT_EQ(run(compile(f)).log, (Entries{1, 2, -2, -1}));
  const Fn marked = [](const Tensor& x) {
    return sin(recompute_in_backward(note(recompute_in_backward(sin(x)), 1)));
  };
  EXPECT_EQ(checked(marked), (Entries{1, -1}));
}

TEST(OrderedOperator, WithoutGradients) {
  EXPECT_EQ(checked([](const Tensor& x) {
              const NoGrad no_grad;
              return note(note(x, 1), 2) + 1;
            }),
            (Entries{1, 2}));
}

TEST(OrderedOperator, InAFunctionThatAnotherOneCalls) {
  const auto inner = compile([](const Tensor& x) { return note(sin(x), 2); });
  EXPECT_EQ(checked([&](const Tensor& x) { return note(inner(note(x, 1)), 3); }),
            (Entries{1, 2, 3, -3, -2, -1}));
}

TEST(OrderedOperator, OfGradientsThatArriveOnly) {
  using Pair = std::pair<Tensor, Tensor>;
  const auto f = [](const Tensor& x) { return Pair(note(x, 1) * 2, note(sin(x), 2)); };
  const auto compiled = compile(f);
  const auto entries = [](const auto& g, bool first) {
    const Tensor x = noise({6}, 1).requires_grad_();
    const auto [a, b] = g(x);
    log().take();
    sum(first ? a : b).backward();
    return log().take();
  };
  for (const bool first : {true, false}) EXPECT_EQ(entries(compiled, first), entries(f, first));
}

TEST(OrderedOperator, IsNotComputedAgainForGradientsOfGradients) {
  const auto f = compile([](const Tensor& x) { return sin(note(x, 1)) * x; });
  const Tensor x = noise({6}, 1).requires_grad_();
  const Tensor y = sum(f(x));
  expect_error(Errc::Unsupported, "gradients of gradients",
               [&] { grad({y}, {x}, {.create_graph = true}); });
}

TEST(OrderedOperator, WhatGivesNothingMustBeOrdered) {
  expect_error(Errc::Argument, "`ordered`", [] {
    register_operator({.schema = "ordered::nothing(Tensor x) -> ()",
                       .run = [](const Tensors&, const Numbers&) { return Tensors(); }});
  });
}

}  // namespace
}  // namespace tandem::testing
