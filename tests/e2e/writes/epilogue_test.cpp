// What a compiled function leaves on its caller's tensors beside their data: versions, histories,
// the generator's state.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/check_compiled.h"

namespace tandem::testing {
namespace {

TEST(Epilogue, EveryWriteBumpsTheVersion) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        in[0].add_(1.0);
        in[0].slice(0, 1, 3).mul_(2.0);
        in[0].neg_();
        in[1].mul_(in[0]);
        return {in[0] + in[1]};
      },
      [] { return Tensors{noise({4}, 1), noise({4}, 2)}; });
}

/// The gradients of `x` and `w` through two tensors that fn writes.
template <class Fn>
Tensors gradients_through_writes(const Fn& fn) {
  const Tensor x = noise({3}, 1).requires_grad_(), w = noise({3}, 2).requires_grad_();
  const Tensor a = ones({3}), b = ones({3});
  fn(x, w, a, b);
  return grad({sum(a * 2.0) + sum(b * 5.0)}, {x, w});
}

TEST(Epilogue, EachWrittenInputHasItsOwnHistory) {
  const auto fn = [](const Tensor& x, const Tensor& w, const Tensor& a, const Tensor& b) {
    a.mul_(x);
    b.mul_(w * x);
  };
  const Tensors eager = gradients_through_writes(fn);
  const Tensors compiled = gradients_through_writes(compile(fn));
  expect_close(eager[0], compiled[0], 1e-6, "gradient of x");
  expect_close(eager[1], compiled[1], 1e-6, "gradient of w");
}

/// Calls that draw between others: each draws what it would have drawn eagerly.
TEST(Epilogue, TheGeneratorAdvancesAsEagerly) {
  const auto fn = [](const Tensor& x) { return dropout(x, 0.5, true) + rand({16}); };
  const auto compiled = compile(fn);
  const Tensor x = noise({16}, 1);
  const auto draw = [&](const auto& f) {
    manual_seed(7);
    Tensors drawn;
    for (int i = 0; i < 3; ++i) {
      drawn.push_back(f(x));
      drawn.push_back(rand({3}));
    }
    return drawn;
  };
  const Tensors eager = draw(fn), jit = draw(compiled);
  for (size_t i = 0; i < eager.size(); ++i)
    expect_close(eager[i], jit[i], 0, "draw " + std::to_string(i));
}

}  // namespace
}  // namespace tandem::testing
