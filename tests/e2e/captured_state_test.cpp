// Functions that reach tensors through a capture: what is written there is written for all, what is
// asked about them is guarded, and captured tensors may share memory with arguments.
#include <gtest/gtest.h>
#include <tandem/graph.h>

#include "tests/support/check_compiled.h"

namespace tandem::testing {
namespace {

/// Some state, and a function of arguments that may use and change it.
struct Stateful {
  const char* name;
  MakeInputs state;
  std::function<Tensors(const Tensors& state, const Tensors& in)> function;
  bool state_is_argument = false;  // the argument is state[0] itself
};

std::ostream& operator<<(std::ostream& out, const Stateful& s) { return out << s.name; }

MakeInputs one(const Shape& sizes) {
  return [=](Source& s) { return Tensors{s.noise(sizes, 7)}; };
}

const std::vector<Stateful> kRows{
    {"ReadOnly", one({4}),
     [](const Tensors& state, const Tensors& in) -> Tensors { return {state[0] * in[0]}; }},
    {"Written", one({4}),
     [](const Tensors& state, const Tensors& in) -> Tensors {
       state[0].add_(in[0]);
       return {state[0] * 2};
     }},
    {"WrittenUnderNoGrad", one({4}),
     [](const Tensors& state, const Tensors& in) -> Tensors {
       {
         const NoGrad no_grad;
         state[0].mul_(0.5).add_(in[0]);
       }
       return {state[0] * in[0]};
     }},
    {"WrittenThroughAView", one({2, 4}),
     [](const Tensors& state, const Tensors& in) -> Tensors {
       state[0].select(0, 1).copy_(in[0]);
       return {};
     }},
    {"ACounter", [](Source&) { return Tensors{zeros({}, i64)}; },
     [](const Tensors& state, const Tensors& in) -> Tensors {
       state[0].add_(1);
       return {in[0] * state[0]};
     }},
    {"Returned", one({4}),
     [](const Tensors& state, const Tensors&) -> Tensors { return {state[0]}; }},
    {"AViewReturned", one({4}),
     [](const Tensors& state, const Tensors&) -> Tensors { return {state[0].slice(0, 1, 3)}; }},
    {"WrittenAndReturned", one({4}),
     [](const Tensors& state, const Tensors& in) -> Tensors { return {state[0].mul_(in[0])}; }},
    {"TheArgumentToo", one({4}),
     [](const Tensors& state, const Tensors& in) -> Tensors {
       state[0].add_(1);
       return {in[0] * 2};
     },
     true},
    {"TheArgumentWrittenAndReadThroughTheCapture", one({4}),
     [](const Tensors& state, const Tensors& in) -> Tensors {
       in[0].mul_(3);
       return {state[0] + in[0]};
     },
     true},
    {"TwoViewsOfOneState",
     [](Source& s) {
       const Tensor b = s.noise({6}, 7);
       return Tensors{b.slice(0, 0, 4), b.slice(0, 2, 6)};
     },
     [](const Tensors& state, const Tensors& in) -> Tensors {
       state[0].add_(in[0]);
       return {state[1] * 2};
     }},
    {"RunningStatistics", [](Source&) { return Tensors{zeros({4}), ones({4})}; },
     [](const Tensors& state, const Tensors& in) -> Tensors {
       {
         const NoGrad no_grad;
         state[0].mul_(0.9).add_(in[0].detach() * 0.1);
         state[1].mul_(0.9).add_(in[0].detach() * in[0].detach() * 0.1);
       }
       return {(in[0] - state[0]) / (state[1] + 1)};
     }},
};

class CapturedState : public ::testing::TestWithParam<Stateful> {};

TEST_P(CapturedState, IsAsEager) {
  const Stateful& row = GetParam();
  for (const CallSetting& setting : kAllSettings)
    for (const int calls : {1, 3}) {
      const auto outcome_of = [&](bool compiled) {
        // Capture is by tensor: the state is part of the compiled function.
        Tensors state, all;
        const MakeInputs make = [&](Source& s) {
          state = row.state(s);
          const Tensor argument = row.state_is_argument ? state[0] : s.noise({4}, 1);
          all = state;
          all.push_back(argument);
          return all;
        };
        const auto call = [&](const Tensors& in) { return row.function(state, in); };
        const auto as_compiled = compile(call);
        return run(
            [&](const Tensors& in) {
              const Tensors argument{in.back()};
              return compiled ? as_compiled(argument) : call(argument);
            },
            make, {.setting = setting.inputs, .grad_mode = setting.grad_mode, .calls = calls});
      };
      EXPECT_EQ(difference(outcome_of(false), outcome_of(true), 1e-5), "");
    }
}

INSTANTIATE_TEST_SUITE_P(Rows, CapturedState, ::testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string(info.param.name); });

/// A function that asks whether its captured state requires grad, in some place.
struct Asking {
  const char* name;
  std::function<Tensor(const Tensor& state, const Tensor& x)> function;
};

std::ostream& operator<<(std::ostream& out, const Asking& asking) { return out << asking.name; }

const std::vector<Asking> kAsking{
    {"Directly",
     [](const Tensor& state, const Tensor& x) {
       return state.requires_grad() ? (x * state).sum() : x.sum();
     }},
    {"OfAView",
     [](const Tensor& state, const Tensor& x) {
       return state.slice(0, 0, 1).requires_grad() ? (x * state).sum() : x.sum();
     }},
    {"InABranch",
     [](const Tensor& state, const Tensor& x) {
       const auto times = [&](const Tensor& t) {
         return state.requires_grad() ? t * state : t * 1;
       };
       return cond(x.sum() > -100, times, [](const Tensor& t) { return t * 3; }, x).sum();
     }},
    {"InALoop",
     [](const Tensor& state, const Tensor& x) {
       const auto step = [&](const Tensor&, const Tensor& t) {
         return state.requires_grad() ? t * state : t + 1;
       };
       return fori_loop(0, 3, step, x).sum();
     }},
    {"InAVmap", [](const Tensor& state, const Tensor& x) {
       const auto scaled = [&](const Tensor& t) { return state.requires_grad() ? t * 2 : t * 3; };
       return vmap(scaled)(x).sum();
     }}};

class AskedForGradients : public ::testing::TestWithParam<Asking> {};

/// Frozen and thawed in turn: the variant of each kind is found again.
TEST_P(AskedForGradients, IsGuardedWhetherOrNotItIsUsed) {
  const Tensor state = noise({4}, 1);
  const auto function = [&](const Tensor& x) { return GetParam().function(state, x); };
  const auto compiled = compile(function);
  for (const bool trained : {true, false, true, false, true}) {
    state.requires_grad_(trained);
    const Tensor eager = noise({4}, 2).requires_grad_(), x = noise({4}, 2).requires_grad_();
    const Tensor expected = function(eager), got = compiled(x);
    expect_close(expected, got, 1e-6, "value");
    const GradOptions maybe{.allow_unused = true};
    const std::vector<Tensor> inputs = trained ? Tensors{eager, state} : Tensors{eager};
    const std::vector<Tensor> of = trained ? Tensors{x, state} : Tensors{x};
    const Tensors want = grad({expected}, inputs, maybe), have = grad({got}, of, maybe);
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(want[i].defined(), have[i].defined());
      if (want[i].defined()) expect_close(want[i], have[i], 1e-6, "gradient");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(CapturedState, AskedForGradients, ::testing::ValuesIn(kAsking),
                         [](const auto& info) { return std::string(info.param.name); });

/// What a function asks of its captured state and does not use it else, and what changes the answer
/// and back.
struct Question {
  const char* name;
  std::function<bool(const Tensor& state)> asked;
  std::function<void(const Tensor& state)> change, change_back;
};

std::ostream& operator<<(std::ostream& out, const Question& question) {
  return out << question.name;
}

void shorten(const Tensor& t) { t.resize_({1, 3}); }
void lengthen(const Tensor& t) { t.resize_({2, 3}); }
void transpose(const Tensor& t) { t.t_(); }
/// A leaf no more.
void take_history(const Tensor& t) { t.add_(ones({2, 3}).requires_grad_()); }
void leave_history(const Tensor& t) { t.detach_(); }
/// Elsewhere in a larger memory.
void move_away(const Tensor& t) { t.set_(noise({9}, 3).slice(0, 3, 9).view({2, 3})); }
void move_back(const Tensor& t) { t.set_(noise({2, 3}, 1)); }

const std::vector<Question> kQuestions{
    {"Size", [](const Tensor& t) { return t.size(0) == 2; }, shorten, lengthen},
    {"Sizes", [](const Tensor& t) { return t.sizes() == Shape{2, 3}; }, transpose, transpose},
    {"Numel", [](const Tensor& t) { return t.numel() == 6; }, shorten, lengthen},
    {"Strides", [](const Tensor& t) { return t.strides()[0] == 3; }, transpose, transpose},
    {"IsContiguous", [](const Tensor& t) { return t.is_contiguous(); }, transpose, transpose},
    {"Rank", [](const Tensor& t) { return t.dim() == 2; }, [](const Tensor& t) { t.squeeze_(); },
     [](const Tensor& t) { t.resize_({2, 3}); }},
    {"IsLeaf", [](const Tensor& t) { return t.is_leaf(); }, take_history, leave_history},
    {"IsLeafOfAView", [](const Tensor& t) { return t.slice(0, 0, 1).is_leaf(); }, take_history,
     leave_history},
    {"StorageOffset", [](const Tensor& t) { return t.storage_offset() == 0; }, move_away,
     move_back},
    {"StorageOffsetOfAView", [](const Tensor& t) { return t[1].storage_offset() == 3; }, move_away,
     move_back}};

class AskedOfState : public ::testing::TestWithParam<Question> {};

TEST_P(AskedOfState, IsGuardedWhetherOrNotItIsUsed) {
  const Question& question = GetParam();
  const bool changes_rank = question.name == std::string("Rank");
  const Tensor state = noise(changes_rank ? Shape{1, 6} : Shape{2, 3}, 1);
  const std::vector<std::function<Tensor(const Tensor&)>> functions{
      [&](const Tensor& x) { return question.asked(state) ? x * 2 : x * 3; },
      [&](const Tensor& x) {
        const auto times = [&](const Tensor& t) { return question.asked(state) ? t * 2 : t * 3; };
        return cond(x.sum() > -100, times, [](const Tensor& t) { return t * 5; }, x);
      },
      [&](const Tensor& x) {
        return vmap([&](const Tensor& t) { return question.asked(state) ? t * 2 : t * 3; })(x);
      }};
  std::vector<decltype(compile(functions[0]))> compiled;
  for (const auto& function : functions) compiled.push_back(compile(function));
  const Tensor x = noise({4}, 2);
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < functions.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_TRUE(functions[i](x).equal(compiled[i](x)));
    }
    round % 2 == 0 ? question.change(state) : question.change_back(state);
  }
}

INSTANTIATE_TEST_SUITE_P(CapturedState, AskedOfState, ::testing::ValuesIn(kQuestions),
                         [](const auto& info) { return std::string(info.param.name); });

/// Of an argument too; who does not ask is served by one variant.
TEST(AskedOfArguments, LeavesAreGuardedWhereAFunctionAsks) {
  const auto asks = compile([](const Tensor& x) { return x.is_leaf() ? x * 2 : x * 3; });
  const auto does_not = compile([](const Tensor& x) { return x * 2; });
  const Tensor leaf = noise({3}, 1).requires_grad_(), result = leaf * 1;
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(asks(leaf).equal(leaf * 2));
    EXPECT_TRUE(asks(result).equal(result * 3));
    does_not(leaf);
    does_not(result);
  }
  EXPECT_NE(&asks.graphs(leaf), &asks.graphs(result));
  EXPECT_EQ(&does_not.graphs(leaf), &does_not.graphs(result));
}

