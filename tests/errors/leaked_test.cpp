// A traced tensor that outlives its trace: every function that takes tensors refuses it, in every
// place, outside and inside another trace, and nothing is changed.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <functional>
#include <thread>

#include "tests/support/expect_error.h"

namespace tandem {
namespace {

using testing::expect_error;

Tensor leaked(const Shape& sizes = {2, 2}) {
  Tensor out;
  compile([&](const Tensor& x) {
    out = x + x;
    return out * 2;
  })(zeros(sizes));
  return out;
}

struct Double : Function<Double> {
  static Tensor forward(FunctionContext& c, const Tensor& x) {
    c.save_for_backward({x});
    return x * 2;
  }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) {
    return {grads[0] * 2};
  }
};

/// Without dimensions.
Tensor& scalar() {
  static Tensor t;
  return t;
}

struct Use {
  const char* name;
  std::function<void(const Tensor&)> use;
  bool in_trace = true;  // what is traced through there is only C++
};

const Tensor& x() {
  static const Tensor t = ones({2, 2}).requires_grad_();
  return t;
}
const Tensor& plain() {
  static const Tensor t = ones({2, 2});
  return t;
}

const std::vector<Use> kUses = {
    {"operand", [](const Tensor& t) { t + plain(); }},
    {"second_operand", [](const Tensor& t) { plain() * t; }},
    {"matmul", [](const Tensor& t) { matmul(plain(), t); }},
    {"view", [](const Tensor& t) { t.view({4}); }},
    {"as_strided", [](const Tensor& t) { t.as_strided({2}, {1}, 0); }},
    {"narrow", [](const Tensor& t) { t.narrow(0, 0, 1); }},
    {"split", [](const Tensor& t) { t.split(1); }},
    {"cat", [](const Tensor& t) { cat({plain(), t}); }},
    {"stack", [](const Tensor& t) { stack({plain(), t}); }},
    {"index_put", [](const Tensor& t) { index_put(plain(), {tensor({0, 1})}, t); }},
    {"where", [](const Tensor& t) { where(plain() > 0, t, plain()); }},
    {"written", [](const Tensor& t) { t.add_(1); }},
    {"copied_from", [](const Tensor& t) { plain().clone().copy_(t); }},
    {"filled", [](const Tensor& t) { t.fill_(1); }},
    {"drawn", [](const Tensor& t) { t.uniform_(); }},
    {"like", [](const Tensor& t) { t.t_(); }},
    {"squeeze_", [](const Tensor& t) { t.squeeze_(); }},
    {"resize_", [](const Tensor& t) { t.resize_({8}); }},
    {"set_", [](const Tensor& t) { t.set_(plain()); }},
    {"set_from", [](const Tensor& t) { plain().clone().set_(t); }},
    {"detach", [](const Tensor& t) { t.detach(); }},
    {"detach_", [](const Tensor& t) { t.detach_(); }},
    {"out", [](const Tensor& t) { add_out(t, plain(), plain()); }},
    {"scalar", [](const Tensor&) { Scalar(scalar()) * plain(); }},
    {"scalar_set", [](const Tensor&) { Scalar(scalar()).set(1); }},
    {"item", [](const Tensor&) { scalar().item(); }},
    {"data", [](const Tensor& t) { t.data<float>(); }},
    {"to_vector", [](const Tensor& t) { t.to_vector<float>(); }},
    {"gradient", [](const Tensor& t) { (x() * 2).backward(t); }},
    {"grad_outputs", [](const Tensor& t) { grad({x() * 2}, {x()}, {.grad_outputs = {t}}); }},
    {"set_grad", [](const Tensor& t) { x().set_grad(t); }},
    {"own_grad", [](const Tensor& t) { t.set_grad(plain()); }},
    {"requires_grad_", [](const Tensor& t) { t.requires_grad_(); }},
    {"custom", [](const Tensor& t) { Double::apply(t); }},
    {"compiled", [](const Tensor& t) { compile([](const Tensor& v) { return v + 1; })(t); }},
    {"compiled_twice",
     [](const Tensor& t) {
       const auto f = compile([](const Tensor& v) { return v + 1; });
       f(plain());
       f(t);
     }},
    {"compiled_second",
     [](const Tensor& t) {
       compile([](const Tensor& a, const Tensor& b) { return a + b; })(plain(), t);
     }},
    {"compiled_unused",
     [](const Tensor& t) {
       compile([](const Tensor& a, const Tensor&) { return a + 1; })(plain(), t);
     },
     false},
    {"compiled_field",
     [](const Tensor& t) {
       nn::Linear layer(2, 2);
       layer.weight = t;
       compile([](const nn::Linear& l, const Tensor& v) { return l(v); })(layer, plain());
     }},
    {"captured", [](const Tensor& t) { compile([&](const Tensor& v) { return v + t; })(plain()); }},
    {"returned", [](const Tensor& t) { compile([&](const Tensor&) { return t; })(plain()); },
     false},
    {"functionalized",
     [](const Tensor& t) { functionalize([](const Tensor& v) { return v + 1; })(t); }},
    {"graphs", [](const Tensor& t) { compile([](const Tensor& v) { return v + 1; }).graphs(t); }},
    {"saved", [](const Tensor& t) { save_safetensors("/nonexistent/x", {{"x", t}}); }},
};

/// Functions that take a handle apart, without elements, keep working.
TEST(Leaked, IsStillDescribed) {
  const Tensor t = leaked();
  EXPECT_EQ(t.sizes(), (Shape{2, 2}));
  EXPECT_NE(t.to_string().find("traced tensor f32[2, 2]"), std::string::npos);
}

class LeakedUse : public ::testing::TestWithParam<Use> {
 protected:
  static void SetUpTestSuite() { scalar() = leaked({}); }
};

TEST_P(LeakedUse, IsAnError) {
  const Tensor t = leaked();
  expect_error(Errc::Trace, "traced tensor", [&] { GetParam().use(t); });
  std::thread([&] { expect_error(Errc::Trace, "", [&] { GetParam().use(t); }); }).join();
  EXPECT_FALSE(x().grad().defined());
  EXPECT_EQ(plain().version(), 0u);
}

TEST_P(LeakedUse, IsAnErrorInAnotherTrace) {
  if (!GetParam().in_trace) return;
  const Tensor t = leaked();
  const auto f = compile([&](const Tensor& v) {
    GetParam().use(t);
    return v + 1;
  });
  expect_error(Errc::Trace, "", [&] { f(plain()); });
}

INSTANTIATE_TEST_SUITE_P(All, LeakedUse, ::testing::ValuesIn(kUses),
                         [](const auto& info) { return std::string(info.param.name); });

// Of a trace that is still on, in another thread.
TEST(Leaked, IntoAnotherThread) {
  compile([&](const Tensor& v) {
    const Tensor t = v + v;
    std::thread([&] {
      expect_error(Errc::Trace, "traced tensor",
                   [&] { compile([](const Tensor& u) { return u + 1; })(t); });
    }).join();
    return t;
  })(plain());
}

TEST(Leaked, AsAGradientWhenAnOptimizerSteps) {
  const Tensor p = ones({2, 2}).requires_grad_();
  optim::SGD sgd({p});
  optim::AdamW adamw({p});
  expect_error(Errc::Trace, "set_grad: the gradient: a traced tensor",
               [&] { p.set_grad(leaked()); });
  sgd.step(), adamw.step();  // no gradient: nothing to do
  EXPECT_EQ(p.to_vector<float>(), std::vector<float>(4, 1));
  EXPECT_FALSE(p.grad().defined());
}

}  // namespace
}  // namespace tandem
