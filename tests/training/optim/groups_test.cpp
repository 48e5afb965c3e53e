// Groups of parameters and what optimizers refuse.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/expect_error.h"
#include "tests/training/optim/optimizer_cases.h"

namespace tandem::testing {
namespace {

Tensor leaf(const Shape& sizes) { return ones(sizes).requires_grad_(); }

TEST(ParamGroups, TakeWhatTheyLeaveOutFromTheOptimizer) {
  const Tensor a = leaf({2}), b = leaf({3}), c = leaf({});
  optim::SGD sgd({{.parameters = {a}}, {.parameters = {b}, .lr = 0.25, .nesterov = false}},
                 {.lr = 0.5, .momentum = 0.5, .nesterov = true});
  sgd.add_param_group({.parameters = {c}, .weight_decay = 1.0});
  ASSERT_EQ(sgd.param_groups().size(), 3u);
  EXPECT_EQ(sgd.param_groups()[1].get("lr"), 0.25);
  EXPECT_EQ(sgd.param_groups()[1].get("momentum"), 0.5);
  EXPECT_EQ(sgd.param_groups()[2].get("lr"), 0.5);
  EXPECT_EQ(sgd.parameters().size(), 3u);
  for (const Tensor& t : {a, b, c}) t.set_grad(ones_like(t));
  sgd.step();
  EXPECT_EQ(a.to_vector<float>()[0], 1 - 0.5f * 1.5f);
  EXPECT_EQ(b.to_vector<float>()[0], 1 - 0.25f);
  EXPECT_EQ(c.item<float>(), 1 - 0.5f * (2 + 0.5f * 2));
  sgd.lr.set(0.125);  // the first group's
  EXPECT_EQ(sgd.param_groups()[0].get("lr"), 0.125);
  EXPECT_EQ(sgd.param_groups()[1].get("lr"), 0.25);
}

TEST(ParamGroups, MayBeOne) {
  const Tensor a = leaf({2}), b = leaf({3});
  const optim::SGD one({{.parameters = {a}}}, {.lr = 0.5});
  EXPECT_EQ(one.param_groups().size(), 1u);
  EXPECT_EQ(one.param_groups()[0].get("lr"), 0.5);
  const optim::AdamW both({{.parameters = {a, b}, .lr = 0.25}});
  EXPECT_EQ(both.parameters().size(), 2u);
  EXPECT_EQ(both.param_groups()[0].get("lr"), 0.25);
  EXPECT_EQ(optim::LBFGS({{.parameters = {a}}}).param_groups().size(), 1u);
  EXPECT_EQ(optim::SGD({a}).param_groups().size(), 1u);
  EXPECT_EQ(optim::SGD({a, b}).parameters().size(), 2u);
}

TEST(ParamGroups, AddedToAFunctionThatIsCompiled) {
  const Tensor a = leaf({2}), b = leaf({3});
  optim::AdamW adamw({a}, {.lr = 0.5, .weight_decay = 0});
  const auto step = compile([](optim::AdamW& o, const Tensor& x) {
    o.step();
    return x + 1;
  });
  for (const Tensor& t : {a, b}) t.set_grad(ones_like(t));
  step(adamw, ones({}));
  EXPECT_EQ(b.to_vector<float>()[0], 1);
  adamw.add_param_group({.parameters = {b}});
  step(adamw, ones({}));
  EXPECT_NEAR(a.to_vector<float>()[0], 0, 1e-6);
  EXPECT_NEAR(b.to_vector<float>()[0], 0.5, 1e-6);
}

TEST(Optimizers, LeaveAloneWhatHasNoGradient) {
  for (const std::string& name : optimizer_names()) {
    const Tensor frozen = full({2, 2}, 3), trained = leaf({2, 2}), unused = leaf({2, 2});
    const auto optimizer = make_optimizer(name, Parameters{frozen, trained, unused}, "lr=0.5");
    (trained * 2 + frozen).sum().backward();
    optimizer->step();
    EXPECT_EQ(frozen.to_vector<float>(), std::vector<float>(4, 3)) << name;
    EXPECT_EQ(unused.to_vector<float>(), std::vector<float>(4, 1)) << name;
    EXPECT_NE(trained.to_vector<float>(), std::vector<float>(4, 1)) << name;
    optimizer->zero_grad(false);
    EXPECT_EQ(trained.grad().to_vector<float>(), std::vector<float>(4, 0)) << name;
    EXPECT_FALSE(unused.grad().defined());
    optimizer->zero_grad();
    EXPECT_FALSE(trained.grad().defined());
    const auto before = trained.to_vector<float>();
    optimizer->step();
    EXPECT_EQ(trained.to_vector<float>(), before) << name;
  }
}

TEST(Optimizers, TakeATensorThatIsListedTwiceOnce) {
  const Tensor w = leaf({2, 2}), same = leaf({2, 2});
  for (const std::string& name : optimizer_names()) {
    const auto once = make_optimizer(name, Parameters{same}, "lr=0.5"),
               twice = make_optimizer(name, Parameters{w, w}, "lr=0.5");
    for (const Tensor& t : {w, same}) t.set_grad(ones({2, 2}) * 0.5);
    once->step(), twice->step();
    EXPECT_EQ(w.to_vector<float>(), same.to_vector<float>()) << name;
    EXPECT_EQ(twice->parameters().size(), 1u);
  }
}

TEST(Optimizers, EmptyTensors) {
  for (const std::string& name : optimizer_names()) {
    const Tensor nothing = leaf({0, 3}), w = leaf({2, 2});
    const auto optimizer = make_optimizer(name, Parameters{nothing, w}, "");
    nothing.set_grad(zeros({0, 3})), w.set_grad(ones({2, 2}));
    optimizer->step();
    EXPECT_NE(w.to_vector<float>()[0], 1) << name;
  }
}

TEST(Optimizers, RefuseParameters) {
  const Tensor w = leaf({2, 2});
  for (const std::string& name : optimizer_names()) {
    expect_error(Errc::Argument, name + ": expected parameters, got an empty list",
                 [&] { make_optimizer(name, Parameters{}, ""); });
    expect_error(Errc::Argument, name + ": parameter 1 [2, 2] is the result of an operation",
                 [&] { make_optimizer(name, Parameters{w, w * 2}, ""); });
    expect_error(Errc::Argument, name + ": parameter 0 is undefined",
                 [&] { make_optimizer(name, Parameters{Tensor()}, ""); });
    expect_error(Errc::Argument, name + ": expected a parameter in one group, got [2, 2] in two",
                 [&] { make_optimizer(name, {{.parameters = {w}}, {.parameters = {w}}}); });
  }
  expect_error(Errc::Argument, "Muon: expected parameters of two dimensions, got [2]",
               [] { optim::Muon({leaf({2})}); });
}

TEST(Optimizers, RefuseOptions) {
  const Parameters w = {leaf({2, 2})};
  struct Row {
    const char *optimizer, *options, *message;
  };
  for (const Row& row : {
           Row{"SGD", "lr=-1", "SGD: lr out of range; expected a number >= 0, got -1"},
           Row{"SGD", "momentum=-1", "momentum out of range"},
           Row{"SGD", "nesterov=1", "nesterov expected a momentum > 0"},
           Row{"SGD", "beta1=0.5", "expected a group with some of the options lr, momentum"},
           Row{"SGD", "amsgrad=1", "nesterov, maximize, got amsgrad"},
           Row{"Adam", "beta1=1", "beta1 out of range; expected 0 <= beta < 1, got 1"},
           Row{"AdamW", "beta2=-0.1", "beta2 out of range"},
           Row{"AdamW", "eps=-1", "eps out of range"},
           Row{"NAdam", "momentum_decay=-1", "momentum_decay out of range"},
           Row{"RAdam", "weight_decay=-1", "weight_decay out of range"},
           Row{"RMSprop", "alpha=-1", "alpha out of range"},
           Row{"Adagrad", "lr_decay=-1", "lr_decay out of range"},
           Row{"Adagrad", "initial_accumulator_value=-1", "initial_accumulator_value out of range"},
           Row{"Adadelta", "rho=1.5", "rho out of range; expected 0 <= rho <= 1"},
           Row{"Adamax", "lr=nan", "lr out of range"},
           Row{"Lion", "beta2=1.5", "beta2 out of range"},
           Row{"LAMB", "eps=nan", "eps out of range"},
           Row{"Muon", "ns_steps=100", "ns_steps expected to be from 0 to 99"},
       })
    expect_error(Errc::Argument, row.message,
                 [&] { make_optimizer(row.optimizer, w, row.options); });
}

TEST(ParamGroups, RefuseNumbers) {
  const Tensor w = leaf({2});
  optim::SGD sgd({w});
  optim::Group& group = sgd.param_groups()[0];
  expect_error(Errc::Argument,
               "SGD: expected one of its numbers lr, momentum, dampening, weight_"
               "decay, got \"beta1\"",
               [&] { group.set("beta1", 0.5); });
  expect_error(Errc::Argument, "lr out of range", [&] { group.set("lr", -1); });
  expect_error(Errc::Argument, "momentum was 0 when the optimizer was made",
               [&] { group.set("momentum", 0.5); });
  EXPECT_EQ(group.get("momentum"), 0);
  EXPECT_FALSE(group.has("beta1"));
}

TEST(Optimizers, AStateWithOtherFlagsMakesWhatTheyNeed) {
  const Tensor one = leaf({2}), other = leaf({2});
  optim::Adam amsgrad({one}, {.lr = 0.5, .amsgrad = true}), plain({other});
  optim::SGD fast({one}, {.lr = 0.5, .momentum = 0.5}), slow({other});
  for (const double g : {1.0, -3.0, 0.5, 0.25}) {
    one.set_grad(full({2}, g)), other.set_grad(full({2}, g));
    plain.load_state_dict(amsgrad.state_dict());
    slow.load_state_dict(fast.state_dict());
    amsgrad.step(), plain.step(), fast.step(), slow.step();
    EXPECT_EQ(one.to_vector<float>(), other.to_vector<float>());
  }
}

}  // namespace
}  // namespace tandem::testing
