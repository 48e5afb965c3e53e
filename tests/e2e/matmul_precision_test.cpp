// The precision of f32 products: where it is set, what is compiled for it, what gradients take.
#include <gtest/gtest.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <thread>

#include "machine/cpu.h"
#include "tests/support/check_compiled.h"

namespace tandem::testing {
namespace {

using enum MatmulPrecision;

/// Whether the precisions differ here.
bool splits() { return machine::cpu_features().amx_bf16; }

bool same_bits(const Tensor& a, const Tensor& b) { return all(a == b).item<bool>(); }

Tensor product(const Tensor& x, const Tensor& y) { return matmul(x, y); }

Tensor at(MatmulPrecision precision, const Tensor& x, const Tensor& y) {
  const MatmulPrecisionScope scope(precision);
  return product(x, y);
}

const Shape kSizes = {192, 160};

TEST(MatmulPrecision, IsTheScopesOrTheProcesss) {
  EXPECT_EQ(float32_matmul_precision(), Highest);
  set_float32_matmul_precision(High);
  EXPECT_EQ(float32_matmul_precision(), High);
  {
    const MatmulPrecisionScope outer(Medium);
    EXPECT_EQ(float32_matmul_precision(), Medium);
    {
      const MatmulPrecisionScope inner(Highest);
      EXPECT_EQ(float32_matmul_precision(), Highest);
    }
    EXPECT_EQ(float32_matmul_precision(), Medium);
    std::thread([] { EXPECT_EQ(float32_matmul_precision(), High); }).join();
  }
  EXPECT_EQ(float32_matmul_precision(), High);
  set_float32_matmul_precision(Highest);
}

TEST(MatmulPrecision, ChangesBitsWhereNumbersAreSplit) {
  const Tensor x = noise(kSizes, 1), y = noise(kSizes, 2).t();
  const Tensor highest = at(Highest, x, y), high = at(High, x, y), medium = at(Medium, x, y);
  EXPECT_EQ(same_bits(highest, high), !splits());
  EXPECT_EQ(same_bits(highest, medium), !splits());
  expect_close(highest, high, 1e-6, "high");
  expect_close(highest, medium, 3e-5, "medium");
}

TEST(MatmulPrecision, EagerAndCompiledAgree) {
  const auto program = [](const Tensors& t) -> Tensors {
    return {relu(linear(t[0], t[1], t[2])).matmul(t[3]) + addmm(t[2].slice(0, 0, 64), t[0], t[3])};
  };
  const auto inputs = [] {
    return Tensors{noise({128, 160}, 1), noise({160, 160}, 2), noise({160}, 3),
                   noise({160, 64}, 4)};
  };
  for (const MatmulPrecision precision : {Highest, High, Medium}) {
    const MatmulPrecisionScope scope(precision);
    check_compiled(program, inputs, {.tolerance = precision == Medium ? 1e-4 : 1e-5});
  }
}

size_t variants_of(const std::string& name) {
  return static_cast<size_t>(std::ranges::count_if(
      compiled_graphs(), [&](const CompiledGraphs* g) { return g->functional.name == name; }));
}

TEST(MatmulPrecision, IsGuarded) {
  const auto compiled = compile(product, {.name = "guarded_precision"});
  const Tensor x = noise(kSizes, 1), y = noise(kSizes, 2).t();
  const Tensor first = compiled(x, y);
  EXPECT_EQ(variants_of("guarded_precision"), 1u);
  const auto call = [&](MatmulPrecision precision) {
    const MatmulPrecisionScope scope(precision);
    return compiled(x, y);
  };
  EXPECT_EQ(same_bits(call(High), first), !splits());
  EXPECT_EQ(variants_of("guarded_precision"), 2u);
  EXPECT_EQ(same_bits(call(Medium), first), !splits());
  EXPECT_TRUE(same_bits(call(Highest), first));
  call(High), call(Medium);
  EXPECT_EQ(variants_of("guarded_precision"), 3u);
}

/// The gradients of x and y, of a product at `forward`; backward runs at `backward`, by a thread of
/// its own if `elsewhere`.
template <class Fn>
Tensors gradients(const Fn& fn, MatmulPrecision forward, MatmulPrecision backward,
                  bool elsewhere = false) {
  const Tensor x = noise(kSizes, 1).requires_grad_(), y = noise({160, 144}, 2).requires_grad_();
  Tensor out;
  {
    const MatmulPrecisionScope scope(forward);
    out = fn(x, y);
  }
  const auto run = [&] {
    const MatmulPrecisionScope scope(backward);
    out.backward(noise({192, 144}, 3));
  };
  elsewhere ? std::thread(run).join() : run();
  return {x.grad(), y.grad()};
}

template <class Fn>
void check_gradients(const Fn& fn) {
  const Tensors highest = gradients(fn, Highest, Highest), high = gradients(fn, High, High);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(same_bits(highest[i], high[i]), !splits());
    EXPECT_TRUE(same_bits(gradients(fn, High, Highest)[i], high[i]));
    EXPECT_TRUE(same_bits(gradients(fn, High, Medium, true)[i], high[i]));
    EXPECT_TRUE(same_bits(gradients(fn, Highest, Medium)[i], highest[i]));
  }
}

TEST(MatmulPrecision, GradientsTakeThatOfTheirOperation) {
  check_gradients(product);
  check_gradients([](const Tensor& x, const Tensor& y) { return linear(x, y.t()); });
  check_gradients(compile(product));
}

MatmulPrecision seen_by_backward = Highest;

struct Observed : Function<Observed> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x * 2.0; }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) {
    seen_by_backward = float32_matmul_precision();
    return {grads[0] * 2.0};
  }
};

TEST(MatmulPrecision, BackwardsOfTheUsersOwnRunAtThatOfTheirForward) {
  const Tensor x = noise({4}, 1).requires_grad_();
  Tensor out;
  {
    const MatmulPrecisionScope scope(Medium);
    out = Observed::apply(x);
  }
  sum(out).backward();
  EXPECT_EQ(seen_by_backward, Medium);
  EXPECT_EQ(float32_matmul_precision(), Highest);
}

/// Also where backward is itself differentiated.
TEST(MatmulPrecision, SecondGradientsToo) {
  const auto second = [](const auto& fn, MatmulPrecision later) {
    const Tensor x = noise(kSizes, 1).requires_grad_(), y = noise({160, 144}, 2).requires_grad_();
    Tensor out;
    {
      const MatmulPrecisionScope scope(High);
      out = fn(x, y);
    }
    const MatmulPrecisionScope scope(later);
    const Tensor g = grad({sum(out * out)}, {x}, {.create_graph = true})[0];
    return grad({sum(g * g)}, {y})[0];
  };
  const auto compiled = compile(product);
  EXPECT_TRUE(same_bits(second(product, Highest), second(product, High)));
  EXPECT_TRUE(same_bits(second(compiled, Highest), second(compiled, High)));
}

}  // namespace
}  // namespace tandem::testing
