// Writes through views that show elements several times: parts that show each once, and numbers
// that are the same everywhere. Eager against compiled.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"

namespace tandem {
namespace {

using testing::check_compiled;
using testing::expect_error;
using testing::Source;
using testing::Tensors;

struct Case {
  const char* name;
  std::function<void(const Tensor&)> write;  // of a [3, 2] tensor, of which all rows are one
};

class Repeated : public ::testing::TestWithParam<Case> {};

TEST_P(Repeated, AViewOfAnIntermediate) {
  const auto function = [](const Tensors& in) {
    const Tensor y = in[0] * 2, e = y.expand({3, 2});
    GetParam().write(e);
    return Tensors{y, e * 3, y * y};
  };
  check_compiled(function, [](Source& make) { return Tensors{make.integers({2}, 1)}; });
}
TEST_P(Repeated, AViewOfAnArgument) {
  const auto function = [](const Tensors& in) {
    const Tensor e = in[0].expand({3, 2}), before = in[0] * 2;
    GetParam().write(e);
    return Tensors{before, in[0] * 3, e.sum()};
  };
  check_compiled(function, [](Source& make) { return Tensors{make.integers({2}, 1)}; });
  check_compiled(function,
                 [](Source& make) { return Tensors{make.integers({4}, 1).slice(0, 0, 4, 2)}; });
}
TEST_P(Repeated, AnArgument) {
  const auto function = [](const Tensors& in) {
    GetParam().write(in[0]);
    return Tensors{in[0] * 3};
  };
  check_compiled(function,
                 [](Source& make) { return Tensors{make.integers({2}, 1).expand({3, 2})}; });
}
TEST_P(Repeated, AnArgumentBesideItsBase) {
  const auto function = [](const Tensors& in) {
    GetParam().write(in[0]);
    return Tensors{in[0] * 3, in[1] + 1};
  };
  check_compiled(function, [](Source& make) {
    const Tensor x = make.integers({2}, 1);
    return Tensors{x.expand({3, 2}), x};
  });
}
TEST_P(Repeated, Detached) {
  const auto function = [](const Tensors& in) {
    const Tensor y = in[0] * 2, e = y.detach().expand({3, 2});
    GetParam().write(e);
    return Tensors{y * 1, e * 3};
  };
  check_compiled(function, [](Source& make) { return Tensors{make.integers({2}, 1)}; });
}

INSTANTIATE_TEST_SUITE_P(
    All, Repeated,
    ::testing::Values(Case{"fill_", [](const Tensor& e) { e.fill_(2); }},
                      Case{"zero_", [](const Tensor& e) { e.zero_(); }},
                      Case{"copy_itself", [](const Tensor& e) { e.copy_(e); }},
                      Case{"first_row", [](const Tensor& e) { e[0].mul_(2); }},
                      Case{"last_row",
                           [](const Tensor& e) { e.select(0, 2).mul_(e.select(0, 0)); }},
                      Case{"diagonal", [](const Tensor& e) { e.diagonal().copy_(ones({2})); }},
                      Case{"element", [](const Tensor& e) { e[1][1].add_(5); }},
                      Case{"fill_of_rows", [](const Tensor& e) { e.slice(0, 1, 3).fill_(7); }},
                      Case{"column", [](const Tensor& e) { e.select(1, 1).zero_(); }},
                      Case{"nothing", [](const Tensor& e) { e.slice(0, 2, 2).mul_(2); }},
                      Case{"twice",
                           [](const Tensor& e) {
                             e[1].add_(1);
                             e[2].mul_(e[0]);
                             e.fill_(3);
                             e[0].sub_(e[1]);
                           }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(RepeatedViews, WindowsAreFilled) {
  const auto function = [](const Tensors& in) {
    const Tensor y = in[0] * 1, windows = y.unfold(0, 3, 1);
    windows.slice(0, 1, 3).fill_(4);
    windows[0].add_(1);
    const Tensor strided = y.as_strided({2, 2}, {1, 1}, 1);
    strided.zero_();
    return Tensors{y, windows * 1, strided + 1};
  };
  check_compiled(function, [](Source& make) { return Tensors{make.integers({6}, 1)}; });
}

TEST(RepeatedViews, WhatIsOverwrittenGetsZeros) {
  const auto check = [](const std::function<Tensor(const Tensor&)>& body) {
    const auto function = [&](const Tensors& in) {
      return Tensors{body((in[0] * 2).expand({3, 2})) * 3};
    };
    check_compiled(function, [] { return Tensors{testing::noise({2}, 1).requires_grad_()}; });
  };
  check([](const Tensor& e) { return e.fill_(2); });
  check([](const Tensor& e) { return e[0].copy_(ones({2})); });
  check([](const Tensor& e) {
    e[0].copy_(ones({2}));
    return e[1];
  });
  check([](const Tensor& e) { return e.diagonal().zero_(); });
  check([](const Tensor& e) { return e.slice(0, 1, 3).fill_(7); });
  check([](const Tensor& e) {
    e.select(1, 1).zero_();
    return e;
  });
}

TEST(RepeatedViews, WhereElementsShareMemoryAWriteIsRefused) {
  const auto refused = [](const std::function<Tensor(const Tensor&)>& body) {
    const Tensor x = arange(2, f32);
    expect_error(Errc::Mutation, "share memory", [&] { body(x); });
    expect_error(Errc::Mutation, "share memory", [&] { compile(body)(x); });
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 1}));
    EXPECT_EQ(x.version(), 0u);
  };
  refused([](const Tensor& x) { return x.expand({3, 2}).mul_(2); });
  refused([](const Tensor& x) { return x.expand({3, 2}).copy_(ones({3, 2})); });
  refused([](const Tensor& x) { return x.expand({3, 2}).copy_(x.expand({3, 2}).detach()); });
  refused(
      [](const Tensor& x) { return x.slice(0, 0, 1).expand({3, 3}).diagonal().copy_(ones({3})); });
  refused([](const Tensor& x) { return x.expand({3, 2}).slice(0, 1, 3).add_(1); });
}

}  // namespace
}  // namespace tandem