/// Tensors that lie in one memory or not, at places that differ from call to call.
TEST(AskedOfArguments, PlacesInMemoryAreGuardedWhereAFunctionAsks) {
  const Tensor base = noise({24}, 1), state = noise({6}, 2);
  const auto chosen = [&](bool first, const Tensor& t) { return first ? t * 2 : t * 3; };
  const std::vector<std::function<Tensor(const Tensor&)>> functions{
      [&](const Tensor& x) { return chosen(x.storage_offset() == 4, x); },
      [&](const Tensor& x) { return chosen(x.slice(0, 1, 6).storage_offset() == 5, x); },
      [&](const Tensor& x) { return chosen(x.shares_storage(state), x); },
      [&](const Tensor& x) { return chosen(state.shares_storage(x), x); },
      [&](const Tensor& x) {
        const auto asks = [&](const Tensor& t) { return chosen(state.shares_storage(t), t); };
        return cond(x.sum() > -100, asks, [](const Tensor& t) { return t * 5; }, x);
      },
      [&](const Tensor& x) {
        return vmap([&](const Tensor& t) { return chosen(state.shares_storage(t), t); })(x);
      },
      [&](const Tensor& x) { return as_strided(x, {2}, {1}, 5) * 2; },
      [&](const Tensor& x) { return as_strided(x, {2}, {8}) * 2; }};
  std::vector<decltype(compile(functions[0]))> compiled;
  for (const auto& function : functions) compiled.push_back(compile(function));
  for (const bool shared : {false, true, false}) {
    state.set_(shared ? base.slice(0, 2, 8) : noise({6}, 2));
    for (const int start : {0, 4, 0, 9, 4}) {
      const Tensor x = base.slice(0, start, start + 6);
      for (size_t i = 0; i < functions.size(); ++i) {
        SCOPED_TRACE(i);
        EXPECT_TRUE(functions[i](x).equal(compiled[i](x)));
      }
    }
  }
}

