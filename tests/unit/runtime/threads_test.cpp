// Compiled functions and threads: the number of threads changes no bit, many threads compile and
// call, and a fork in the middle of it leaves a child that works. TANDEM_LONG_TESTS=1 runs the long
// forms.
#include "tests/support/threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tandem/tandem.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace tandem {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;

bool long_form() {
  const char* value = std::getenv("TANDEM_LONG_TESTS");
  return value && *value == '1';
}

struct Case {
  const char* name;
  std::function<Tensors()> inputs;
  Function function;
};

Tensor normal(const Shape& sizes) { return randn(sizes); }

// Large enough to be split, of sizes that no block divides.
const Case kCases[] = {
    {"chain", [] { return Tensors{normal({517, 301})}; },
     [](const Tensors& t) { return tanh(cos(t[0]) * exp(t[0])); }},
    {"sums", [] { return Tensors{normal({1031, 307})}; },
     [](const Tensors& t) {
       return sum(t[0], {0}) * 0.5 + sum(t[0] * t[0]) + sum(t[0], {1}).slice(0, 0, 307);
     }},
    {"softmax", [] { return Tensors{normal({211, 1009})}; },
     [](const Tensors& t) { return softmax(t[0], 1) + log_softmax(t[0], 0); }},
    {"layer norm", [] { return Tensors{normal({409, 263}), normal({263}), normal({263})}; },
     [](const Tensors& t) { return layer_norm(t[0], {263}, t[1], t[2], 1e-5); }},
    {"cross entropy", [] { return Tensors{normal({199, 1021}), randint(0, 1021, {199})}; },
     [](const Tensors& t) { return cross_entropy(t[0], t[1]); }},
    {"embedding", [] { return Tensors{normal({67, 129}), randint(0, 67, {1201})}; },
     [](const Tensors& t) { return embedding(t[0], t[1]) * 3.0; }},
    {"products", [] { return Tensors{normal({257, 131}), normal({131, 203})}; },
     [](const Tensors& t) { return relu(matmul(t[0], t[1])); }},
    {"dropout", [] { return Tensors{normal({333, 333})}; },
     [](const Tensors& t) { return dropout(t[0], 0.3); }},
};

/// The bytes of the result and of every gradient.
std::vector<std::vector<char>> bits_of(const Case& c, const Tensors& inputs, int threads) {
  testing::Threads::set(threads);
  manual_seed(7);
  const auto compiled = compile(c.function);
  for (const Tensor& t : inputs)
    if (t.requires_grad()) t.set_grad({});
  const Tensor out = compiled(inputs);
  sum(out * out).backward();
  Tensors all{out.detach()};
  for (const Tensor& t : inputs)
    if (t.requires_grad()) all.push_back(t.grad());
  std::vector<std::vector<char>> bytes;
  for (const Tensor& t : all) {
    const Tensor flat = t.contiguous();
    const char* data = reinterpret_cast<const char*>(flat.data<float>());
    bytes.emplace_back(data, data + int64_t{flat.numel()} * 4);
  }
  return bytes;
}

TEST(Threads, TheirNumberChangesNoBit) {
  const testing::Threads restored(1);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    manual_seed(3);
    Tensors inputs = c.inputs();
    for (Tensor& t : inputs)
      if (t.dtype() == f32) t.requires_grad_();
    const auto expected = bits_of(c, inputs, 1);
    for (const int threads : {2, 3, 8}) EXPECT_EQ(bits_of(c, inputs, threads), expected) << threads;
  }
}

