// Functions of tensors that are large enough for compiled code, operands and incoming gradients
// lying in memory in every way, each in another: eager and compiled against the same elements side
// by side. What lies between the elements stays.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <limits>

#include "tests/support/check_compiled.h"
#include "tests/support/layouts.h"

namespace tandem::testing {
namespace {

struct Function {
  const char* text;
  Tensor (*call)(const Tensor& x, const Tensor& y);
};

/// Of rows, and of columns, of a matrix: positions, of which some come twice.
Tensor places(const Tensor& x, int64_t dim) {
  return remainder(arange(int64_t{x.size(dim)}) * 7, 100);
}
Tensor image(const Tensor& x) { return x.unflatten(1, {8, 20}).permute({0, 2, 1}).unsqueeze(0); }
Tensor heads(const Tensor& x) { return x.unflatten(1, {4, 40}).transpose(0, 1); }

#define CALL(expression)                                                                           \
  {#expression, []([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& y) -> Tensor { \
     return expression;                                                                            \
   }},
// clang-format off
const Function kFunctions[] = {
    // element by element, broadcast
    CALL(x * y + 2) CALL(gelu(x) / y) CALL(where(x > y, x, y * 3)) CALL(lerp(x, y, 0.3)) CALL(pow(x, y))
    CALL(x + y.select(0, 3)) CALL(x * y.select(1, 3).unsqueeze(1)) CALL(x - y[2][3]) CALL(atan2(x, y))
    CALL(clamp(x, y * 0.5, y)) CALL(x.to(bf16) * y) CALL((x.to(f16) + y.to(f16)).to(f32)) CALL(maximum(x, y))
    CALL(x.t() * y.t()) CALL(x.slice(1, 0, 160, 2) * y.slice(1, 1, 160, 2)) CALL(dropout(x, 0.4) + y)
    // reductions, scans, order
    CALL(x.sum({0}) * y.sum({0})) CALL(x.mean({1})) CALL(x.prod(0)) CALL(x.amax({1})) CALL(x.max(0).values)
    CALL(var(x, 0)) CALL(std(x, 1)) CALL(norm(x, 2, {0})) CALL(logsumexp(x, 0)) CALL(logsumexp(x, 1)) CALL(x.sum())
    CALL(cumsum(x, 0) + cumsum(y, 1)) CALL(cumprod(x + 0.5, 1)) CALL(logcumsumexp(x, 0)) CALL(cummax(x, 1).values)
    CALL(sort(x, 0).values * y) CALL(topk(x, 5, 1).values) CALL(kthvalue(x, 7, 0).values) CALL(median(x, 1).values)
    CALL(softmax(x, 0) * y) CALL(softmax(x, 1) * y) CALL(log_softmax(x, 0)) CALL(layer_norm(x, {160}, y.select(0, 1), y.select(0, 2)))
    CALL(group_norm(image(x), 6)) CALL(normalize(x, 2, 0)) CALL(cosine_similarity(x, y, 0)) CALL(renorm(x, 2, 0, 0.5))
    CALL(rms_norm(x, {160}, y.select(0, 1)))
    // products
    CALL(matmul(x, y.t())) CALL(matmul(x.t(), y)) CALL(addmm(x.slice(1, 0, 144), x, y.t())) CALL(linear(x, y, y.select(1, 3)))
    CALL(bmm(heads(x), heads(y).transpose(1, 2))) CALL(einsum("ij,kj->ki", {x, y})) CALL(matmul(x, y.select(0, 2)))
    CALL(conv2d(image(x), image(y).slice(2, 0, 3).slice(3, 0, 3).expand({5, 144, 3, 3})))
    CALL(scaled_dot_product_attention(heads(x), heads(y), heads(x * y)))
    // shapes
    CALL(cat({x, y}, 0)) CALL(cat({x, y.t().slice(0, 0, 144)}, 1)) CALL(stack({x, y}, 1)) CALL(x.reshape({160, 144}) * y.t())
    CALL(flip(x, {0}) + y.roll({3}, {1})) CALL(x.unfold(1, 5, 3).sum({2})) CALL(pad(x, {1, 2, 3, 0}) * 2) CALL(x.expand({3, 144, 160}).sum({1}))
    CALL(x.diagonal(2) * y.diagonal(5)) CALL(tril(x) + triu(y, 1)) CALL(repeat_interleave(x, 2, 0)) CALL(x.contiguous().view({-1}) * 2)
    CALL(pixel_shuffle(image(x).slice(1, 0, 16), 2)) CALL(max_pool2d(image(x), 3)) CALL(avg_pool2d(image(x), 2)) CALL(interpolate(image(x), {.size = Shape{9, 11}, .mode = "bilinear"}))
    // positions
    CALL(index_select(x, 0, places(x, 0)) * y) CALL(gather(x, 1, (y > 0.5).to(i64) * 3)) CALL(take_along_dim(x, argsort(y, 0), 0))
    CALL(index_add(x, 1, places(x, 1), y)) CALL(scatter_add(x, 0, (y > 0.4).to(i64) * 5, y)) CALL(scatter(x, 1, argsort(y, 1), y))
    CALL(scatter_reduce(x, 0, (y > 0.4).to(i64), y, "amax")) CALL(index_copy(x, 0, arange(144).flip({0}), y)) CALL(masked_fill(x, y > 0.5, 2))
    CALL(masked_scatter(x, y > 0.5, y)) CALL(x.index_put({places(x, 0), Slice{}}, y, true)) CALL(x.index({places(x, 0), places(x, 0)}) * y.select(1, 0))
    CALL(embedding(x, places(x, 0).view({12, 12}))) CALL(x.index_put({x > y}, y[0][0])) CALL(slice_scatter(x, y.slice(0, 0, 72), 0, 0, 144, 2))
    CALL(put(x, argsort(y.reshape({-1})), y)) CALL(index_fill(x, 1, places(x, 1), 2)) CALL(select_scatter(x, y.select(1, 2), 1, 5))
};
// clang-format on
#undef CALL

/// Between NaN, and behind one.
Tensor among_nan(const Tensor& memory, const Tensor& part, const Tensor& t) {
  memory.fill_(std::numeric_limits<double>::quiet_NaN());
  return part.copy_(t);
}

Tensor rows_apart(const Tensor& t) {
  const Tensor memory = empty({t.size(0) + 1, t.size(1) + 5});
  return among_nan(memory, memory.slice(0, 1).slice(1, 2, t.size(1) + 2), t);
}
Tensor columns_apart(const Tensor& t) { return rows_apart(t.t()).t(); }
Tensor elements_apart(const Tensor& t) {
  const Tensor memory = empty({t.size(0), t.size(1) * 2});
  return among_nan(memory, memory.slice(1, 1, t.size(1) * 2, 2), t);
}

using LayOut = Tensor (*)(const Tensor&);
const LayOut kLayouts[] = {transposed, rows_apart, columns_apart, elements_apart};

/// All of the memory that `t` lies in.
Tensor memory_of(const Tensor& t) {
  const Dim reach = (t.size(0) - 1) * t.strides()[0] + (t.size(1) - 1) * t.strides()[1] + 1;
  return t.detach().as_strided({reach + t.storage_offset()}, {1}, 0);
}

/// The value, and the gradients of x and y.
Tensors outcome(const std::function<Tensor(const Tensor&, const Tensor&)>& function,
                const Tensor& x, const Tensor& y, LayOut of_gradient) {
  manual_seed(1);
  const Tensor a = x.detach().requires_grad_(), b = y.detach().requires_grad_();
  const Tensor value = function(a, b);
  const Tensor incoming = noise(value.sizes(), 3, value.dtype());
  const bool is_matrix = value.dim() == 2 && of_gradient != nullptr && value.dtype() == f32;
  const Tensors gradients =
      grad({value}, {a, b},
           {.grad_outputs = {is_matrix ? of_gradient(incoming) : incoming}, .allow_unused = true});
  return {value.detach(), gradients[0], gradients[1]};
}

class LargeLayouts : public ::testing::TestWithParam<size_t> {};

TEST_P(LargeLayouts, GiveWhatElementsSideBySideGive) {
  const Tensor x = noise({144, 160}, 1) * 0.3 + 0.5, y = noise({144, 160}, 2) * 0.3 + 0.5;
  for (size_t i = GetParam(); i < std::size(kFunctions); i += 4) {
    const auto& [text, function] = kFunctions[i];
    const Tensors expected = outcome(function, x, y, nullptr);
    const auto compiled = compile(function);
    for (size_t k = 0; k < std::size(kLayouts); ++k) {
      const LayOut other = kLayouts[(k + 1 + i % 3) % 4];
      const Tensor a = kLayouts[k](x), b = other(y);
      const Tensor before = memory_of(a).clone(), before_b = memory_of(b).clone();
      const auto expect_same = [&](const Tensors& actual, const char* form) {
        SCOPED_TRACE(::testing::Message() << text << ", " << form << ", layout " << k);
        for (size_t n = 0; n < expected.size(); ++n) {
          ASSERT_EQ(expected[n].defined(), actual[n].defined());
          if (expected[n].defined()) expect_close(expected[n], actual[n], 1e-4, "");
        }
        EXPECT_TRUE(allclose(memory_of(a), before, 0, 0, true));
        EXPECT_TRUE(allclose(memory_of(b), before_b, 0, 0, true));
      };
      expect_same(outcome(function, a, b, other), "eager");
      if (k == i / 4 % 4) expect_same(outcome(compiled, a, b, kLayouts[(k + 2) % 4]), "compiled");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Quarters, LargeLayouts, ::testing::Range<size_t>(0, 4));

}  // namespace
}  // namespace tandem::testing