/// A tensor that a function captures and is given too is the captured one whatever it is given
/// later, and the one that it is given whatever it captured.
TEST(AskedOfArguments, WhatIsCapturedAndGivenTooIsBoth) {
  const Tensor state = noise({6}, 1).requires_grad_(), other = noise({6}, 2).requires_grad_();
  const std::vector<std::function<Tensor(const Tensor&)>> functions{
      [&](const Tensor& x) { return x * 10 + state * state; },
      [&](const Tensor& x) { return state.exp() * x; },
      [&](const Tensor& x) {
        const auto uses = [&](const Tensor& t) { return t * 2 - state; };
        return cond(x.sum() > -100, uses, [](const Tensor& t) { return t * 5; }, x);
      },
      [&](const Tensor& x) { return vmap([&](const Tensor& t) { return t * 3 + state; })(x * x); },
      [&](const Tensor& x) {
        const auto inner = compile([&](const Tensor& t) { return sin(t) * state; });
        return inner(x * 2);
      }};
  for (size_t i = 0; i < functions.size(); ++i)
    for (const bool begins_with_state : {true, false}) {
      SCOPED_TRACE(::testing::Message() << i << " " << begins_with_state);
      const auto compiled = compile(functions[i]);
      for (const bool gives_state : {begins_with_state, !begins_with_state, true, false}) {
        const Tensor& x = gives_state ? state : other;
        const auto gradients = [&](const Tensor& y) {
          return grad({y.sum()}, {state, other}, {.allow_unused = true});
        };
        const Tensor expected = functions[i](x), actual = compiled(x);
        EXPECT_TRUE(allclose(actual, expected));
        const Tensors of_expected = gradients(expected), of_actual = gradients(actual);
        for (size_t k = 0; k < 2; ++k) {
          ASSERT_EQ(of_actual[k].defined(), of_expected[k].defined());
          if (!of_actual[k].defined()) continue;
          EXPECT_TRUE(allclose(of_actual[k], of_expected[k]));
        }
      }
    }
}

