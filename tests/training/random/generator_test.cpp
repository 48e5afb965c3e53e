// Generators: state as tensors, draws of every random function, compiled functions that draw from
// them.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <functional>

#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

using Draws = std::vector<Tensor>;

void expect_equal(const Draws& expected, const Draws& actual, const std::string& what) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(equal(expected[i], actual[i])) << what << ", number " << i;
}

std::vector<int64_t> words(const Tensor& state) { return state.to_vector<int64_t>(); }
std::vector<int64_t> words(const Generator& generator) { return words(generator.get_state()); }

// --- state

TEST(Generator, StateIsTheSeedAndWhatWasDrawn) {
  const Generator g(7);
  EXPECT_EQ(words(g), (std::vector<int64_t>{7, 0}));
  rand({9}, g);
  EXPECT_EQ(words(g), (std::vector<int64_t>{7, 3}));
  EXPECT_EQ(g.initial_seed(), 7u);
  g.manual_seed(~uint64_t{0});
  EXPECT_EQ(words(g), (std::vector<int64_t>{-1, 0}));
  EXPECT_EQ(g.initial_seed(), ~uint64_t{0});
  EXPECT_EQ(words(Generator()), words(Generator()));
}

TEST(Generator, CopiesShareAndClonesDoNot) {
  const Generator g(7), copy = g, clone = g.clone();
  const Tensor first = rand({4}, g), second = rand({4}, copy);
  EXPECT_FALSE(equal(first, second));
  EXPECT_TRUE(equal(first, rand({4}, clone)));
  EXPECT_TRUE(equal(second, rand({4}, clone)));
}

TEST(Generator, GoesOnFromAState) {
  const Generator g(7);
  rand({5}, g);
  const Tensor state = g.get_state(), expected = randn({5}, g);
  EXPECT_EQ(words(state), (std::vector<int64_t>{7, 2}));  // a copy
  Generator(3).set_state(state);
  EXPECT_TRUE(equal(expected, randn({5}, Generator(3).set_state(state))));
  const Tensor gapped = stack({state, zeros({2}, i64)}, 1).select(1, 0);
  EXPECT_TRUE(equal(expected, randn({5}, Generator(3).set_state(gapped))));
}

TEST(Generator, SeedsThatNobodyForetells) {
  const Generator g;
  const uint64_t first = g.seed(), second = g.seed();
  EXPECT_NE(first, second);
  EXPECT_EQ(g.initial_seed(), second);
}

TEST(Generator, RefusesWhatIsNoState) {
  const Generator g(7);
  rand({4}, g);
  expect_error(Errc::DType, "set_state: expected i64 [2]", [&] { g.set_state(zeros({2})); });
  expect_error(Errc::DType, "got none", [&] { g.set_state({}); });
  expect_error(Errc::Shape, "got [3]", [&] { g.set_state(zeros({3}, i64)); });
  expect_error(Errc::Shape, "got [2, 1]", [&] { set_rng_state(zeros({2, 1}, i64)); });
  EXPECT_EQ(words(g), (std::vector<int64_t>{7, 1}));
}

TEST(Generator, OfTheProcess) {
  manual_seed(11);
  EXPECT_EQ(initial_seed(), 11u);
  rand({8});
  const Tensor state = get_rng_state(), expected = rand({3});
  EXPECT_EQ(words(state), (std::vector<int64_t>{11, 2}));
  EXPECT_EQ(words(default_generator()), (std::vector<int64_t>{11, 3}));
  set_rng_state(state);
  EXPECT_TRUE(equal(expected, rand({3}, default_generator())));
  const uint64_t unforetold = seed();
  EXPECT_EQ(initial_seed(), unforetold);
}

TEST(Generator, AForkLeavesTheProcessWhereItWas) {
  manual_seed(11);
  rand({8});
  const Tensor before = get_rng_state();
  {
    const ForkRng fork;
    manual_seed(5);
    rand({100});
  }
  EXPECT_TRUE(equal(before, get_rng_state()));
  {
    const ForkRng fork(false);
    rand({4});
  }
  EXPECT_FALSE(equal(before, get_rng_state()));
}

