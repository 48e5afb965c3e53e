// as_strided addresses the storage: views that show more than the tensor they are made of, eager
// against compiled.
#include <gtest/gtest.h>
#include <tandem/functionalize.h>
#include <tandem/tandem.h>

#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"

namespace tandem {
namespace {

using testing::check_compiled;
using testing::expect_error;
using testing::Setting;
using testing::Source;
using testing::Tensors;

/// A part of twelve elements: [2:7], without a memory of the whole in autograd, or as a view.
testing::MakeInputs part(bool detached) {
  return [detached](Source& make) {
    const Tensor all = make.integers({12}, 1);
    const Tensor x = all.slice(0, 2, 7);
    if (!detached) return Tensors{x};
    const Tensor own = x.detach();
    return Tensors{make.setting() == Setting::Plain ? own : own.requires_grad_()};
  };
}

void check(const testing::Program& function, const testing::MakeInputs& inputs) {
  check_compiled(function, inputs, {.partitions = {"default", "save-all"}});
}

TEST(StorageViews, ReadOutsideTheArgument) {
  for (const bool detached : {false, true})
    check(
        [](const Tensors& in) {
          const Tensor v = in[0].as_strided({3, 3}, {4, 1}, 0);
          return Tensors{v * 2, in[0] * v.sum(), in[0].as_strided({2}, {1})};
        },
        part(detached));
}
TEST(StorageViews, Returned) {
  for (const bool detached : {false, true})
    check([](const Tensors& in) { return Tensors{in[0].as_strided({2, 4}, {1, 3}, 1)}; },
          part(detached));
}
TEST(StorageViews, WrittenOutsideTheArgument) {
  for (const bool detached : {false, true})
    check(
        [](const Tensors& in) {
          const NoGrad no_grad;
          const Tensor v = in[0].as_strided({4}, {3}, 1);
          v.mul_(3);
          in[0].add_(1);
          v.add_(in[0].slice(0, 0, 4));
          return Tensors{v * 2, in[0] * 3};
        },
        part(detached));
}
TEST(StorageViews, WrittenInGradMode) {
  const auto function = [](const Tensors& in) {
    const Tensor x = in[0], v = x.as_strided({4}, {3}, 1);
    v.mul_(v + 1);
    return Tensors{v * 2, x * x};
  };
  check(function, [](Source& make) { return Tensors{make.integers({12}, 1).slice(0, 2, 7)}; });
}
TEST(StorageViews, OfSeveralArguments) {
  const auto function = [](const Tensors& in) {
    const Tensor v = in[0].as_strided({6}, {2}, 0), w = in[1].as_strided({5}, {1}, 4);
    const Tensor sum = v.slice(0, 0, 5) + w;
    const NoGrad no_grad;
    v.mul_(2);
    w.sub_(1);
    return Tensors{sum, in[0] * 2, in[1] * 3};
  };
  check(function, [](Source& make) {
    const Tensor all = make.integers({12}, 1);
    return Tensors{all.slice(0, 1, 4), all.slice(0, 6, 10, 2)};
  });
  check(function, [](Source& make) {
    const Tensor all = make.integers({12}, 1).detach();
    return Tensors{all.slice(0, 1, 4).detach(), all.slice(0, 3, 10, 2).detach()};
  });
}
TEST(StorageViews, OfIntermediates) {
  const auto function = [](const Tensors& in) {
    const Tensor y = in[0] * 2, part = y.slice(0, 1, 3).detach();
    const Tensor v = part.as_strided({2}, {3}, 0);
    const Tensor before = v * 2;
    v.add_(1);
    const Tensor t = (in[0].view({5, 1}) * ones({1, 2})).t().detach().select(0, 1);
    return Tensors{before, y, part, t.as_strided({4, 2}, {2, 1}, 1)};
  };
  check(function, part(false));
}
TEST(StorageViews, AsAnotherDtype) {
  const auto function = [](const Tensors& in) {
    const Tensor v = in[0].view(i16).as_strided({6}, {4}, 0), before = v * 1;
    v.add_(1);
    return Tensors{before, in[0] * 2};
  };
  check(function, [](Source&) { return Tensors{arange(12, i32).slice(0, 2, 7).detach()}; });
}
TEST(StorageViews, InPlace) {
  for (const bool detached : {false, true})
    check(
        [](const Tensors& in) {
          const NoGrad no_grad;
          in[0].as_strided_({2, 3}, {6, 2}, 1);
          const Tensor y = in[0] * 2;
          in[0].add_(1);
          return Tensors{y};
        },
        part(detached));
  check(
      [](const Tensors& in) {
        in[0].as_strided_({2, 3}, {6, 2}, 1);
        return Tensors{in[0] * in[0]};
      },
      [](Source& make) { return Tensors{make.integers({12}, 1).slice(0, 2, 7)}; });
}
TEST(StorageViews, OfCapturedTensors) {
  const Tensor all = arange(12, f32), x = all.slice(0, 2, 7).detach();
  const auto function = compile([x](const Tensor& y) { return x.as_strided({3}, {5}, 0) * y; });
  EXPECT_EQ(function(ones({3})).to_vector<float>(), (std::vector<float>{0, 5, 10}));
  all.add_(1);
  EXPECT_EQ(function(ones({3})).to_vector<float>(), (std::vector<float>{1, 6, 11}));
}
TEST(StorageViews, TheSizeOfTheStorageIsGuarded) {
  const auto function = compile([](const Tensor& x) { return x.as_strided({3}, {1}, 0) * 1; });
  for (const int64_t n : {6, 8, 6}) {
    const Tensor x = arange(n, f32).slice(0, 1, 3).detach();
    EXPECT_EQ(function(x).to_vector<float>(), (std::vector<float>{0, 1, 2}));
  }
}
TEST(StorageViews, Functionalized) {
  const Tensor x = arange(8, f32).slice(0, 2, 5).detach();
  const auto function = functionalize([](const Tensor& t) {
    const Tensor v = t.as_strided({2}, {5}, 0);
    v.add_(10);
    return v * 2;
  });
  EXPECT_EQ(function(x).to_vector<float>(), (std::vector<float>{20, 30}));
  EXPECT_EQ(x.as_strided({8}, {1}, 0).to_vector<float>(),
            (std::vector<float>{10, 1, 2, 3, 4, 15, 6, 7}));
}
TEST(StorageViews, OutsideTheStorageIsAnError) {
  const Tensor x = arange(8, f32).slice(0, 2, 5).detach(), before = x.clone();
  const auto past = [](const Tensor& t) { return t.as_strided({3}, {4}, 0) * 1; };
  const auto negative = [](const Tensor& t) { return t.as_strided({3}, {1}, -1) * 1; };
  const auto uneven = [](const Tensor& t) { return t.as_strided({3}, {1, 1}, 0) * 1; };
  expect_error(Errc::Index, "at most 8 elements", [&] { past(x); });
  expect_error(Errc::Index, "at most 8 elements", [&] { compile(past)(x); });
  expect_error(Errc::Argument, "negative offset", [&] { negative(x); });
  expect_error(Errc::Argument, "negative offset", [&] { compile(negative)(x); });
  expect_error(Errc::Argument, "one stride per size", [&] { uneven(x); });
  expect_error(Errc::Argument, "one stride per size", [&] { compile(uneven)(x); });
  EXPECT_EQ(x.to_vector<float>(), before.to_vector<float>());
}

/// What a base holds gets its gradient, as in ATen; the rest of the memory has none.
TEST(StorageViews, Gradients) {
  for (const bool is_compiled : {false, true}) {
    const auto f = [](const Tensor& t) { return t.as_strided({4}, {2}, 0) * 3; };
    const Tensor x = arange(8, f32).slice(0, 2, 5).detach().requires_grad_();
    const Tensor y = is_compiled ? compile(f)(x) : f(x);
    EXPECT_EQ(y.detach().to_vector<float>(), (std::vector<float>{0, 6, 12, 18}));
    y.sum().backward();
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{3, 0, 3}));
  }
}

}  // namespace
}  // namespace tandem