/// The same of the gradient that a tensor holds.
TEST(AskedOfArguments, WhatIsCapturedAndHeldAsAGradientIsBoth) {
  const Tensor w = noise({6}, 1).requires_grad_(), held = noise({6}, 2), x = noise({6}, 3);
  for (const bool slot_first : {true, false}) {
    const auto function = [&](const Tensor& t) {
      return slot_first ? w.grad() * 10 + held * t : held * t + w.grad() * 10;
    };
    const auto compiled = compile(function);
    for (const int64_t seed : {0, 4, 0, 5}) {
      w.set_grad(seed == 0 ? held : noise({6}, static_cast<uint64_t>(seed)));
      SCOPED_TRACE(::testing::Message() << slot_first << " " << seed);
      EXPECT_TRUE(allclose(compiled(x), function(x)));
    }
  }
}

/// One tensor given twice, or one that is captured, or another of the same values: in either order
/// of the calls.
TEST(AskedOfArguments, WhetherTheyAreOneTensorIsGuardedWhereAFunctionAsks) {
  const Tensor state = noise({6}, 1), other = noise({6}, 2);
  const auto chosen = [](bool first, const Tensor& t) { return first ? t * 2 : t * 3; };
  using Function = std::function<Tensor(const Tensor&, const Tensor&)>;
  const std::vector<Function> functions{
      [&](const Tensor& x, const Tensor& y) { return chosen(x.is_same(y), y); },
      [&](const Tensor& x, const Tensor& y) { return chosen(x.is_same(state), y); },
      [&](const Tensor& x, const Tensor& y) { return chosen(state.is_same(x), y); },
      [&](const Tensor& x, const Tensor& y) { return chosen(x.is_same(Tensor()), y); },
      [&](const Tensor& x, const Tensor& y) { return chosen((x * 1).is_same(x), y); },
      [&](const Tensor& x, const Tensor& y) {
        const auto asks = [&](const Tensor& t) { return chosen(y.is_same(state), t); };
        return cond(x.sum() > -100, asks, [](const Tensor& t) { return t * 5; }, x);
      },
      [&](const Tensor& x, const Tensor& y) {
        return vmap([&](const Tensor& t) { return chosen(x.is_same(state), t); })(y);
      }};
  const std::pair<Tensor, Tensor> calls[] = {
      {other, state}, {other, other}, {state, state}, {state, other}, {state.alias(), state}};
  for (size_t i = 0; i < functions.size(); ++i)
    for (const size_t first : {0, 1, 2}) {
      const auto compiled = compile(functions[i]);
      for (size_t k = 0; k < std::size(calls); ++k) {
        SCOPED_TRACE(::testing::Message() << i << " " << first << " " << k);
        const auto& [x, y] = calls[(first + k) % std::size(calls)];
        EXPECT_TRUE(functions[i](x, y).equal(compiled(x, y)));
      }
    }
}

