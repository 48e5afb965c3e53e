// What a compiled function keeps between forward and backward: writes to it are noticed, it is
// freed in time, and a backward that needs only a part of it computes only that part.
#include <gtest/gtest.h>
#include <tandem/graph.h>

#include <mutex>
#include <thread>

#include "machine/memory/allocator.h"
#include "runtime/backends/backends.h"
#include "runtime/tensor/tensor_impl.h"
#include "tests/support/check_compiled.h"
#include "tests/support/graph_testing.h"

namespace tandem::testing {
namespace {

CompileOptions with_partition(const char* name) {
  CompileOptions options;
  options.name = "f";
  options.partition = name;
  return options;
}

/// The Error of `run`, or "" if it passes; its code in `code`.
template <class F>
std::string error_of(F run, Errc expected) {
  try {
    run();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), expected) << e.what();
    return e.what();
  }
  return "";
}

Tensor leaf(const Shape& sizes, uint64_t seed) { return noise(sizes, seed).requires_grad_(); }

// --- versions

TEST(SavedTensors, AChangedInputIsNamed) {
  const auto f = compile([](const Tensor& x, const Tensor& w) { return sum(x * w); },
                         with_partition("default"));
  const Tensor x = noise({5}, 1), w = leaf({5}, 2);
  const Tensor loss = f(x, w);
  x.add_(1);
  const std::string error = error_of([&] { loss.backward(); }, Errc::Version);
  EXPECT_NE(error.find("input x0 of compiled f"), std::string::npos) << error;
  EXPECT_NE(error.find("save-all"), std::string::npos) << error;
  EXPECT_FALSE(w.grad().defined());
}

TEST(SavedTensors, AChangeThroughAViewOrTheBaseIsNoticed) {
  const auto f = compile([](const Tensor& x, const Tensor& w) { return sum(x * w); });
  const Tensor w = leaf({5}, 2), base = noise({2, 5}, 1);
  for (const Tensor& written : {base, base.select(0, 1), base.select(0, 0).slice(0, 1, 3)}) {
    const Tensor loss = f(base.select(0, 1), w);
    written.mul_(2);
    EXPECT_NE(error_of([&] { loss.backward(); }, Errc::Version), "");
  }
}

TEST(SavedTensors, AChangeOfWhatBackwardDoesNotReadIsAllowed) {
  const auto f =
      compile([](const Tensor& x, const Tensor& w, const Tensor& b) { return sum(x * w + b); });
  const Tensor x = noise({5}, 1), w = leaf({5}, 2), b = leaf({5}, 3);
  const Tensor loss = f(x, w, b);
  {
    const NoGrad no_grad;
    w.add_(1);
    b.add_(1);
  }
  loss.backward();
  expect_close(x, w.grad(), 0, "w.grad");
}

TEST(SavedTensors, AResultThatEagerKeepsIsKeptAsItself) {
  const auto eager = [](const Tensor& x) { return softmax(x, 1); };
  const auto f = compile(eager, with_partition("save-all"));
  const Tensor x = leaf({64, 64}, 1), g = noise({64, 64}, 2);
  f(x).backward(g);
  const Tensor gradient = x.grad();
  const size_t before = machine::allocator_stats().live_bytes;
  {
    const Tensor y = f(x);
    EXPECT_EQ(machine::allocator_stats().live_bytes - before, 64 * 64 * sizeof(float));
    EXPECT_NE(to_text(f.graphs(x).partition).find("a result, kept as itself"), std::string::npos);
    expect_close(grad({y}, {x}, {.grad_outputs = {g}, .retain_graph = true})[0], gradient, 0,
                 "x.grad");
    const NoGrad no_grad;
    y.mul_(2);
    EXPECT_NE(error_of([&] { grad({y}, {x}, {.grad_outputs = {g}}); }, Errc::Version), "");
  }
  EXPECT_EQ(machine::allocator_stats().live_bytes, before);
  const Tensor y = eager(x);
  const NoGrad no_grad;
  y.mul_(2);
  EXPECT_NE(error_of([&] { grad({y}, {x}, {.grad_outputs = {g}}); }, Errc::Version), "");
}

TEST(SavedTensors, AResultThatEagerDoesNotKeepMayBeWritten) {
  const auto eager = [](const Tensor& a, const Tensor& b, const Tensor& w) {
    const Tensor y = matmul(a, b);
    return std::pair(y, (y + 1) * w);
  };
  const Tensor a = noise({8, 8}, 1), b = noise({8, 8}, 2), g = noise({8, 8}, 3);
  const auto gradient_of = [&](const auto& f) {
    const Tensor w = leaf({8, 8}, 4);
    const auto [y, z] = f(a, b, w);
    y.mul_(2);
    z.backward(g);
    return w.grad();
  };
  for (const char* partition : {"default", "reference", "save-all"})
    expect_close(gradient_of(compile(eager, with_partition(partition))), gradient_of(eager), 1e-6,
                 "w.grad");
}