TEST(Generator, OfAModuleIsSavedAndClonedWithIt) {
  struct Noisy {
    nn::Linear in{2, 2};
    Generator generator{3};
    TANDEM_FIELDS(Noisy, in, generator)
  };
  const Noisy net;
  EXPECT_EQ(nn::parameters(net).size(), 2u);
  const auto named = nn::named_tensors(net);
  ASSERT_EQ(named.size(), 3u);
  EXPECT_EQ(named[2].first, "generator.state");
}

// --- every function that draws

struct Row {
  const char* name;
  std::function<Tensor()> plain;
  std::function<Tensor(const Generator&)> with;
};

Tensor x() { return linspace(0.1, 0.9, 12, f32).view({3, 4}); }

using G = const Generator&;

const std::vector<Row> kFunctions{
    {"rand", [] { return rand({3, 4}); }, [](G g) { return rand({3, 4}, g); }},
    {"rand f64", [] { return rand({3}, f64); }, [](G g) { return rand({3}, g, f64); }},
    {"randn", [] { return randn({5}, bf16); }, [](G g) { return randn({5}, g, bf16); }},
    {"rand_like", [] { return rand_like(x().t()); }, [](G g) { return rand_like(x().t(), {}, g); }},
    {"randn_like", [] { return randn_like(x(), f64); },
     [](G g) { return randn_like(x(), f64, g); }},
    {"randint", [] { return randint(-3, 9, {7}); }, [](G g) { return randint(-3, 9, {7}, g); }},
    {"randint i8", [] { return randint(0, 9, {7}, i8); },
     [](G g) { return randint(0, 9, {7}, g, i8); }},
    {"randperm", [] { return randperm(9); }, [](G g) { return randperm(9, g); }},
    {"bernoulli", [] { return bernoulli(x()); }, [](G g) { return bernoulli(x(), g); }},
    {"bernoulli p", [] { return bernoulli(x(), 0.3); }, [](G g) { return bernoulli(x(), 0.3, g); }},
    {"x.bernoulli", [] { return x().bernoulli(); }, [](G g) { return x().bernoulli(g); }},
    {"x.bernoulli p", [] { return x().bernoulli(0.3); }, [](G g) { return x().bernoulli(0.3, g); }},
    {"multinomial", [] { return multinomial(x(), 2); },
     [](G g) { return multinomial(x(), 2, false, g); }},
    {"x.multinomial", [] { return x().multinomial(6, true); },
     [](G g) { return x().multinomial(6, true, g); }},
    {"normal", [] { return normal(x(), x()); }, [](G g) { return normal(x(), x(), g); }},
    {"normal of means", [] { return normal(x(), 2); }, [](G g) { return normal(x(), 2, g); }},
    {"normal of deviations", [] { return normal(1, x()); }, [](G g) { return normal(1, x(), g); }},
    {"normal of sizes", [] { return normal(1, 2, {3}); }, [](G g) { return normal(1, 2, {3}, g); }},
    {"rrelu", [] { return rrelu(-x(), 0.1, 0.3, true); },
     [](G g) { return rrelu(-x(), 0.1, 0.3, true, g); }},
    {"x.rrelu", [] { return (-x()).rrelu(0.1, 0.3, true); },
     [](G g) { return (-x()).rrelu(0.1, 0.3, true, g); }},
    {"rrelu_", [] { return (-x()).rrelu_(0.1, 0.3, true); },
     [](G g) { return (-x()).rrelu_(0.1, 0.3, true, g); }},
    {"uniform_", [] { return x().uniform_(1, 2); }, [](G g) { return x().uniform_(1, 2, g); }},
    {"normal_", [] { return x().normal_(1, 2); }, [](G g) { return x().normal_(1, 2, g); }},
    {"bernoulli_", [] { return x().bernoulli_(0.3); }, [](G g) { return x().bernoulli_(0.3, g); }},
    {"bernoulli_ of a tensor", [] { return x().bernoulli_(x()); },
     [](G g) { return x().bernoulli_(x(), g); }},
    {"exponential_", [] { return x().exponential_(2); },
     [](G g) { return x().exponential_(2, g); }},
    {"geometric_", [] { return x().geometric_(0.2); }, [](G g) { return x().geometric_(0.2, g); }},
    {"cauchy_", [] { return x().cauchy_(0, 1); }, [](G g) { return x().cauchy_(0, 1, g); }},
    {"log_normal_", [] { return x().log_normal_(1, 2); },
     [](G g) { return x().log_normal_(1, 2, g); }},
    {"random_", [] { return x().random_(); }, [](G g) { return x().random_(g); }},
    {"random_ to", [] { return x().random_(9); }, [](G g) { return x().random_(9, g); }},
    {"random_ from", [] { return x().random_(-9, 9); }, [](G g) { return x().random_(-9, 9, g); }},
};