/// Who does not ask is served by one variant.
TEST(AskedOfArguments, OneTensorTwiceIsNoQuestionOfWhoDoesNotAsk) {
  const auto sum = compile([](const Tensor& x, const Tensor& y) { return x + y; });
  const Tensor x = noise({6}, 1), y = noise({6}, 2);
  sum(x, y);
  EXPECT_EQ(&sum.graphs(x, y), &sum.graphs(x, x));
}

TEST(AskedOfArguments, ViewsWithinATensorAreOneVariant) {
  const auto within = compile([](const Tensor& x) { return as_strided(x, {2}, {1}) * 2; });
  const Tensor base = noise({10}, 1), first = base.slice(0, 0, 6), second = base.slice(0, 4, 10);
  within(first);
  within(second);
  EXPECT_EQ(&within.graphs(first), &within.graphs(second));
}

/// What a function makes of numbers alone is computed while it is traced, and is asked about in
/// that; it lies in no memory that a call would have to bring along.
TEST(AskedOfConstants, MakesThemNoInputs) {
  const std::vector<std::function<Tensor(const Tensor&)>> functions{
      [](const Tensor& x) { return x * eye(3) + arange(3).unsqueeze(1).slice(0, 0, 1); },
      [](const Tensor& x) {
        const Tensor places = arange(3).flip({0}).view({3, 1}), picked = places.select(0, 1);
        return picked.item<int64_t>() == 1 && places.size(0) == 3 ? x * places : x;
      },
      [](const Tensor& x) {
        const Tensor ends = cat({zeros({1}), ones({1})}).cumsum(0), last = ends[1];
        return last.dim() == 0 && last.is_leaf() && ends.is_contiguous() ? x * last : x;
      },
      [](const Tensor& x) { return x * tril(full({3, 3}, 2.0)).t().sum(0) + x.numel(); }};
  const Tensor x = noise({3, 3}, 1);
  for (size_t i = 0; i < functions.size(); ++i) {
    SCOPED_TRACE(i);
    const auto compiled = compile(functions[i]);
    EXPECT_TRUE(functions[i](x).equal(compiled(x)));
    EXPECT_EQ(compiled.graphs(x).traced.inputs().size(), 1);
  }
}

