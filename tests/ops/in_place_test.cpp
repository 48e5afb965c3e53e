// Every form that writes a tensor gives what its other form gives, and has its gradient: in eager
// mode on values that were computed and are written before the backward.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <functional>

#include "tests/support/check_compiled.h"
#include "tests/support/layouts.h"

namespace tandem::testing {
namespace {

struct Forms {
  const char* name;
  std::function<Tensor(const Tensor& x, const Tensor& y)> value;
  std::function<void(const Tensor& x, const Tensor& y)> write;
};

#define TANDEM_UNARY(op)                                      \
  {#op, [](const Tensor& x, const Tensor&) { return op(x); }, \
   [](const Tensor& x, const Tensor&) { x.op##_(); }},
#define TANDEM_BINARY(op)                                          \
  {#op, [](const Tensor& x, const Tensor& y) { return op(x, y); }, \
   [](const Tensor& x, const Tensor& y) { x.op##_(y); }},
#define TANDEM_NAMED_UNARY(name, op) TANDEM_UNARY(name)
#define TANDEM_NAMED_BINARY(name, op) TANDEM_BINARY(name)
#define TANDEM_CALL(call, writing)                                                                 \
  {#call, []([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& y) { return call; }, \
   []([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& y) { writing; }},

/// Positions, of which one comes twice.
Tensor places() { return tensor({2, 0, 3, 2}, i64); }
Tensor table() { return places() * ones({4, 1}, i64); }

// clang-format off
const Forms kForms[] = {
    TANDEM_UNARY_IN_PLACE_OPS(TANDEM_UNARY) TANDEM_BINARY_IN_PLACE_OPS(TANDEM_BINARY)
    TANDEM_MADE_UNARY_IN_PLACE(TANDEM_UNARY) TANDEM_MADE_BINARY_IN_PLACE(TANDEM_BINARY)
    TANDEM_UNARY_ALIASES(TANDEM_NAMED_UNARY) TANDEM_BINARY_ALIASES(TANDEM_NAMED_BINARY)
    TANDEM_UNARY(leaky_relu) TANDEM_UNARY(elu) TANDEM_UNARY(celu) TANDEM_UNARY(gelu)
    TANDEM_UNARY(hardtanh) TANDEM_UNARY(nan_to_num) TANDEM_UNARY(tril) TANDEM_UNARY(triu)
    TANDEM_BINARY(clamp_min) TANDEM_BINARY(clamp_max)
    TANDEM_CALL(clamp(x, 0.3, 0.6), x.clamp_(0.3, 0.6))
    TANDEM_CALL(clip(x, 0.3, 0.6), x.clip_(0.3, 0.6)) TANDEM_CALL(clamp(x, y, y), x.clamp_(y, y))
    TANDEM_CALL(clip(x, y), x.clip_(y)) TANDEM_CALL(add(x, y, 3), x.add_(y, 3))
    TANDEM_CALL(sub(x, y, 3), x.sub_(y, 3)) TANDEM_CALL(div(x, y, "floor"), x.div_(y, "floor"))
    TANDEM_CALL(divide(x, y, "trunc"), x.divide_(y, "trunc")) TANDEM_CALL(round(x, 1), x.round_(1))
    TANDEM_CALL(logit(x, 0.4), x.logit_(0.4)) TANDEM_CALL(polygamma(2, x), x.polygamma_(2))
    TANDEM_CALL(mvlgamma(x + 1, 2), x.add_(1).mvlgamma_(2)) TANDEM_CALL(rrelu(x), x.rrelu_())
    TANDEM_CALL(threshold(x, 0.5, 2), x.threshold_(0.5, 2))
    TANDEM_CALL(lerp(x, y, 0.3), x.lerp_(y, 0.3)) TANDEM_CALL(lerp(x, y, y), x.lerp_(y, y))
    TANDEM_CALL(addcmul(x, y, y), x.addcmul_(y, y)) TANDEM_CALL(addcdiv(x, y, y), x.addcdiv_(y, y))
    TANDEM_CALL(masked_fill(x, y > 0.5, 2), x.masked_fill_(y > 0.5, 2))
    TANDEM_CALL(addmm(x, y, y), x.addmm_(y, y))
    TANDEM_CALL(index_add(x, 1, places(), y), x.index_add_(1, places(), y))
    TANDEM_CALL(index_add(x, 0, places(), y, 0.5), x.index_add_(0, places(), y, 0.5))
    TANDEM_CALL(index_copy(x, 0, places(), y), x.index_copy_(0, places(), y))
    TANDEM_CALL(index_fill(x, 1, places(), 2), x.index_fill_(1, places(), 2))
    TANDEM_CALL(index_fill(x, 1, places(), y[0][1]), x.index_fill_(1, places(), y[0][1]))
    TANDEM_CALL(index_reduce(x, 1, places(), y, "prod"), x.index_reduce_(1, places(), y, "prod"))
    TANDEM_CALL(index_reduce(x, 0, places(), y, "amax", false),
                x.index_reduce_(0, places(), y, "amax", false))
    TANDEM_CALL(scatter(x, 1, table(), y), x.scatter_(1, table(), y))
    TANDEM_CALL(scatter(x, 0, table(), 2), x.scatter_(0, table(), 2))
    TANDEM_CALL(scatter(x, 0, table(), y, "multiply"), x.scatter_(0, table(), y, "multiply"))
    TANDEM_CALL(scatter_add(x, 0, table(), y), x.scatter_add_(0, table(), y))
    TANDEM_CALL(scatter_reduce(x, 1, table(), y, "amin"), x.scatter_reduce_(1, table(), y, "amin"))
    TANDEM_CALL(scatter_reduce(x, 1, table(), y, "mean"), x.scatter_reduce_(1, table(), y, "mean"))
    TANDEM_CALL(put(x, table(), y), x.put_(table(), y))
    TANDEM_CALL(put(x, table(), y, true), x.put_(table(), y, true))
    TANDEM_CALL(masked_scatter(x, y > 0.5, y), x.masked_scatter_(y > 0.5, y))
    TANDEM_CALL(x.index_put({places()}, y), x.index_put_({places()}, y))
    TANDEM_CALL(x.index_put({Slice{}, places()}, y, true), x.index_put_({Slice{}, places()}, y, true))
    TANDEM_CALL(x.index_put({places(), places()}, y[0]), x.index_put_({places(), places()}, y[0]))
    TANDEM_CALL(x.index_put({y > 0.5}, y[0][0]), x.index_put_({y > 0.5}, y[0][0]))
    TANDEM_CALL(x.index_put({y[0] > 0.5}, y[1]), x.index_put_({y[0] > 0.5}, y[1]))
};
// clang-format on

/// The value and the gradients of x and y; nothing where the operation takes no floats.
Tensors outcome(const Forms& forms, bool writes) {
  const Tensor x = (noise({4, 4}, 1, f64) * 0.3 + 0.5).requires_grad_();
  const Tensor y = (noise({4, 4}, 2, f64) * 0.3 + 0.5).requires_grad_();
  try {
    Tensor result = x * 1;
    if (writes)
      forms.write(result, y);
    else
      result = forms.value(result, y);
    if (!result.requires_grad()) return {result};
    (result * noise({4, 4}, 3, f64)).sum().backward();
    return {result.detach(), x.grad(), y.grad()};
  } catch (const Error& e) {
    if (e.code() != Errc::DType && e.code() != Errc::Autograd) throw;
    return {};
  }
}

TEST(InPlace, EveryFormComputesAndDifferentiatesAsTheOther) {
  int differentiable = 0;
  for (const Forms& forms : kForms) {
    SCOPED_TRACE(forms.name);
    const Tensors expected = outcome(forms, false), actual = outcome(forms, true);
    if (expected.size() < 2) continue;  // of bool, or not of floats
    ++differentiable;
    ASSERT_EQ(expected.size(), actual.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(expected[i].defined(), actual[i].defined());
      if (actual[i].defined()) expect_close(expected[i], actual[i], 1e-12, "");
    }
  }
  EXPECT_GT(differentiable, 50);
}

// --- layouts of tensors that are written by compiled code: across memory, and with gaps

const std::pair<const char*, Layout> kLayouts[] = {
    {"transposed", transposed},
    {"inner", inner},
    {"gapped", gapped},
    {"transposed, elements far apart",
     [](const Tensor& t) {
       return zeros({t.size(1), t.size(0), 20}, t.dtype()).select(2, 1).t().copy_(t);
     }},
};

/// What the operation gives of such tensors; nothing where it takes none.
std::optional<Tensor> result_of(const Forms& forms, bool writes, const Tensor& x, const Tensor& y) {
  manual_seed(1);
  try {
    if (!writes) return forms.value(x, y);
    forms.write(x, y);
    return x;
  } catch (const Error&) {
    return {};
  }
}

TEST(InPlace, EveryFormTakesLargeTensorsInEveryLayout) {
  const NoGrad no_grad;
  const Tensor x = noise({144, 160}, 1, f32) * 0.3 + 0.5, y = noise({144, 160}, 2, f32) * 0.3 + 0.5;
  int compared = 0;
  for (const Forms& forms : kForms)
    for (const bool writes : {false, true}) {
      const auto expected = result_of(forms, writes, x.clone(), y);
      if (!expected) continue;
      for (const auto& [name, lay_out] : kLayouts)
        for (const bool both : {false, true}) {
          SCOPED_TRACE(::testing::Message() << forms.name << ", " << name << " " << both << writes);
          const auto actual = result_of(forms, writes, lay_out(x), both ? lay_out(y) : y);
          ASSERT_TRUE(actual.has_value());
          EXPECT_TRUE(allclose(*actual, *expected, 1e-5, 1e-5, true));
          ++compared;
        }
    }
  EXPECT_GT(compared, 1000);
}

/// Running sums read lines where they lie, from the end too, and may be the new contents of what
/// they read: the same bits as of a copy, whatever is written.
TEST(InPlace, RunningSumsOfEveryLayoutOverTheirOperand) {
  const auto along = [](const Tensor& x, int dim) {
    const Tensor sums = flip(cumsum(flip(x, {dim}), dim), {dim});
    return sums + flip(logcumsumexp(x, dim), {1 - dim}) + cumprod(flip(x, {1 - dim}), dim);
  };
  for (const DType dtype : {f64, f32, bf16})
    for (const auto& [name, lay_out] : kLayouts)
      for (const int dim : {0, 1}) {
        SCOPED_TRACE(::testing::Message() << name << " " << dim << " " << ir::name(dtype));
        const Tensor x = (noise({40, 33}, 1, f32) * 0.2 + 0.6).to(dtype);
        const auto sums = [&](const Tensor& t) { return flip(cumsum(flip(t, {dim}), dim), {dim}); };
        const Tensor once = sums(x.clone()), laid = lay_out(x.clone());
        EXPECT_TRUE(equal(compile(sums)(laid), once));
        EXPECT_TRUE(allclose(compile([&](const Tensor& t) { return along(t, dim); })(laid),
                             along(x, dim), 1e-2, 1e-2));
        compile([&](const Tensor& t) { t.copy_(sums(t)); })(laid);
        EXPECT_TRUE(equal(laid, once));
        const Tensor again = lay_out(x.clone());
        compile([&](const Tensor& t) { t.copy_(cumsum(flip(t, {dim}), dim)); })(again);
        EXPECT_TRUE(equal(again, cumsum(flip(x, {dim}), dim)));
      }
}

}  // namespace
}  // namespace tandem::testing
