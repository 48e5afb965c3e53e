// Every view operation, in-place form, out= form and change of a tensor itself: eager against
// compiled, and the refusals.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"

namespace tandem {
namespace {

using testing::check_compiled;
using testing::expect_error;
using testing::Tensors;
using Body = std::function<Tensors(const Tensor&)>;

struct Case {
  const char* name;
  Body body;
  bool differentiable = true;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

/// `body` on a [4, 6] tensor that is no leaf (so that it may be written in grad mode), and on it
/// transposed.
void check(const Body& body, DType dtype = f32, bool differentiable = true) {
  for (bool requires_grad : {false, true}) {
    if (requires_grad && !differentiable) continue;
    check_compiled([&](const Tensors& in) { return body(in[0]); },
                   [&] {
                     const Tensor x = testing::noise({4, 6}, 3, dtype);
                     if (requires_grad) x.requires_grad_();
                     return Tensors{requires_grad ? x * 1.0 : x};
                   });
  }
}

// --- every view, read and written through

class Views : public ::testing::TestWithParam<Case> {};

TEST_P(Views, Read) {
  check([&](const Tensor& x) {
    Tensors out;
    for (const Tensor& v : GetParam().body(x)) out.push_back(v * 2);
    return out;
  });
}
TEST_P(Views, Returned) {
  check([&](const Tensor& x) { return GetParam().body(x * 2); });
}
TEST_P(Views, OfAnArgumentReturned) {
  check([&](const Tensor& x) { return GetParam().body(x); });
}
TEST_P(Views, WrittenThrough) {
  check([&](const Tensor& x) {
    const Tensor y = x * 2;
    for (const Tensor& v : GetParam().body(y)) v.mul_(v + 1);
    return Tensors{y};
  });
}
TEST_P(Views, OfAnArgumentWrittenThrough) {
  check([&](const Tensor& x) {
    const Tensors views = GetParam().body(x);
    x.mul_(2);
    for (const Tensor& v : views) v.add_(1);
    return Tensors{x.sum(), views[0] * 3};
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, Views,
    ::testing::Values(
        Case{"alias", [](const Tensor& x) { return Tensors{alias(x)}; }},
        Case{"view", [](const Tensor& x) { return Tensors{x.view({2, 12})}; }},
        Case{"view_as", [](const Tensor& x) { return Tensors{x.view_as(zeros({3, 8}))}; }},
        Case{"reshape", [](const Tensor& x) { return Tensors{x.reshape({2, 2, 6})}; }},
        Case{"as_strided",
             [](const Tensor& x) { return Tensors{x.as_strided({2, 3}, {7, 2}, 1)}; }},
        Case{"as_strided_of_a_view",
             [](const Tensor& x) { return Tensors{x.t()[1].as_strided({2, 2}, {6, 1}, 3)}; }},
        Case{"slice", [](const Tensor& x) { return Tensors{x.slice(1, 1, 6, 2)}; }},
        Case{"select", [](const Tensor& x) { return Tensors{x.select(1, -2)}; }},
        Case{"narrow", [](const Tensor& x) { return Tensors{narrow(x, 1, -3, 2)}; }},
        Case{"diagonal", [](const Tensor& x) { return Tensors{x.diagonal(-1)}; }},
        Case{"transpose", [](const Tensor& x) { return Tensors{x.transpose(0, 1)}; }},
        Case{"permute",
             [](const Tensor& x) { return Tensors{x.view({2, 2, 6}).permute({2, 0, 1})}; }},
        Case{"movedim",
             [](const Tensor& x) { return Tensors{x.view({2, 2, 6}).movedim({0, 1}, {-1, 0})}; }},
        Case{"swapaxes", [](const Tensor& x) { return Tensors{x.swapaxes(0, -1)}; }},
        Case{"t", [](const Tensor& x) { return Tensors{x.t()}; }},
        Case{"mT", [](const Tensor& x) { return Tensors{x.view({2, 2, 6}).mT()}; }},
        Case{"squeeze", [](const Tensor& x) { return Tensors{x.narrow(0, 1, 1).squeeze()}; }},
        Case{"squeeze_of_nothing", [](const Tensor& x) { return Tensors{x.squeeze(0)}; }},
        Case{"unsqueeze", [](const Tensor& x) { return Tensors{x.unsqueeze(1)}; }},
        Case{"split", [](const Tensor& x) { return x.split(4, 1); }},
        Case{"split_with_sizes", [](const Tensor& x) { return x.split_with_sizes({1, 3}); }},
        Case{"chunk", [](const Tensor& x) { return x.chunk(3); }},
        Case{"tensor_split", [](const Tensor& x) { return x.tensor_split(4, 1); }},
        Case{"tensor_split_at",
             [](const Tensor& x) { return tensor_split(x, std::vector<Dim>{1, 3}); }},
        Case{"hsplit", [](const Tensor& x) { return hsplit(x, 3); }},
        Case{"vsplit", [](const Tensor& x) { return vsplit(x, 2); }},
        Case{"hsplit_at", [](const Tensor& x) { return x.hsplit({1, 3}); }},
        Case{"vsplit_at", [](const Tensor& x) { return x.vsplit({1, 3}); }},
        Case{"dsplit", [](const Tensor& x) { return x.view({2, 2, 6}).dsplit(3); }},
        Case{"dsplit_at", [](const Tensor& x) { return x.view({2, 2, 6}).dsplit({1, 3}); }},
        Case{"split_in_lengths", [](const Tensor& x) { return x.split({1, 2, 3}, 1); }},
        Case{"T", [](const Tensor& x) { return Tensors{x.view({2, 2, 6}).T()}; }},
        Case{"H", [](const Tensor& x) { return Tensors{x.H()}; }},
        Case{"mH", [](const Tensor& x) { return Tensors{x.view({2, 2, 6}).mH()}; }},
        Case{"adjoint", [](const Tensor& x) { return Tensors{x.adjoint()}; }},
        Case{"swapdims", [](const Tensor& x) { return Tensors{x.swapdims(0, -1)}; }},
        Case{"moveaxis", [](const Tensor& x) { return Tensors{x.view({2, 2, 6}).moveaxis(0, 2)}; }},
        Case{"atleast_1d", [](const Tensor& x) { return Tensors{atleast_1d(x[0][0])}; }},
        Case{"atleast_2d", [](const Tensor& x) { return Tensors{atleast_2d(x[0])}; }},
        Case{"atleast_3d", [](const Tensor& x) { return Tensors{atleast_3d(x)}; }},
        Case{"meshgrid_of_one", [](const Tensor& x) { return meshgrid({x[1]}); }},
        Case{"index",
             [](const Tensor& x) {
               return Tensors{x.index({Slice{1, 3}, newaxis, 2}), x.index({0, ellipsis})};
             }},
        Case{"unbind", [](const Tensor& x) { return x.unbind(1); }},
        Case{"unfold_apart", [](const Tensor& x) { return Tensors{x.unfold(1, 2, 3)}; }},
        Case{"flatten", [](const Tensor& x) { return Tensors{x.flatten()}; }},
        Case{"unflatten", [](const Tensor& x) { return Tensors{x.unflatten(1, {2, -1})}; }},
        Case{"ravel", [](const Tensor& x) { return Tensors{x.ravel()}; }},
        Case{"real", [](const Tensor& x) { return Tensors{real(x)}; }}),
    name_of);

// --- views that show an element several times: read like any other, never written

class Repeating : public ::testing::TestWithParam<Case> {};

TEST_P(Repeating, Read) {
  check([&](const Tensor& x) { return Tensors{GetParam().body(x * 3)[0] * 2, x * 2}; });
}
TEST_P(Repeating, Refused) {
  const auto refused = [&](const auto& call, const Tensor& x) {
    try {
      call(x);
      ADD_FAILURE() << "expected an Error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Errc::Mutation) << e.what();
      EXPECT_NE(std::string(e.what()).find("share memory"), std::string::npos) << e.what();
    }
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(24, 1));
    EXPECT_EQ(x.version(), 0u);
  };
  const auto write = [&](const Tensor& x) {
    GetParam().body(x)[0].add_(1);
    return x * 2;
  };
  refused(write, ones({4, 6}));
  refused(compile(write), ones({4, 6}));
}

INSTANTIATE_TEST_SUITE_P(
    All, Repeating,
    ::testing::Values(
        Case{"expand", [](const Tensor& x) { return Tensors{x.expand({2, 4, 6})}; }},
        Case{"expand_as", [](const Tensor& x) { return Tensors{x.expand_as(zeros({2, 4, 6}))}; }},
        Case{"broadcast_to", [](const Tensor& x) { return Tensors{x.broadcast_to({2, 4, 6})}; }},
        Case{"unfold", [](const Tensor& x) { return Tensors{x.unfold(1, 3, 1)}; }},
        Case{"as_strided",
             [](const Tensor& x) { return Tensors{x.as_strided({3, 4}, {2, 1}, 2)}; }}),
    name_of);

// --- the memory as another dtype

TEST(ViewDtype, OfTheSameSize) {
  check([](const Tensor& x) { return Tensors{x.view(i32), x.view(i32) + 1}; });
}
TEST(ViewDtype, OfOtherSizes) {
  check([](const Tensor& x) { return Tensors{x.view(i16) + 1, x.view(f64).view(i64) + 1}; });
  check([](const Tensor& x) { return Tensors{x.view(u8) + 0, x.view(i16).view(i32) + 0}; }, f64);
  check([](const Tensor& x) { return Tensors{(x * 100).to(i8).view(i16) + 0}; });
  check([](const Tensor& x) { return Tensors{(x * 100).to(i8).to(i64).view(i32) + 0}; });
  check([](const Tensor& x) { return Tensors{x.to(f16).view(i16) + 0, x.to(bf16).view(f32) * 0}; });
}
TEST(ViewDtype, AWriteChangesTheBits) {
  check([](const Tensor& x) {
    x.view(i32).add_(1);
    const Tensor y = x.detach() * 2;
    y.view(i16)[1].fill_(0);
    return Tensors{y, x * 3};
  });
}
TEST(ViewDtype, NeedsWholeElements) {
  EXPECT_THROW(zeros({3, 3}).view(f64), Error);
  EXPECT_THROW(zeros({4, 4}).t().view(f64), Error);
  EXPECT_THROW(zeros({6}).slice(0, 1, 5).view(f64), Error);
  EXPECT_THROW(imag(zeros({3})), Error);
}

// --- in-place forms

class InPlace : public ::testing::TestWithParam<Case> {};

TEST_P(InPlace, OfAnArgumentAndAView) {
  check(
      [&](const Tensor& x) {
        GetParam().body(x);
        const Tensor y = x * 0.5;
        GetParam().body(y.slice(1, 0, 4));
        return Tensors{x * y, y};
      },
      f32, GetParam().differentiable);
}

#define IN_PLACE(name, call)                               \
  Case {                                                   \
    #name, [](const Tensor& x) { return Tensors{x.call}; } \
  }
#define CONSTANT(name, call)                                      \
  Case {                                                          \
    #name, [](const Tensor& x) { return Tensors{x.call}; }, false \
  }
INSTANTIATE_TEST_SUITE_P(
    All, InPlace,
    ::testing::Values(CONSTANT(eq, eq_(x)), CONSTANT(ne, ne_(0)), CONSTANT(lt, lt_(0.2)),
                      CONSTANT(le, le_(0.2)), CONSTANT(gt, gt_(0.2)), CONSTANT(ge, ge_(x* x)),
                      IN_PLACE(leaky_relu, leaky_relu_(0.1)), IN_PLACE(elu, elu_(0.7)),
                      IN_PLACE(celu, celu_(0.7)), IN_PLACE(gelu, gelu_("tanh")),
                      IN_PLACE(hardtanh, hardtanh_(-0.3, 0.4)), IN_PLACE(nan_to_num, nan_to_num_()),
                      IN_PLACE(addmm, addmm_(ones({4, 3}), ones({3, x.size(1)}))),
                      IN_PLACE(fill_diagonal, fill_diagonal_(2)),
                      IN_PLACE(clamp, clamp_(-0.5, 0.5)),
                      IN_PLACE(masked_fill, masked_fill_(x > 0, 3)), CONSTANT(zero, zero_()),
                      IN_PLACE(copy, copy_(x * 2)), IN_PLACE(lerp, lerp_(x * 2, 0.3))),
    name_of);
#undef IN_PLACE
#undef CONSTANT

// --- out= forms

TEST(OutForms, WriteAndResize) {
  check_compiled(
      [](const Tensors& in) {
        add_out(in[1], in[0], in[0]);
        EXPECT_TRUE(mul_out(in[2], in[0], 2).is_same(in[2]));
        sum_out(in[3], in[0], {0}, true);
        matmul_out(in[4].slice(1, 0, 2), in[0], ones({3, 2}));
        return Tensors{exp_out(in[1].t(), in[0].t()), in[2] + 1};
      },
      [] {
        return Tensors{testing::noise({2, 3}, 1), zeros({2, 3}), empty({0}), zeros({1, 3}, f64),
                       zeros({2, 4})};
      });
}

/// The error of `body`, eager and compiled, for inputs that stay as they are.
void expect_refused(Errc code, const std::string& text, const Body& body, const Tensor& x) {
  const auto values = x.detach().to_vector<double>();
  const auto sizes = x.sizes();
  const uint64_t version = x.version();
  const auto fn = [&](const Tensor& t) { return body(t); };
  expect_error(code, text, [&] { compile(fn)(x); });
  EXPECT_EQ(x.detach().to_vector<double>(), values);
  EXPECT_EQ(x.sizes(), sizes);
  EXPECT_EQ(x.version(), version);
  expect_error(code, text, [&] { fn(x); });
  EXPECT_EQ(x.detach().to_vector<double>(), values);
}

TEST(OutForms, Refusals) {
  expect_refused(
      Errc::DType, "dtype of out", [](const Tensor& x) { return Tensors{div_out(x, x, 2)}; },
      ones({3}, i64));
  expect_refused(
      Errc::Shape, "sizes of out",
      [](const Tensor& x) { return Tensors{add_out(x, ones({3}), 2)}; }, ones({4}));
  expect_refused(
      Errc::Autograd, "no gradient flows into out",
      [](const Tensor& x) { return Tensors{add_out(zeros({4}), x, 2)}; },
      ones({4}).requires_grad_());
}

// --- changes of the tensor itself

class Rearranged : public ::testing::TestWithParam<Case> {};

TEST_P(Rearranged, AnArgument) {
  check([&](const Tensor& x) {
    const Tensor before = x * 2;
    GetParam().body(x);
    return Tensors{before, x * 3, x};
  });
}
TEST_P(Rearranged, AnArgumentThatIsWritten) {
  check([&](const Tensor& x) {
    x.mul_(2);
    GetParam().body(x);
    x.add_(1);
    return Tensors{x * 2};
  });
}
TEST_P(Rearranged, AnIntermediate) {
  check([&](const Tensor& x) {
    const Tensor y = x * 2;
    GetParam().body(y);
    y.add_(1);
    return Tensors{y, y * 2};
  });
}
TEST_P(Rearranged, AView) {
  check([&](const Tensor& x) {
    const Tensor y = (x * 2).view({4, 6});
    GetParam().body(y);
    return Tensors{y * 2, y};
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, Rearranged,
    ::testing::Values(
        Case{"t", [](const Tensor& x) { return Tensors{x.t_()}; }},
        Case{"t_twice", [](const Tensor& x) { return Tensors{x.t_().t_()}; }},
        Case{"transpose", [](const Tensor& x) { return Tensors{x.transpose_(0, -1)}; }},
        Case{"unsqueeze", [](const Tensor& x) { return Tensors{x.unsqueeze_(1)}; }},
        Case{"squeeze", [](const Tensor& x) { return Tensors{x.unsqueeze_(1).squeeze_()}; }},
        Case{"as_strided", [](const Tensor& x) { return Tensors{x.as_strided_({3, 4}, {8, 2})}; }}),
    name_of);

void check_plain(const Body& body) {
  check_compiled([&](const Tensors& in) { return body(in[0]); },
                 [] { return Tensors{testing::noise({4, 6}, 3)}; });
}

TEST(Resize, ToWhatTheMemoryHolds) {
  check_plain([](const Tensor& x) { return Tensors{x.resize_({3, 4}), x * 2}; });
  check_plain([](const Tensor& x) {
    const Tensor y = x * 2;
    return Tensors{y.resize_({5}).add_(1), y};
  });
}
TEST(Resize, ToMore) {
  check_plain([](const Tensor& x) { return Tensors{x.resize_({5, 6}), x * 2}; });
  check_plain([](const Tensor& x) {
    x.mul_(2);
    x.resize_({2, 13}).add_(1);
    return Tensors{x.sum()};
  });
}
TEST(Resize, Refusals) {
  expect_refused(
      Errc::Mutation, "resize_: a view is resized",
      [](const Tensor& x) { return Tensors{x[0].resize_({2})}; }, ones({4, 6}));
  expect_refused(
      Errc::Autograd, "resize_: a tensor that requires grad",
      [](const Tensor& x) { return Tensors{x.resize_({2})}; }, ones({4, 6}).requires_grad_());
}

TEST(Set, AnotherTensorsMemory) {
  const auto two = [] { return Tensors{testing::noise({4, 6}, 3), testing::noise({3}, 4)}; };
  check_compiled(
      [](const Tensors& in) {
        in[0].set_(in[1]);
        in[0].add_(1);
        return Tensors{in[0] * 2, in[0]};
      },
      two);
  check_compiled(
      [](const Tensors& in) {
        const Tensor fresh = in[1] * 2;
        in[0].set_(fresh.view({3, 1}));
        fresh.add_(1);
        return Tensors{fresh, in[0] + 1};
      },
      two);
}

TEST(Flags, DetachAndRequiresGrad) {
  check([](const Tensor& x) {
    const Tensor y = x * 2;
    x.detach_();
    return Tensors{y, x * 3};
  });
  check([](const Tensor& x) { return Tensors{(x * 2).detach_() * x}; });
  const auto leaf = [](bool flag) {
    return [=] { return Tensors{testing::noise({4, 6}, 3).requires_grad_(flag)}; };
  };
  check_compiled([](const Tensors& in) { return Tensors{in[0].requires_grad_() * 2}; },
                 leaf(false));
  check_compiled(
      [](const Tensors& in) {
        const Tensor y = in[0] * 2;
        in[0].requires_grad_(false);
        return Tensors{y, in[0] * 3};
      },
      leaf(true));
}

TEST(RearrangedInPlace, Refusals) {
  const Tensor leaf = ones({4, 6}).requires_grad_();
  expect_refused(
      Errc::Autograd, "t_: a leaf that requires grad",
      [](const Tensor& x) { return Tensors{x.t_()}; }, leaf);
  expect_refused(
      Errc::Autograd, "squeeze_: a view of a leaf",
      [](const Tensor& x) { return Tensors{x[0].squeeze_()}; }, leaf);
  expect_refused(
      Errc::Autograd, "detach_: a view",
      [](const Tensor& x) { return Tensors{(x * 2)[0].detach_()}; }, leaf);
  expect_refused(
      Errc::Autograd, "set_: no gradient",
      [](const Tensor& x) { return Tensors{zeros({3}).set_(x)}; }, leaf);
}

TEST(Captured, ItsOwnChangesAreRefused) {
  const Tensor captured = ones({2, 3});
  const auto refused = [&](const std::string& op, auto change) {
    const auto fn = compile([&](const Tensor& x) {
      change();
      return x * 2;
    });
    expect_error(Errc::Mutation, op + ": a captured tensor itself is changed",
                 [&] { fn(ones({3})); });
  };
  refused("t_", [&] { captured.t_(); });
  refused("resize_", [&] { captured.resize_({2}); });
  refused("set_", [&] { captured.set_(ones({3})); });
  refused("detach_", [&] { captured.detach_(); });
  refused("requires_grad_", [&] { captured.requires_grad_(); });
  EXPECT_EQ(captured.sizes(), (Shape{2, 3}));
  EXPECT_FALSE(captured.requires_grad());
}

// --- views made under NoGrad whose base is written later: as PyTorch

TEST(NoGradViews, AreRefusedAfterAWriteOfTheBase) {
  for (bool through_no_grad : {false, true})
    expect_refused(
        Errc::Autograd, "a view made under NoGrad is used in grad mode after its base",
        [=](const Tensor& x) {
          const Tensor b = x * 2;
          Tensor v;
          {
            const NoGrad guard;
            v = b.slice(0, 0, 2);
          }
          const GradMode mode(!through_no_grad);
          b.mul_(3);
          const EnableGrad again;
          return Tensors{v * 2};
        },
        ones({4}).requires_grad_());
}

TEST(NoGradViews, AreWellOtherwise) {
  const auto inputs = [] { return Tensors{testing::noise({4}, 3).requires_grad_()}; };
  check_compiled(
      [](const Tensors& in) {
        const Tensor b = in[0] * 2;
        const NoGrad guard;
        const Tensor v = b.slice(0, 0, 2);
        v.mul_(2);
        return Tensors{v * 3};
      },
      inputs);
  check_compiled(
      [](const Tensors& in) {
        const Tensor b = in[0].detach() * 2;
        Tensor v;
        {
          const NoGrad guard;
          v = b.slice(0, 0, 2);
        }
        b.mul_(3);
        return Tensors{v * in[0].slice(0, 0, 2)};
      },
      inputs);
}

// --- parts that one operator made: as PyTorch

using Parts = std::function<Tensors(const Tensor&)>;
const std::vector<std::pair<const char*, Parts>> kParts{
    {"split", [](const Tensor& t) { return t.split(2); }},
    {"split_with_sizes", [](const Tensor& t) { return t.split_with_sizes({1, 3}); }},
    {"chunk", [](const Tensor& t) { return t.chunk(2); }},
    {"unbind", [](const Tensor& t) { return t.unbind(); }},
};

TEST(PartsMadeTogether, AreNotWrittenInGradMode) {
  for (const auto& [name, parts] : kParts) {
    SCOPED_TRACE(name);
    const auto refused = [](const std::function<Tensors(const Tensor&)>& body) {
      expect_refused(Errc::Autograd, "a part that split, chunk or unbind gave is written", body,
                     ones({4}).requires_grad_());
    };
    refused([=](const Tensor& x) {
      const Tensor part = parts(x * 2)[0];
      part.mul_(3);
      return Tensors{part};
    });
    refused([=](const Tensor& x) {  // a view of one
      const Tensor part = parts(x * 2)[0].unsqueeze(0);
      part.mul_(3);
      return Tensors{part};
    });
    refused([=](const Tensor& x) {  // of what requires no grad, with what does
      const Tensor part = parts(zeros({4}))[0];
      part.add_(x.sum());
      return Tensors{part};
    });
  }
}

TEST(PartsMadeTogether, AreNotRearrangedInGradMode) {
  const auto refused = [](const std::function<Tensors(const Tensor&)>& body) {
    expect_refused(Errc::Autograd, "in grad mode", body, ones({2, 2}).requires_grad_());
  };
  refused([](const Tensor& x) { return Tensors{(x * 2).split(1)[0].t_()}; });
  refused([](const Tensor& x) { return Tensors{(x * 2).chunk(2)[0].slice(0).t_()}; });
  refused([](const Tensor& x) { return Tensors{(x * 2).unbind()[1].view({1, 2}).squeeze_()}; });
  refused([](const Tensor& x) { return Tensors{(x * 2).unbind()[1].unsqueeze_(0)}; });
  check_compiled([](const Tensors& in) { return Tensors{in[0].detach().split(1)[0].t_() * 2}; },
                 [] { return Tensors{testing::noise({2, 2}, 1).requires_grad_()}; });
}

TEST(PartsMadeTogether, AreNotReadAfterAWriteOfTheWhole) {
  for (const auto& [name, parts] : kParts)
    for (bool in_grad_mode : {true, false}) {
      SCOPED_TRACE(name);
      expect_refused(
          Errc::Autograd, "a part that split, chunk or unbind gave is used in grad mode after",
          [=](const Tensor& x) {
            const Tensor y = x * 2, part = parts(y)[0];
            {
              const GradMode mode(in_grad_mode);
              y.mul_(3);
            }
            return Tensors{part * 2};
          },
          ones({4}).requires_grad_());
    }
}

TEST(PartsMadeTogether, AreWrittenWhereAutogradDoesNotWatch) {
  for (const auto& [name, parts] : kParts) {
    SCOPED_TRACE(name);
    const auto inputs = [] { return Tensors{testing::noise({4}, 3).requires_grad_()}; };
    check_compiled(
        [=](const Tensors& in) {
          const Tensor y = in[0].detach() * 2;
          parts(y)[0].mul_(3);
          return Tensors{y * in[0]};
        },
        inputs);
    check_compiled(
        [=](const Tensors& in) {
          const Tensor y = in[0] * 2;
          {
            const NoGrad guard;
            parts(y)[0].mul_(3);
          }
          return Tensors{y * y};
        },
        inputs);
    check_compiled(
        [=](const Tensors& in) {
          const Tensor y = in[0] * 2;
          parts(y)[0].detach().mul_(3);
          return Tensors{y * 2};
        },
        inputs);
  }
}

/// What a caller may do with a result is what it may do after eager.
TEST(PartsMadeTogether, AreThatAsResults) {
  const auto halves = [](const Tensor& x) {
    const Tensor y = x * 2;
    Tensors results = y.chunk(2);
    results.push_back(y);
    return results;
  };
  const auto compiled = compile(halves);
  const Tensor x = ones({4}).requires_grad_();
  for (int i = 0; i < 2; ++i) {
    expect_error(Errc::Autograd, "is written in grad mode", [&] { halves(x)[0].mul_(2); });
    expect_error(Errc::Autograd, "is written in grad mode", [&] { compiled(x)[0].mul_(2); });
    const Tensors results = compiled(x);
    results[2].mul_(3);
    expect_error(Errc::Autograd, "is used in grad mode after", [&] { results[0] + 1; });
  }
}

TEST(PartsMadeTogether, AreThatAsArguments) {
  const auto doubled = [](const Tensor& t) { return t * 2; };
  const auto written = [](const Tensor& t) { t.mul_(2); };
  const auto compiled = compile(doubled);
  const auto compiled_write = compile(written);
  const Tensor x = ones({4}).requires_grad_();
  for (bool compiled_before : {false, true}) {
    if (compiled_before) compiled((x * 1).slice(0, 0, 2)), compiled_write((x * 1).slice(0, 0, 2));
    const Tensor y = x * 3, part = y.chunk(2)[0];
    expect_error(Errc::Autograd, "is written in grad mode", [&] { compiled_write(part); });
    EXPECT_EQ(part.to_vector<double>(), (std::vector<double>{3, 3}));
    y.mul_(2);
    expect_error(Errc::Autograd, "is used in grad mode after", [&] { compiled(part); });
  }
}

}  // namespace
}  // namespace tandem