TEST(SavedTensors, AChangeOfWhatOnlyAnotherGradientReadsIsAllowed) {
  const auto f = compile([](const Tensor& x, const Tensor& w) { return sum(x * w); });
  const Tensor x = leaf({5}, 1), w = leaf({5}, 2);
  const Tensor loss = f(x, w);
  {
    const NoGrad no_grad;
    w.add_(1);
  }
  expect_close(x, grad({loss}, {w}, {.retain_graph = true})[0], 0, "d_w reads x only");
  EXPECT_NE(error_of([&] { grad({loss}, {x}); }, Errc::Version), "");
}

TEST(SavedTensors, SaveAllAcceptsWhatEagerAccepts) {
  const auto program = [](const Tensor& x) { return exp(x).sin(); };
  for (const char* partition : {"recompute-all", "save-all"}) {
    const auto f = compile(program, with_partition(partition));
    const Tensor x = leaf({7}, 1), eager = leaf({7}, 1);
    const Tensor y = f(x), expected = program(eager);
    {
      const NoGrad no_grad;
      x.add_(1);
      eager.add_(1);
    }
    expected.sum().backward();
    const std::string error = error_of([&] { y.sum().backward(); }, Errc::Version);
    if (partition == std::string("recompute-all")) {
      EXPECT_NE(error.find("input x of"), std::string::npos) << error;
      EXPECT_FALSE(x.grad().defined());
    } else {
      EXPECT_EQ(error, "");
      expect_close(eager.grad(), x.grad(), 1e-6, "x.grad");
    }
  }
}

TEST(SavedTensors, BackwardAfterAnOptimizerStep) {
  const auto program = [](const Tensor& x, const Tensor& w) { return relu(matmul(x, w)).exp(); };
  const auto f = compile(program, with_partition("save-all"));
  const Tensor x = noise({3, 4}, 1), w = leaf({4, 2}, 2), eager = leaf({4, 2}, 2);
  optim::SGD opt({w}, {.lr = 0.5}), eager_opt({eager}, {.lr = 0.5});
  const auto two_losses = [&](const auto& function, const Tensor& parameter,
                              optim::SGD& optimizer) {
    const Tensor first = function(x, parameter).sum(), second = function(x, parameter).mean();
    first.backward();
    optimizer.step();
    optimizer.zero_grad();
    second.backward();
  };
  two_losses(program, eager, eager_opt);
  two_losses(f, w, opt);
  expect_close(eager, w, 1e-5, "w");
  expect_close(eager.grad(), w.grad(), 1e-5, "w.grad");
}

// --- lifetimes

TEST(SavedTensors, RetainGraphAndTwoForwardsBeforeTwoBackwards) {
  const auto f = compile([](const Tensor& x) { return sum(exp(x) * x); });
  for (bool in_order : {true, false}) {
    const Tensor a = leaf({4}, 1), b = leaf({4}, 2), ea = leaf({4}, 1), eb = leaf({4}, 2);
    const Tensor ya = f(a), yb = f(b);
    (in_order ? ya : yb).backward({}, true);
    (in_order ? yb : ya).backward();
    if (in_order) ya.backward();
    sum(exp(ea) * ea).backward();
    if (in_order) sum(exp(ea) * ea).backward();
    sum(exp(eb) * eb).backward();
    expect_close(ea.grad(), a.grad(), 1e-5, "a.grad");
    expect_close(eb.grad(), b.grad(), 1e-5, "b.grad");
  }
}

TEST(SavedTensors, ASecondBackwardIsRefusedAsEagerDoes) {
  const auto program = [](const Tensor& x) { return sum(exp(x) * x); };
  const auto f = compile(program);
  const Tensor x = leaf({4}, 1), eager = leaf({4}, 1);
  const Tensor y = f(x), expected = program(eager);
  y.backward();
  expected.backward();
  const std::string error = error_of([&] { y.backward(); }, Errc::Autograd);
  EXPECT_NE(error.find("the graph was freed by an earlier backward"), std::string::npos) << error;
  EXPECT_NE(error_of([&] { expected.backward(); }, Errc::Autograd).find("the graph was freed"),
            std::string::npos);
}

TEST(SavedTensors, AreFreedByTheBackwardThatUsesThem) {
  const auto f = compile([](const Tensor& x, const Tensor& w) { return sum(x * w); });
  for (bool retain : {false, true}) {
    Tensor x = noise({5}, 1);
    const Tensor w = leaf({5}, 2);
    const std::weak_ptr<runtime::Storage> memory = x.impl()->storage;
    const Tensor loss = f(x, w);
    x = Tensor();
    EXPECT_FALSE(memory.expired());
    loss.backward({}, retain);
    EXPECT_EQ(memory.expired(), !retain);
  }
}

