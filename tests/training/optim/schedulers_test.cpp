// Every scheduler beside PyTorch's: the rates of two groups, and the momentum.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <functional>
#include <map>
#include <numbers>

#include "tests/support/expect_error.h"
#include "tests/training/optim/optimizer_cases.h"

namespace tandem::testing {
namespace {

using namespace optim;  // NOLINT(google-build-using-namespace): a table of its names

/// A scheduler of any kind.
struct Running {
  std::function<void(double metric)> step;
  std::function<NamedTensors()> state;
  std::function<void(const NamedTensors&)> load;
  std::function<std::vector<double>()> last;
};

template <class Scheduler>
Running running(Scheduler scheduler) {
  const auto shared = std::make_shared<Scheduler>(std::move(scheduler));
  return {[shared](double metric) {
            if constexpr (std::is_same_v<Scheduler, ReduceLROnPlateau>)
              shared->step(metric);
            else
              shared->step();
          },
          [shared] { return shared->state_dict(); },
          [shared](const NamedTensors& s) { shared->load_state_dict(s); },
          [shared] { return shared->get_last_lr(); }};
}

using Make = Running (*)(Optimizer&);

const std::map<std::string, Make> kSchedules = {
    {"step", [](Optimizer& o) { return running(StepLR(o, {.step_size = 3, .gamma = 0.5})); }},
    {"multi_step",
     [](Optimizer& o) {
       return running(MultiStepLR(o, {.milestones = {2, 5, 5, 11}, .gamma = 0.5}));
     }},
    {"exponential", [](Optimizer& o) { return running(ExponentialLR(o, {.gamma = 0.9})); }},
    {"cosine",
     [](Optimizer& o) { return running(CosineAnnealingLR(o, {.t_max = 6, .eta_min = 0.01})); }},
    {"cosine_restarts",
     [](Optimizer& o) {
       return running(CosineAnnealingWarmRestarts(o, {.t_0 = 3, .t_mult = 2, .eta_min = 0.001}));
     }},
    {"one_cycle",
     [](Optimizer& o) { return running(OneCycleLR(o, {.max_lr = 1, .total_steps = 25})); }},
    {"one_cycle_of_three",
     [](Optimizer& o) {
       return running(OneCycleLR(o, {.max_lr = {1.0, 0.5},
                                     .total_steps = 25,
                                     .pct_start = 0.4,
                                     .anneal_strategy = Anneal::Linear,
                                     .base_momentum = 0.7,
                                     .max_momentum = 0.9,
                                     .div_factor = 10,
                                     .final_div_factor = 100,
                                     .three_phase = true}));
     }},
    {"one_cycle_of_adam",
     [](Optimizer& o) {
       return running(OneCycleLR(o, {.max_lr = 1, .epochs = 5, .steps_per_epoch = 5}));
     }},
    {"linear",
     [](Optimizer& o) {
       return running(LinearLR(o, {.start_factor = 0.1, .end_factor = 0.9, .total_iters = 7}));
     }},
    {"constant",
     [](Optimizer& o) { return running(ConstantLR(o, {.factor = 0.25, .total_iters = 4})); }},
    {"polynomial",
     [](Optimizer& o) { return running(PolynomialLR(o, {.total_iters = 12, .power = 2})); }},
    {"lambda",
     [](Optimizer& o) {
       return running(
           LambdaLR(o, std::vector<Factor>{[](int64_t e) { return std::pow(0.95, double(e)); },
                                           [](int64_t e) { return 1 / (1 + double(e)); }}));
     }},
    {"multiplicative",
     [](Optimizer& o) {
       return running(MultiplicativeLR(o, [](int64_t e) { return 0.9 + 0.01 * double(e); }));
     }},
    {"cyclic",
     [](Optimizer& o) {
       return running(CyclicLR(o, {.base_lr = 0.01, .max_lr = 0.1, .step_size_up = 4}));
     }},
    {"cyclic_triangular2",
     [](Optimizer& o) {
       return running(CyclicLR(o, {.base_lr = {0.01, 0.02},
                                   .max_lr = {0.1, 0.3},
                                   .step_size_up = 3,
                                   .step_size_down = 5,
                                   .mode = CyclicMode::Triangular2,
                                   .base_momentum = 0.6,
                                   .max_momentum = 0.95}));
     }},
    {"cyclic_exponential",
     [](Optimizer& o) {
       return running(CyclicLR(o, {.base_lr = 0.01,
                                   .max_lr = 0.1,
                                   .step_size_up = 4,
                                   .mode = CyclicMode::ExpRange,
                                   .gamma = 0.95,
                                   .cycle_momentum = false}));
     }},
    {"warm_up",
     [](Optimizer& o) {
       return running(
           SequentialLR(o,
                        {LinearLR(o, {.start_factor = 0.01, .end_factor = 1, .total_iters = 5}),
                         CosineAnnealingLR(o, {.t_max = 15})},
                        {5}));
     }},
    {"sequential",
     [](Optimizer& o) {
       return running(SequentialLR(
           o,
           {ConstantLR(o, {.factor = 0.1, .total_iters = 3}), ExponentialLR(o, {.gamma = 0.9}),
            StepLR(o, {.step_size = 2, .gamma = 0.5}), CosineAnnealingWarmRestarts(o, {.t_0 = 4})},
           {3, 8, 14}));
     }},
    {"chained",
     [](Optimizer& o) {
       return running(ChainedScheduler(o, {ConstantLR(o, {.factor = 0.1, .total_iters = 4}),
                                           ExponentialLR(o, {.gamma = 0.9})}));
     }},
    {"plateau",
     [](Optimizer& o) {
       return running(ReduceLROnPlateau(
           o, {.factor = 0.5, .patience = 2, .cooldown = 1, .min_lr = {0.01, 0.002}}));
     }},
    {"plateau_of_most",
     [](Optimizer& o) {
       return running(ReduceLROnPlateau(o, {.mode = PlateauMode::Max,
                                            .factor = 0.1,
                                            .patience = 1,
                                            .threshold = 0.1,
                                            .threshold_mode = ThresholdMode::Abs}));
     }},
};

double metric(int step) { return std::cos(step * 0.9) + 1 / (1.0 + step); }

std::shared_ptr<Optimizer> optimizer_for(const std::string& schedule) {
  const std::vector<ParamGroup> groups = {{.parameters = {zeros({2})}, .lr = 0.2},
                                          {.parameters = {zeros({3})}, .lr = 0.04}};
  if (schedule == "one_cycle_of_adam") return std::make_shared<Adam>(groups);
  return std::make_shared<SGD>(groups, SgdOptions{.momentum = 0.5});
}

/// The rates of both groups and the momentum of the first.
std::vector<double> rates(const Optimizer& o) {
  const Group& first = o.param_groups()[0];
  return {first.get("lr"), o.param_groups()[1].get("lr"),
          first.get(first.has("beta1") ? "beta1" : "momentum")};
}

TEST(Schedulers, AreAsPyTorchs) {
  const auto table = read_table("schedules.tsv");
  EXPECT_EQ(table.size(), kSchedules.size());
  for (const auto& row : table) {
    const auto optimizer = optimizer_for(row[0]);
    const Running scheduler = kSchedules.at(row[0])(*optimizer);
    const std::vector<double> expected = numbers_in(row[1]);
    for (int step = 0; step < 25; ++step) {
      const auto got = rates(*optimizer);
      for (size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(got[i], expected[static_cast<size_t>(step) * 3 + i], 1e-14)
            << row[0] << " step " << step << " number " << i;
      EXPECT_EQ(scheduler.last(), (std::vector<double>{got[0], got[1]})) << row[0];
      if (step < 24) scheduler.step(metric(step));
    }
  }
}

TEST(Schedulers, ResumeToTheBit) {
  for (const auto& [name, make] : kSchedules) {
    for (const int at : {0, 1, 4, 9}) {
      const auto unbroken = optimizer_for(name), resumed = optimizer_for(name);
      const Running one = make(*unbroken);
      for (int step = 0; step < at; ++step) one.step(metric(step));
      const Running other = make(*resumed);
      resumed->load_state_dict(unbroken->state_dict());
      other.load(one.state());
      for (int step = at; step < 20; ++step) {
        EXPECT_EQ(rates(*unbroken), rates(*resumed)) << name << " from " << at << " at " << step;
        one.step(metric(step)), other.step(metric(step));
      }
    }
  }
}

TEST(Schedulers, Nested) {
  const auto plain = optimizer_for(""), nested = optimizer_for("");
  SequentialLR one(*plain,
                   {LinearLR(*plain, {.total_iters = 2}), ExponentialLR(*plain, {.gamma = 0.5}),
                    StepLR(*plain, {.step_size = 1})},
                   {2, 5});
  SequentialLR two(
      *nested,
      {SequentialLR(*nested,
                    {LinearLR(*nested, {.total_iters = 2}), ExponentialLR(*nested, {.gamma = 0.5})},
                    {2}),
       ChainedScheduler(*nested, {StepLR(*nested, {.step_size = 1})})},
      {5});
  for (int step = 0; step < 9; ++step) {
    EXPECT_EQ(rates(*plain), rates(*nested)) << step;
    one.step(), two.step();
  }
}

TEST(Schedulers, RefuseOptions) {
  const auto optimizer = optimizer_for("");
  Optimizer& o = *optimizer;
  Adagrad without_momentum({zeros({2})});
  const auto refused = [](const char* message, const auto& make) {
    expect_error(Errc::Argument, message, make);
  };
  refused("StepLR: step_size out of range", [&] { StepLR(o, {.step_size = 0}); });
  refused("LinearLR: start_factor out of range", [&] { LinearLR(o, {.start_factor = 0}); });
  refused("LinearLR: end_factor out of range", [&] { LinearLR(o, {.end_factor = 2}); });
  refused("ConstantLR: factor out of range", [&] { ConstantLR(o, {.factor = -1}); });
  refused("t_0 out of range", [&] { CosineAnnealingWarmRestarts(o, {.t_0 = 0}); });
  refused("t_max out of range", [&] { CosineAnnealingLR(o, {.t_max = 0}); });
  refused("pct_start out of range",
          [&] { OneCycleLR(o, {.max_lr = 1, .total_steps = 5, .pct_start = 2}); });
  refused("total_steps, or epochs", [&] { OneCycleLR(o, {.max_lr = 1, .epochs = 2}); });
  refused("one for each of 2 groups, got 3",
          [&] { OneCycleLR(o, {.max_lr = {1, 2, 3}, .total_steps = 5}); });
  refused("an optimizer with a momentum",
          [&] { OneCycleLR(without_momentum, {.max_lr = 1, .total_steps = 5}); });
  refused("factor out of range", [&] { ReduceLROnPlateau(o, {.factor = 1}); });
  refused("a function for each of 2 groups", [&] { LambdaLR(o, std::vector<Factor>(1)); });
  refused("got an empty one", [&] { MultiplicativeLR(o, Factor()); });
  refused("got an empty list", [&] { ChainedScheduler(o, {}); });
  refused("a milestone between", [&] { SequentialLR(o, {StepLR(o, {.step_size = 1})}, {1}); });
  refused("of its own optimizer",
          [&] { ChainedScheduler(without_momentum, {StepLR(o, {.step_size = 1})}); });
  refused("the state has no last_epoch", [&] { StepLR(o, {.step_size = 1}).load_state_dict({}); });
  OneCycleLR cycle(o, {.max_lr = 1, .total_steps = 2});
  cycle.step(), cycle.step();
  refused("the number of steps out of range", [&] { cycle.step(); });
}

}  // namespace
}  // namespace tandem::testing