/// `write` of the base, then a use of the view: the view is met, inside a trace, after the write.
struct Late {
  const char* name;
  std::function<void(const Tensor& base, const Tensor& w)> write;
  bool no_grad = false;  // the view was made under NoGrad
};

std::ostream& operator<<(std::ostream& out, const Late& late) { return out << late.name; }

const std::vector<Late> kLate{
    {"Times", [](const Tensor& base, const Tensor& w) { base.mul_(w); }},
    {"Copied", [](const Tensor& base, const Tensor& w) { base.copy_(w); }},
    {"Cut", [](const Tensor& base, const Tensor& w) { base.mul_(w).fill_(1); }},
    {"ThroughAnotherView", [](const Tensor& base, const Tensor& w) { base[0].mul_(w[1]); }},
    {"OfAViewMadeUnderNoGrad", [](const Tensor& base, const Tensor& w) { base.mul_(w); }, true}};

class ViewsMetAfterAWrite : public ::testing::TestWithParam<Late> {};

enum class Form { Eager, Halves, WholeStep };

/// The loss and its gradient, or the error's text as it begins.
std::pair<Tensors, std::string> outcome(const Late& late, Form form) {
  const Tensor base = noise({2, 3}, 1), w = noise({2, 3}, 2).requires_grad_();
  const Tensor view = [&] {
    const GradMode mode(!late.no_grad);
    return base.t();
  }();
  const auto loss = [&](const Tensor& weight) {
    late.write(base, weight);
    return (view * view).sum() + (weight * 0).sum();
  };
  const auto step = [](const auto& of, const Tensor& weight) {
    const Tensor y = of(weight);
    return Tensors{y.detach(), grad({y}, {weight})[0]};
  };
  try {
    if (form == Form::Eager) return {step(loss, w), ""};
    if (form == Form::Halves) return {step(compile(loss), w), ""};
    return {compile([&](const Tensor& weight) { return step(loss, weight); })(w), ""};
  } catch (const Error& error) {
    const std::string text = error.what();
    return {{}, text.substr(0, 40)};
  }
}

TEST_P(ViewsMetAfterAWrite, SeeIt) {
  const auto [expected, error] = outcome(GetParam(), Form::Eager);
  EXPECT_EQ(error.empty(), !GetParam().no_grad);
  for (const Form form : {Form::Halves, Form::WholeStep}) {
    const auto [got, got_error] = outcome(GetParam(), form);
    EXPECT_EQ(error, got_error);
    ASSERT_EQ(expected.size(), got.size());
    for (size_t i = 0; i < got.size(); ++i)
      expect_close(expected[i], got[i], 1e-6,
                   (form == Form::WholeStep ? "whole " : "halves ") + std::to_string(i));
  }
}

INSTANTIATE_TEST_SUITE_P(CapturedState, ViewsMetAfterAWrite, ::testing::ValuesIn(kLate),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::testing