TEST(SavedTensors, TangentsMayHaveAnyLayout) {
  const auto program = [](const Tensor& x) { return exp(x).transpose(0, 1) * 2; };
  const auto f = compile(program);
  const Tensor x = leaf({3, 4}, 1), eager = leaf({3, 4}, 1), tangent = noise({4, 3}, 2);
  for (const Tensor& g : {tangent, noise({3, 4}, 3).transpose(0, 1), noise({1}, 4).expand({4, 3}),
                          noise({8, 3}, 5).slice(0, 0, 8, 2)}) {
    f(x).backward(g);
    program(eager).backward(g);
  }
  expect_close(eager.grad(), x.grad(), 1e-5, "x.grad");
}

// --- parts of a backward

/// The interpreter, remembering the graphs that it was given.
class Recorder final : public Backend {
 public:
  std::string name() const override { return "recorder"; }
  std::unique_ptr<Executable> compile(const Graph& graph) const override {
    const std::lock_guard lock(mutex_);
    graphs_.push_back(graph);
    return runtime::interpreter_backend()->compile(graph);
  }
  std::vector<Graph> graphs() const {
    const std::lock_guard lock(mutex_);
    return graphs_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::vector<Graph> graphs_;
};

Tensors three_sines(const Tensor& x, const Tensor& y, const Tensor& z) {
  return {sin(x), sin(y), sin(z)};
}

TEST(UndefinedTangents, OneOfThreeSinesComputesOneCosine) {
  const auto recorder = std::make_shared<Recorder>();
  CompileOptions options;
  options.backward_backend = recorder;
  const auto f = compile(&three_sines, options);
  const Tensor x = leaf({5}, 1), y = leaf({5}, 2), z = leaf({5}, 3);
  f(x, y, z)[1].sum().backward();
  ASSERT_EQ(recorder->graphs().size(), 1u);
  const Graph backward = recorder->graphs()[0];
  EXPECT_EQ(graph_testing::count(backward, ir::Op::cos), 1);
  EXPECT_EQ(backward.inputs().size(), 2u);  // what was saved of y, and its tangent
  EXPECT_FALSE(x.grad().defined());
  expect_close(cos(y.detach()), y.grad(), 1e-6, "y.grad");
  EXPECT_FALSE(z.grad().defined());
  f(x, y, z)[1].sum().backward();
  EXPECT_EQ(recorder->graphs().size(), 1u);  // the form is kept
  const Tensors all = f(x, y, z);
  (all[0] + all[1] + all[2]).sum().backward();
  ASSERT_EQ(recorder->graphs().size(), 2u);
  EXPECT_EQ(graph_testing::count(recorder->graphs()[1], ir::Op::cos), 3);
}

TEST(UndefinedTangents, UnwantedGradientsAreNotComputed) {
  const auto recorder = std::make_shared<Recorder>();
  CompileOptions options;
  options.backward_backend = recorder;
  const auto f = compile([](const Tensor& x, const Tensor& w) { return matmul(x, w); }, options);
  const Tensor x = leaf({12, 12}, 1), w = leaf({12, 12}, 2);
  grad({f(x, w).sum()}, {w});
  EXPECT_EQ(graph_testing::count(recorder->graphs()[0], ir::Op::mm), 1);
}

TEST(UndefinedTangents, SumsLoseTheirZeroTerms) {
  const auto program = [](const Tensor& x, const Tensor& y) -> Tensors {
    const Tensor h = exp(x * y);
    return {h * 3, h.sin() - x, cat({h, y}, 0), matmul(h, y)};
  };
  const auto f = compile(program);
  for (int mask = 1; mask < 16; ++mask) {
    const Tensor x = leaf({3, 3}, 1), y = leaf({3, 3}, 2), ex = leaf({3, 3}, 1),
                 ey = leaf({3, 3}, 2);
    const auto total = [&](const Tensors& results) {
      Tensor sum_of = zeros({});
      for (int i = 0; i < 4; ++i)
        if (mask >> i & 1) sum_of = sum_of + results[static_cast<size_t>(i)].sum() * (i + 1);
      return sum_of;
    };
    total(f(x, y)).backward();
    total(program(ex, ey)).backward();
    ASSERT_EQ(ex.grad().defined(), x.grad().defined());
    ASSERT_EQ(ey.grad().defined(), y.grad().defined());
    expect_close(ex.grad(), x.grad(), 1e-5, "x.grad");
    if (ey.grad().defined()) expect_close(ey.grad(), y.grad(), 1e-5, "y.grad");
  }
}

TEST(UndefinedTangents, FormsAreMadeOnceByAnyNumberOfThreads) {
  const auto recorder = std::make_shared<Recorder>();
  CompileOptions options;
  options.backward_backend = recorder;
  const auto f = compile(&three_sines, options);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const Tensor x = leaf({5}, 1), y = leaf({5}, 2), z = leaf({5}, 3);
        const Tensor in[] = {x, y, z};
        f(x, y, z)[t % 3].sum().backward();
        expect_close(cos(in[t % 3].detach()), in[t % 3].grad(), 1e-6, "grad");
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(recorder->graphs().size(), 3u);
}

}  // namespace
}  // namespace tandem::testing
