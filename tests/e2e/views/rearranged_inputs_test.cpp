// Tensors that change themselves (t_, squeeze_, as_strided_, set_, ...) and what other tensors,
// saved or views, remember of them: eager against compiled.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/check_compiled.h"

namespace tandem {
namespace {

using testing::check_compiled;
using testing::Source;
using testing::Tensors;

struct Change {
  const char* name;
  std::function<void(const Tensor&)> make;  // of a [2, 1, 3] tensor
};

class Rearranging : public ::testing::TestWithParam<Change> {
 protected:
  /// In all settings and partitions. (A leaf is not rearranged in grad mode, eager or compiled.)
  static void check(const testing::Program& function, bool with_gaps = false) {
    const auto inputs = [with_gaps](Source& make) {
      const Tensor x = make.noise({2, 1, 6}, 1);
      return Tensors{with_gaps ? x.slice(2, 0, 6, 2) : x.slice(2, 0, 3), make.noise({6}, 2)};
    };
    check_compiled(function, inputs, {.partitions = {"default", "save-all", "recompute-all"}});
  }
};

TEST_P(Rearranging, BeforeBackwardReadsIt) {
  check([](const Tensors& in) {
    GetParam().make(in[0]);
    return Tensors{in[0] * in[0]};
  });
}
TEST_P(Rearranging, AfterBackwardReadsIt) {
  check([](const Tensors& in) {
    const Tensor y = in[0] * in[0];
    GetParam().make(in[0]);
    return Tensors{y, in[0] * in[0]};
  });
}
TEST_P(Rearranging, WithGaps) {
  check(
      [](const Tensors& in) {
        GetParam().make(in[0]);
        return Tensors{exp(in[0]) * in[0]};
      },
      true);
}
TEST_P(Rearranging, AndWritten) {
  check([](const Tensors& in) {
    const Tensor y = in[0] * in[0];
    GetParam().make(in[0]);
    in[0].mul_(2);
    return Tensors{y, in[0] * in[0]};
  });
}
TEST_P(Rearranging, BesideAnotherOverTheSameMemory) {
  const auto function = [](const Tensors& in) {
    GetParam().make(in[0]);
    return Tensors{in[1] * in[1] * in[0].sum()};
  };
  check_compiled(function, [](Source& make) {
    const Tensor all = make.noise({2, 2, 3}, 1);
    return Tensors{all.slice(1, 0, 1), all.slice(1, 1, 2)};
  });
}
TEST_P(Rearranging, DifferentiatedTwice) {
  const auto second = [](bool is_compiled) {
    const auto cube = [](const Tensor& x) {
      GetParam().make(x);
      return sum(x * x * x);
    };
    const Tensor leaf = testing::noise({2, 1, 3}, 4).requires_grad_(), x = leaf * 1;
    const Tensor y = is_compiled ? compile(cube)(x) : cube(x);
    const Tensor first = grad({y}, {leaf}, {.create_graph = true})[0];
    return grad({first.sum()}, {leaf})[0];
  };
  testing::expect_close(second(false), second(true), 1e-5, GetParam().name);
}

// --- a view, its base rearranged, and one of them written

enum class Written : uint8_t { Nothing, Base, View, ViewOfView };

void write(Written what, const Tensor& base, const Tensor& view) {
  if (what == Written::Base) base.mul_(2);
  if (what == Written::View) view.mul_(view + 2);
  if (what == Written::ViewOfView) view.slice(0, 1, 4).mul_(view.slice(0, 2, 5));
}

TEST_P(Rearranging, TheBaseOfAView) {
  for (const Written what : {Written::Nothing, Written::Base, Written::View, Written::ViewOfView})
    for (const bool of_input : {false, true}) {
      SCOPED_TRACE(static_cast<int>(what));
      const auto function = [=](const Tensors& in) {
        const Tensor base = of_input ? in[0] : in[0] * 1;
        const Tensor v = base.view({6}), part = base.slice(2, 1, 3);
        GetParam().make(base);
        write(what, base, v);
        return Tensors{base * 3, v * v, part * 2, base};
      };
      check_compiled(function, [](Source& make) { return Tensors{make.noise({2, 1, 3}, 1)}; });
    }
}
TEST_P(Rearranging, TheBaseOfAViewMadeBeforeTheCall) {
  const auto function = [](const Tensors& in) {
    in[1].mul_(in[1]);
    return Tensors{in[0] * 3, in[1] * 2};
  };
  check_compiled(function, [](Source& make) {
    const Tensor base = make.noise({2, 1, 3}, 1);
    const Tensor v = base.view({6});
    if (make.setting() != testing::Setting::Leaf) GetParam().make(base);
    return Tensors{base, v};
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, Rearranging,
    ::testing::Values(
        Change{"transpose_", [](const Tensor& x) { x.transpose_(0, 2); }},
        Change{"swapaxes_", [](const Tensor& x) { x.swapaxes_(0, 1); }},
        Change{"squeeze_", [](const Tensor& x) { x.squeeze_(); }},
        Change{"unsqueeze_", [](const Tensor& x) { x.unsqueeze_(1); }},
        Change{"squeeze_and_t_", [](const Tensor& x) { x.squeeze_().t_(); }},
        Change{"as_strided_part", [](const Tensor& x) { x.as_strided_({2, 2}, {1, 2}); }},
        Change{"as_strided_all",
               [](const Tensor& x) { x.as_strided_({3, 2}, {x.strides()[2], x.strides()[0]}); }}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem
