// Functions whose results have sizes that depend on data: eagerly they run, inside a trace they are
// an Error that says what to call; and random numbers by distribution.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <functional>

#include "tests/support/expect_error.h"
#include "tests/support/threads.h"

namespace tandem::testing {
namespace {

TEST(DataDependentSizes, AreRefusedInsideATrace) {
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> calls[] = {
      {"nonzero_static", [](const Tensor& x) { return nonzero(x); }},
      {"nonzero_static", [](const Tensor& x) { return argwhere(x); }},
      {"masked_select_static", [](const Tensor& x) { return masked_select(x, x > 0); }},
      {"bincount_static", [](const Tensor& x) { return bincount(x); }},
      {"unique_static", [](const Tensor& x) { return unique(x).values; }},
      {"unique_consecutive_static", [](const Tensor& x) { return unique_consecutive(x).values; }},
      {"the number of classes", [](const Tensor& x) { return one_hot(x); }},
  };
  for (const auto& [instead, call] : calls)
    expect_error(Errc::Trace, instead, [&] { compile(call)(arange(4)); });
}

TEST(DataDependentSizes, HaveFormsOfAGivenSize) {
  const auto counted = compile([](const Tensor& x) { return bincount_static(x, 4); });
  EXPECT_EQ(counted(tensor({3, 1, 3})).to_vector<int>(), (std::vector<int>{0, 1, 0, 2}));
  expect_error(Errc::Index, "out of range", [&] { counted(tensor({3, 4, 3})); });
  const auto chosen =
      compile([](const Tensor& x) { return masked_select_static(x, x > 1, 3, -1); });
  EXPECT_EQ(chosen(tensor({3, 1, 2})).to_vector<int>(), (std::vector<int>{3, 2, -1}));
  EXPECT_EQ(chosen(tensor({5, 6, 7, 8})).to_vector<int>(), (std::vector<int>{5, 6, 7}));
}

/// The positions of what is not zero, one after the other.
std::vector<int64_t> expected_places(const Tensor& x) {
  const std::vector<double> elements = x.to_vector<double>();
  std::vector<int64_t> places;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] == 0) continue;
    std::vector<int64_t> place;
    auto rest = static_cast<int64_t>(i);
    for (int64_t d = x.dim(); d-- > 0; rest /= int64_t{x.size(d)})
      place.insert(place.begin(), rest % int64_t{x.size(d)});
    places.insert(places.end(), place.begin(), place.end());
  }
  return places;
}

/// Of `x` [a, b, c] of any dtype: layouts that a caller may give.
std::vector<Tensor> layouts_of(const Tensor& x) {
  return {x,
          x.transpose(0, 2),
          x.slice(1, 1, {}, 2),
          x.slice(2, 0, 1).expand({-1, -1, 5}),
          x.flatten(),
          x.select(0, 0).select(0, 0).select(0, 0),
          x.slice(1, 0, 0),
          x.unsqueeze(3)};
}

TEST(DataDependentSizes, PlacesAreInRowMajorOrderInAnyLayout) {
  manual_seed(5);
  const Tensor numbers = trunc(randn({7, 31, 43}));
  const Tensor with_nan = where(numbers > 1, std::nan(""), where(numbers < -1, -0.0, numbers));
  for (const DType dtype : {f32, f64, bf16, i64, i32, u8, boolean})
    for (const Tensor& x :
         layouts_of(ir::is_floating(dtype) ? with_nan.to(dtype) : numbers.abs().to(dtype)))
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(to_string(x.sizes()) + " of " + std::string(ir::name(dtype)));
        const Threads some(threads);
        const Tensor places = nonzero(x);
        const std::vector<int64_t> expected = expected_places(x);
        EXPECT_EQ(places.to_vector<int64_t>(), expected);
        EXPECT_EQ(places.size(1), x.dim());
        EXPECT_EQ(places.size(0),
                  x.dim() > 0 ? Dim(std::ssize(expected) / x.dim()) : Dim(x.item<double>() != 0));
        const Tensor mask = x != 0;
        const Tensor chosen = masked_select(x, mask), counted = x.flatten();
        std::vector<double> kept;
        for (const double v : counted.to_vector<double>())
          if (v != 0) kept.push_back(std::isnan(v) ? 99 : v);
        EXPECT_EQ(nan_to_num(chosen.to(f64), 99).to_vector<double>(), kept);
      }
}

TEST(Distributions, HaveTheirMeans) {
  manual_seed(3);
  const Tensor x = zeros({100000}, f64);
  EXPECT_NEAR(x.exponential_(2).mean().item(), 0.5, 0.01);
  EXPECT_NEAR(x.geometric_(0.25).mean().item(), 4, 0.1);
  EXPECT_NEAR(x.bernoulli_(0.3).mean().item(), 0.3, 0.01);
  EXPECT_NEAR(x.log_normal_(0, 0.5).mean().item(), std::exp(0.125), 0.02);
  EXPECT_NEAR(x.cauchy_(1, 2).median().item(), 1, 0.05);
  EXPECT_NEAR(x.random_(10).mean().item(), 4.5, 0.05);
  EXPECT_NEAR(bernoulli(full({100000}, 0.7)).mean().item(), 0.7, 0.01);
  EXPECT_NEAR(normal(full({100000}, 2.0), 3).std().item(), 3, 0.05);
}

TEST(Distributions, SamplesFollowTheirWeights) {
  manual_seed(4);
  const Tensor weights = tensor({1, 0, 3}, f32);
  const Tensor drawn = bincount(multinomial(weights, 40000, true), {}, 3);
  EXPECT_NEAR(drawn[2].item() / 40000, 0.75, 0.02);
  EXPECT_EQ(drawn[1].item(), 0);
  for (int i = 0; i < 20; ++i) {
    const Tensor both = sort(multinomial(weights, 2)).values;
    EXPECT_EQ(both.to_vector<int>(), (std::vector<int>{0, 2}));
  }
  EXPECT_EQ(sort(randperm(1000)).values.to_vector<int>(), arange(1000).to_vector<int>());
  expect_error(Errc::Argument, "too few weights", [&] { multinomial(weights, 3); });
  expect_error(Errc::Argument, "not negative", [&] { multinomial(weights * -1, 1); });
}

TEST(Distributions, CompiledAreTheSameBits) {
  const auto draw = [](const Tensor& x) {
    return randperm(50).to(f32) + multinomial(x, 50, true) + bernoulli(x).slice(0, 0, 50);
  };
  const Tensor weights = full({60}, 0.5);
  manual_seed(5);
  const auto eager = draw(weights).to_vector<float>();
  manual_seed(5);
  EXPECT_EQ(compile(draw)(weights).to_vector<float>(), eager);
}

TEST(OutForms, OfTwoResultsWriteBothOrNone) {
  const Tensor x = tensor({3, 1, 2}, f32), values = zeros({3}), places = zeros({3}, i64);
  sort_out({values, places}, x);
  EXPECT_EQ(values.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(places.to_vector<int>(), (std::vector<int>{1, 2, 0}));
  expect_error(Errc::Shape, "sort_out", [&] { sort_out({values, zeros({2}, i64)}, x * 2); });
  EXPECT_EQ(values.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  const Tensor sums = zeros({3}, f64);
  cumsum_out(sums, x, 0);
  EXPECT_EQ(sums.to_vector<float>(), (std::vector<float>{3, 4, 6}));
}

}  // namespace
}  // namespace tandem::testing