TEST(Generator, FunctionsDrawWhatTheProcessWouldHaveDrawn) {
  for (const Row& f : kFunctions) {
    manual_seed(5);
    const Tensor expected = f.plain(), state = get_rng_state();
    const Generator g(5);
    EXPECT_TRUE(equal(expected, f.with(g))) << f.name;
    EXPECT_TRUE(equal(state, g.get_state())) << f.name;
    EXPECT_TRUE(equal(state, get_rng_state())) << f.name;
  }
}

TEST(Generator, CompiledFunctionsDrawAndAdvanceAsEager) {
  for (const Row& f : kFunctions) {
    const Generator eager(5), captured(5);
    const auto fn = compile([&] { return f.with(captured); }, {.contract = false});
    for (int call = 0; call < 3; ++call) {
      EXPECT_TRUE(equal(f.with(eager), fn())) << f.name << ", call " << call;
      EXPECT_EQ(words(eager), words(captured)) << f.name;
    }
  }
}

TEST(Generator, AFailedDrawIsGivenBack) {
  const Generator g(5);
  const Tensor expanded = zeros({1}).expand({4});
  EXPECT_THROW(expanded.uniform_(0, 1, g), Error);
  EXPECT_THROW(rand({4}, g, i64), Error);
  EXPECT_THROW(multinomial(zeros({3}), 1, false, g), Error);
  EXPECT_EQ(words(g), (std::vector<int64_t>{5, 0}));
  manual_seed(6);
  EXPECT_THROW(expanded.uniform_(), Error);
  EXPECT_EQ(words(get_rng_state()), (std::vector<int64_t>{6, 0}));
}

// --- programs

using Program = std::function<Draws(const Generator&, const Tensor&)>;

struct ProgramRow {
  const char* name;
  Program run;
};

struct NoisyDouble : Function<NoisyDouble> {
  static Tensor forward(FunctionContext&, const Tensor& t, const Generator& g) {
    return t * 2 + rand(t.sizes(), g);
  }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& gradients) {
    return {gradients[0] * 2};
  }
};

Tensor noisy(const Generator& g, const Tensor& t) { return t * bernoulli(t.sigmoid(), g); }

const std::vector<ProgramRow> kPrograms{
    {"several draws",
     [](G g, const Tensor& t) -> Draws { return {rand({3}, g), randn({2}, g), noisy(g, t)}; }},
    {"the process's between",
     [](G g, const Tensor& t) -> Draws { return {rand({3}, g), dropout(t), randn({2}, g)}; }},
    {"two generators",
     [](G g, const Tensor& t) -> Draws {
       const Generator other = g.clone();
       return {rand({3}, g), noisy(other, t), rand({3}, g), other.get_state()};
     }},
    {"seeded",
     [](G g, const Tensor& t) -> Draws {
       const Tensor before = g.get_state();
       g.manual_seed(9);
       return {before, noisy(g, t), g.get_state()};
     }},
    {"made inside",
     [](G, const Tensor& t) -> Draws {
       const Generator own(4);
       return {noisy(own, t), rand({2}, own), own.get_state()};
     }},
    {"set back",
     [](G g, const Tensor& t) -> Draws {
       const Tensor state = g.get_state(), drawn = noisy(g, t);
       g.set_state(state);
       return {drawn, noisy(g, t), noisy(g, t)};
     }},
    {"forked",
     [](G, const Tensor& t) -> Draws {
       const Tensor before = dropout(t);
       const ForkRng fork;
       return {before, dropout(t), dropout(t * 2)};
     }},
    {"in a region",
     [](G g, const Tensor& t) -> Draws {
       const CheckpointRegion region;
       return {noisy(g, noisy(g, t) * 2) * 4};
     }},
    {"in a custom function",
     [](G g, const Tensor& t) -> Draws {
       const Tensor first = noisy(g, t);
       return {NoisyDouble::apply(first, g), noisy(g, t), g.get_state()};
     }},
    {"unused", [](G g, const Tensor& t) -> Draws { return rand({8}, g), Draws{t * 2}; }},
};