TEST(Threads, EightCompileAndCall) {
  const int calls = long_form() ? 10000 / 8 : 40;
  const auto shared = compile([](const Tensor& a, const Tensor& b) { return sum(tanh(a) * b); });
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int n = 0; n < 8; ++n)
    threads.emplace_back([&, n] {
      const auto own = compile([n](const Tensor& a) { return sum(a * double(n + 1)); });
      for (int i = 0; i < calls; ++i) {
        // Some calls find what another thread compiled, some compile a size of their own.
        const Tensor a = ones({i % 4 + 1, 40 + n % 2});
        a.requires_grad_();
        Tensor loss = shared(a, a.detach()) + own(a);
        loss.backward();
        const double each = std::tanh(1.0) + n + 1;
        wrong += std::abs(loss.item() - each * double(a.numel())) > 1e-3 * double(a.numel());
        wrong += !a.grad().defined();
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, ACallThatTheTraceWaitsForIsAnError) {
  std::atomic<int> inner_calls{0};
  Errc code{};
  std::string message;
  std::function<Tensor(const Tensor&)> again;
  const auto f = compile(
      [&](const Tensor& a) {
        if (++inner_calls == 1)
          std::thread([&] {
            try {
              again(ones({3}));
            } catch (const Error& e) {
              code = e.code();
              message = e.what();
            }
          }).join();
        return a * 2.0;
      },
      {.name = "f"});
  again = [&f](const Tensor& a) { return f(a); };
  EXPECT_EQ(f(ones({3})).sum().item(), 6);
  EXPECT_EQ(code, Errc::Trace);
  EXPECT_NE(message.find("f: called while another thread traces it"), std::string::npos) << message;
  EXPECT_EQ(again(ones({3})).sum().item(), 6);
}

TEST(Threads, OthersWaitForALongTrace) {
  std::atomic<bool> first{true};
  const auto f = compile([&](const Tensor& a) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
    while (first && std::chrono::steady_clock::now() < end) {
    }
    first = false;
    return a * 2.0;
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] { EXPECT_EQ(f(ones({3})).sum().item(), 6); });
  for (std::thread& t : threads) t.join();
}

// The sanitizers' own end of a process looks at what threads that still run refer to.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
/// Ends the process `wait` after four detached threads have begun to call what they compiled, with
/// library calls and kernels in both halves.
[[noreturn]] void exit_beside_callers(std::chrono::milliseconds wait) {
  static std::atomic<int> begun{0};
  for (int t = 0; t < 4; ++t)
    std::thread([t] {
      const auto f = compile([](const Tensor& x, const Tensor& w) {
        return sum(relu(matmul(x, w)) * sin(x) + matmul(x, w.t()));
      });
      const Tensor x = ones({64 + 8 * t, 96}), w = ones({96, 96}).requires_grad_();
      for (int i = 0;; ++i) {
        w.set_grad({});
        f(x, w).backward();
        if (i == 0) ++begun;
      }
    }).detach();
  while (begun < 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(wait);
  std::exit(0);
}

/// Everything that has state of its own in a thread or a library: code generation, products,
/// levels, conversions.
bool works() {
  const Tensor x = ones({200, 200}).requires_grad_();
  const auto f = compile([](const Tensor& a) { return sum(matmul(a, a) * 0.5); });
  const auto moved = [](const Tensor& a) {
    return jvp([](auto& b) { return b * b; }, a, a).tangent;
  };
  const double examples = vmap(moved)(ones({4, 3})).sum().item();
  (f(x) + sum(softmax(x, -1))).backward();
  const Autocast autocast(bf16);
  return examples == 24 && matmul(x, x).dtype() == bf16 && x.grad().sum().item() == 200.0 * 40000;
}

/// By the destructors of objects that were there before anything was compiled.
struct WorksWhenItEnds {
  bool is_on = false;
  ~WorksWhenItEnds() {
    if (is_on && !works()) ::_exit(1);
  }
};
WorksWhenItEnds g_works;
thread_local WorksWhenItEnds t_works;

[[noreturn]] void exit_into_destructors(bool beside_another) {
  g_works.is_on = t_works.is_on = true;
  std::thread([] { t_works.is_on = works(); }).join();
  if (beside_another) {
    std::thread([] {
      for (int i = 0;; ++i) compile([i](const Tensor& x) { return sum(x * i); })(ones({3}));
    }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::exit(works() ? 0 : 1);
}

TEST(ThreadsDeathTest, DestructorsOfStaticObjectsCompile) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const bool beside_another : {false, true, false, true})
    EXPECT_EXIT(exit_into_destructors(beside_another), ::testing::ExitedWithCode(0), "");
}

TEST(ThreadsDeathTest, ExitWhileDetachedThreadsCall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int times = long_form() ? 200 : 12;
  for (int i = 0; i < times; ++i)
    EXPECT_EXIT(exit_beside_callers(std::chrono::milliseconds(i % 12)),
                ::testing::ExitedWithCode(0), "")
        << i;
}
#endif

// Of g++ 12's sanitizers neither follows a fork of a process with threads: the one for addresses
// may leave its own allocator locked in the child.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST(Threads, ForksWhileOthersCall) {
  const int forks = long_form() ? 200 : 10;
  const auto f = compile([](const Tensor& a) { return sum(cos(a) + matmul(a, a)); });
  const Tensor a = ones({200, 200});
  const double expected = f(a).item();
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int n = 0; n < 2; ++n)
    callers.emplace_back([&] {
      while (!stop) f(a);
    });
  int good = 0;
  for (int i = 0; i < forks; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);  // a child that hangs is killed
      const auto fresh = compile([](const Tensor& x) { return sum(x * 2.0); });
      const bool same = f(a).item() == expected && fresh(a).item() == 80000.0;
      ::_exit(same ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  stop = true;
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(good, forks);
}
#endif

}  // namespace
}  // namespace tandem
