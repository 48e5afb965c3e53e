// Writes of tensors without elements change no data, but what they write is part of the history, as
// in eager: it gets a gradient, and what is written requires grad.
#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

const Row kRows[] = {
    {"AddToAResult", tensors({{0, 5}, {0, 5}}),
     [](const Tensors& in) -> Tensors { return {(in[0] * 2).add_(in[1])}; }},
    {"AddABroadcastRow", tensors({{0, 5}, {5}}),
     [](const Tensors& in) -> Tensors { return {(in[0] * 2).mul_(in[1])}; }},
    {"AddToAConstant", tensors({{0, 5}}),
     [](const Tensors& in) -> Tensors { return {zeros({0, 5}).add_(in[0])}; }},
    {"CopyOver", tensors({{0, 5}, {0, 5}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2;
       y.copy_(in[1]);
       return {y, y.sum({0})};
     }},
    {"CopyToAColumn", tensors({{0, 5}, {0, 5}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2;
       y.select(1, 0).copy_(in[1].select(1, 3));
       return {y, y.t()};
     }},
    {"CopyToNoRows", tensors({{4, 5}, {0, 5}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2;
       y.slice(0, 2, 2).copy_(in[1]);
       return {y, y.slice(0, 1)};
     }},
    {"CopyToNoRowsOfAConstant", tensors({{0, 5}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = ones({4, 5});
       y.slice(0, 4).copy_(in[0]);
       return {y};
     }},
    {"ThroughAnExpandedView", tensors({{1, 5}, {0, 5}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2;
       y.expand({0, 5}).add_(in[1]);
       return {y};
     }},
    {"UnderNoGrad", tensors({{0, 5}, {0, 5}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2;
       const NoGrad no_grad;
       y.add_(in[1]);
       return {y};
     }},
    {"ToAnInput", tensors({{0, 5}, {0, 5}}),
     [](const Tensors& in) -> Tensors {
       in[0].slice(1, 1, 3).mul_(in[1].slice(1, 0, 2));
       return {in[0] + 1};
     }},
    {"FillAfterCopy", tensors({{0, 5}, {0, 5}}),
     [](const Tensors& in) -> Tensors { return {(in[0] * 2).copy_(in[1]).fill_(1)}; }},
};

TANDEM_CONTRACT(EmptyWrites, kRows);

TEST(EmptyWrites, GiveAGradientToWhatIsWritten) {
  const auto sum_of = compile([](const Tensor& x, const Tensor& y) {
    const Tensor both = x * 2;
    both.add_(y);
    both.select(1, 0).copy_(y.select(1, 1));
    return both.sum();
  });
  for (const int64_t rows : {0, 3}) {
    const Tensor x = ones({rows, 5}).requires_grad_(), y = ones({rows, 5}).requires_grad_();
    sum_of(x, y).backward();
    ASSERT_TRUE(x.grad().defined() && y.grad().defined()) << rows << " rows";
    EXPECT_EQ(y.grad().sizes(), y.sizes());
  }
}

}  // namespace
}  // namespace tandem::testing
