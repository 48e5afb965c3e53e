// Views made under NoGrad, which require grad as their base does but have no history: eagerly as in
// PyTorch, and as inputs of compiled functions.
#include "tests/e2e/contract.h"
#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

Tensor no_grad_view(const Tensor& base) {
  const NoGrad guard;
  return base.view({2, 2});
}

// (What PyTorch 2.13 says of each; but it refuses is_leaf after a write of the base, too.)
TEST(NoGradViews, RequireGradAsTheirBaseDoesButHaveNoHistory) {
  for (bool leaf : {true, false}) {
    SCOPED_TRACE(leaf ? "of a leaf" : "of a computed tensor");
    const Tensor x = ones({4}).requires_grad_(), base = leaf ? x : x * 1;
    const Tensor v = no_grad_view(base), u = v.t();
    EXPECT_TRUE(v.requires_grad() && v.is_leaf());
    EXPECT_TRUE(u.requires_grad() && !u.is_leaf());
    EXPECT_FALSE(v.detach().requires_grad());
    const Tensor y = (v * 2).sum();
    EXPECT_TRUE(y.requires_grad() && !y.is_leaf());
    for (const Tensor& input : {v, x}) {
      EXPECT_FALSE(grad({y}, {input}, {.retain_graph = true, .allow_unused = true})[0].defined());
      expect_error(Errc::Autograd, "was not used to compute",
                   [&] { grad({y}, {input}, {.retain_graph = true}); });
    }
    y.backward();
    EXPECT_FALSE(v.grad().defined() || x.grad().defined());
    expect_error(Errc::Autograd, "does not require grad", [&] { v.backward(ones({2, 2})); });
    for (const Tensor& t : {v, u})
      expect_error(Errc::Autograd, "a view made under NoGrad is written", [&] { t.mul_(2); });
    EXPECT_TRUE(v.requires_grad_(false).requires_grad());
  }
  const Tensor x = ones({4}), v = no_grad_view(x);
  EXPECT_FALSE(v.requires_grad());
  x.requires_grad_();
  EXPECT_TRUE(v.requires_grad() && (v * 2).requires_grad());
}

/// A view under NoGrad of a tensor, another tensor, and (`beside_base`) the first tensor itself.
MakeInputs no_grad_view_input(bool beside_base = false) {
  return [=](Source& source) {
    const Tensor base = source.noise({4}, 1);
    Tensors inputs{no_grad_view(base), source.noise({2, 2}, 2)};
    if (beside_base) inputs.push_back(base);
    return inputs;
  };
}

const std::vector<Row> kNoGradViewInputs{
    {"Used", no_grad_view_input(), [](const Tensors& in) -> Tensors { return {in[0] * in[1]}; }},
    {"UsedAlone", no_grad_view_input(), [](const Tensors& in) -> Tensors { return {exp(in[0])}; }},
    {"UsedBesideItsBase", no_grad_view_input(true),
     [](const Tensors& in) -> Tensors { return {in[0] * in[2].view({2, 2}), in[0]}; }},
    {"Returned", no_grad_view_input(),
     [](const Tensors& in) -> Tensors { return {in[0], in[0].t(), in[0].detach()}; }},
    {"Written", no_grad_view_input(),
     [](const Tensors& in) -> Tensors { return {in[0].mul_(in[1])}; }},
    {"WrittenUnderNoGrad", no_grad_view_input(),
     [](const Tensors& in) -> Tensors {
       const NoGrad guard;
       return {in[0].mul_(in[1]), in[0].t()};
     }},
    {"UsedThenWrittenUnderNoGrad", no_grad_view_input(),  // a second call is refused
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * in[1];
       const NoGrad guard;
       in[0].mul_(2);
       return {y};
     }},
    {"UsedThenItsBaseWritten", no_grad_view_input(true),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * in[1];
       const NoGrad guard;
       in[2].mul_(2);
       return {y, in[2].slice(0, 1, 3)};
     }},
    {"ViewedUnderNoGradAfterAWrite", no_grad_view_input(true),
     [](const Tensors& in) -> Tensors {
       const NoGrad guard;
       in[2].mul_(2);
       return {in[0].t(), in[0].chunk(2)[1]};
     }},
};
TANDEM_CONTRACT(NoGradViewInputs, kNoGradViewInputs);

}  // namespace
}  // namespace tandem::testing