/// What a call gives, its gradient, and where the generators then are.
Draws outcome(const Generator& g, const std::function<Draws(const Tensor&)>& run) {
  const Tensor t = linspace(-1, 1, 24, f32).view({4, 6}).requires_grad_();
  Draws all = run(t);
  Tensor sum = (t * 0).sum();
  for (const Tensor& result : all)
    if (result.requires_grad()) sum = sum + (result * result).sum();
  sum.backward();
  for (Tensor& result : all) result = result.detach();
  all.push_back(t.grad());
  all.push_back(g.get_state());
  all.push_back(get_rng_state());
  return all;
}

TEST(Generator, CompiledProgramsGiveEagersBitsWhateverIsSaved) {
  for (const ProgramRow& row : kPrograms)
    for (const char* partition : {"default", "save-all", "recompute-all"}) {
      const Generator eager(5), captured(5), argument(5);
      const auto with_capture =
          compile([&](const Tensor& t) { return row.run(captured, t); }, {.partition = partition});
      const auto with_argument =
          compile([&](const Generator& g, const Tensor& t) { return row.run(g, t); },
                  {.partition = partition});
      manual_seed(8);
      for (int call = 0; call < 3; ++call) {
        const std::string what = std::string(row.name) + ", " + partition;
        const Tensor process = get_rng_state();
        const Draws expected = outcome(eager, [&](const Tensor& t) { return row.run(eager, t); });
        set_rng_state(process);
        expect_equal(expected, outcome(captured, with_capture), what + ", captured");
        set_rng_state(process);
        expect_equal(expected,
                     outcome(argument, [&](const Tensor& t) { return with_argument(argument, t); }),
                     what + ", argument");
      }
    }
}

TEST(Generator, TheProcesssMayBeAnArgument) {
  const auto fn = compile([](const Generator& g, const Tensor& t) { return noisy(g, t); });
  const Tensor t = x();
  manual_seed(3);
  const Tensor expected = noisy(default_generator(), t);
  manual_seed(3);
  EXPECT_TRUE(equal(expected, fn(default_generator(), t)));
  EXPECT_TRUE(equal(expected, fn(Generator(3), t)));
}

TEST(Generator, MadeInATraceItEndsWithIt) {
  Generator kept;
  const auto fn = compile([&](const Tensor& t) {
    kept = Generator(4);
    return noisy(kept, t);
  });
  fn(ones({2}));
  expect_error(Errc::Trace, "used after its trace", [&] { rand({2}, kept); });
  expect_error(Errc::Trace, "used after its trace", [&] { kept.get_state(); });
  expect_error(Errc::Trace, "used after its trace", [&] { kept.manual_seed(1); });
}

TEST(Generator, InsideATraceTheProcesssStateIsNotKnown) {
  const auto refuses = [](auto run) {
    const auto fn = compile([&](const Tensor& t) {
      run();
      return t * 2;
    });
    expect_error(Errc::Trace, "inside a trace", [&] { fn(ones({2})); });
  };
  refuses([] { manual_seed(3); });
  refuses([] { seed(); });
  refuses([] { get_rng_state(); });
  refuses([] { set_rng_state(zeros({2}, i64)); });
  refuses([] { initial_seed(); });
  const Generator g;
  refuses([&] { g.seed(); });
  refuses([&] { g.initial_seed(); });
}

}  // namespace
}  // namespace tandem::testing
