// Every optimizer beside PyTorch (Lion and LAMB: their papers' formulas), through its state and
// back, eagerly and inside a compiled function.
#include <gtest/gtest.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include <cmath>
#include <map>

#include "tests/support/expect_error.h"
#include "tests/training/optim/optimizer_cases.h"

namespace tandem::testing {
namespace {

void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 double relative, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], relative * std::max(1.0, std::abs(expected[i])))
        << what << " element " << i;
}

TEST(Optimizers, AreAsPyTorch) {
  for (const auto& row : read_table("optimizers.tsv")) {
    const std::string& name = row[0];
    const Parameters parameters = first_parameters(name);
    const auto optimizer = make_optimizer(name, parameters, row[1], row[2]);
    run_steps(*optimizer, parameters, 0, 20);
    // PyTorch's Muon computes in bf16.
    expect_near(flat(parameters), numbers_in(row[3]), name == "Muon" ? 1e-2 : 1e-11,
                name + " " + row[1] + " " + row[2]);
  }
}

/// The state of PyTorch's optimizer after 10 steps, continued.
TEST(Optimizers, GoOnFromPyTorchsState) {
  const NamedTensors states = load_npz(TANDEM_SOURCE_DIR "/tests/torch/optimizer_states.npz");
  std::map<std::string, int> cases;
  for (const auto& row : read_table("optimizers.tsv")) {
    const bool is_second = ++cases[row[0]] == 2;
    NamedTensors saved;
    for (const auto& [name, tensor] : states)
      if (name.starts_with(row[0] + "/"))
        saved.emplace_back(name.substr(row[0].size() + 1), tensor);
    if (!is_second || saved.empty()) continue;
    const Parameters parameters = first_parameters(row[0]);
    for (size_t k = 0; k < parameters.size(); ++k) {
      const NoGrad no_grad;
      parameters[k].copy_(*find(saved, "parameters." + std::to_string(k)));
    }
    std::string flags;  // numbers come with the state
    for (const char* flag : {"amsgrad=1", "centered=1"})
      if (row[1].find(flag) != std::string::npos) flags += std::string(flag) + " ";
    const auto optimizer = make_optimizer(row[0], parameters, flags);
    optimizer->load_state_dict(saved);
    run_steps(*optimizer, parameters, 10, 20);
    expect_near(flat(parameters), numbers_in(row[3]), 1e-6, row[0] + " " + row[1]);
  }
}

std::string name_of(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

class EachOptimizer : public ::testing::TestWithParam<std::string> {
 protected:
  static std::string options() {
    return GetParam() == "SGD" || GetParam() == "RMSprop" ? "momentum=0.9" : "";
  }
};
INSTANTIATE_TEST_SUITE_P(Optimizers, EachOptimizer, ::testing::ValuesIn(optimizer_names()),
                         name_of);

TEST_P(EachOptimizer, ResumesToTheBit) {
  for (const DType dtype : {f64, f32, bf16}) {
    const Parameters unbroken = first_parameters(GetParam(), dtype),
                     resumed = first_parameters(GetParam(), dtype);
    const auto first = make_optimizer(GetParam(), unbroken, options());
    run_steps(*first, unbroken, 0, 9);
    const auto second = make_optimizer(GetParam(), resumed, options());
    second->load_state_dict(first->state_dict());
    for (size_t k = 0; k < resumed.size(); ++k) {
      const NoGrad no_grad;
      resumed[k].copy_(unbroken[k]);
    }
    run_steps(*first, unbroken, 9, 15);
    run_steps(*second, resumed, 9, 15);
    EXPECT_EQ(flat(unbroken), flat(resumed)) << ir::name(dtype);
    for (const double value : flat(resumed)) EXPECT_TRUE(std::isfinite(value));
  }
}

/// Captured, and as an argument.
TEST_P(EachOptimizer, StepsInsideACompiledFunctionToTheBit) {
  const Parameters eager = first_parameters(GetParam()), captured = first_parameters(GetParam()),
                   passed = first_parameters(GetParam());
  const auto of_eager = make_optimizer(GetParam(), eager, options()),
             of_captured = make_optimizer(GetParam(), captured, options()),
             of_passed = make_optimizer(GetParam(), passed, options());
  const auto capturing = compile([&](const Tensor& x) {
    of_captured->step();
    return x + 1;
  });
  const auto passing = compile([](optim::Optimizer& optimizer, const Tensor& x) {
    optimizer.step();
    return x + 1;
  });
  for (int step = 0; step < 6; ++step) {
    set_gradients(eager, step), set_gradients(captured, step), set_gradients(passed, step);
    if (step == 4)
      for (const auto& optimizer : {of_eager, of_captured, of_passed}) optimizer->lr.set(0.3);
    of_eager->step();
    capturing(ones({}));
    passing(*of_passed, ones({}));
    EXPECT_EQ(flat(eager), flat(captured)) << step;
    EXPECT_EQ(flat(eager), flat(passed)) << step;
  }
  EXPECT_EQ(of_eager->state_dict().size(), of_passed->state_dict().size());
}

TEST_P(EachOptimizer, ChangesOfNumbersRecompileNothing) {
  const Parameters parameters = first_parameters(GetParam());
  const auto optimizer = make_optimizer(GetParam(), parameters, options());
  for (int step = 0; step < 12; ++step) set_gradients(parameters, step), optimizer->step();
  const size_t before = compiled_graphs().size();
  const std::vector<const char*> names = {"lr",  "momentum", "dampening",    "alpha",         "rho",
                                          "eps", "beta1",    "weight_decay", "momentum_decay"};
  for (int step = 12; step < 24; ++step) {
    const char* name = names[static_cast<size_t>(step) % names.size()];
    const optim::Group& group = optimizer->param_groups()[0];
    if (group.has(name)) group.set(name, 0.01 * step);
    set_gradients(parameters, step);
    optimizer->step();
  }
  EXPECT_EQ(compiled_graphs().size(), before);
}

/// Gapped and transposed memory, as with contiguous.
TEST_P(EachOptimizer, ParametersLieAnyhow) {
  const Parameters plain = first_parameters(GetParam());
  Parameters gapped;
  for (const Tensor& p : plain) {
    const NoGrad no_grad;
    const Tensor room = zeros({2, 3, 5, 2}, f64);
    const Tensor lying =
        p.dim() == 2   ? zeros({p.size(1), p.size(0) * 2}, f64).slice(1, 0, p.size(0) * 2, 2).t()
        : p.dim() == 1 ? zeros({p.size(0) * 3}, f64).slice(0, 1, p.size(0) * 3, 3)
                       : room.select(0, 1).select(0, 1).select(0, 2).select(0, 1);
    lying.copy_(p);
    gapped.push_back(lying.detach().requires_grad_());
  }
  const auto one = make_optimizer(GetParam(), plain, options()),
             other = make_optimizer(GetParam(), gapped, options());
  for (int step = 0; step < 4; ++step) {
    set_gradients(plain, step), set_gradients(gapped, step);
    one->step(), other->step();
  }
  expect_near(flat(gapped), flat(plain), 1e-12, GetParam());
}

TEST_P(EachOptimizer, SkipsAStepWhereTheDataSaySo) {
  const Parameters parameters = first_parameters(GetParam());
  const auto optimizer = make_optimizer(GetParam(), parameters, options());
  set_gradients(parameters, 5);
  optimizer->step();
  const auto before = flat(parameters);
  const auto state = optimizer->state_dict();
  std::vector<std::vector<double>> values;
  for (const auto& [name, tensor] : state) values.push_back(tensor.to_vector<double>());
  optimizer->step_unless(ones({}));
  EXPECT_EQ(flat(parameters), before);
  const auto after = optimizer->state_dict();
  for (size_t i = 0; i < state.size(); ++i)
    EXPECT_EQ(after[i].second.to_vector<double>(), values[i]) << after[i].first;
  optimizer->step_unless(zeros({1}));
  EXPECT_NE(flat(parameters), before);
}

TEST_P(EachOptimizer, RefusesOtherStates) {
  const Parameters parameters = first_parameters(GetParam());
  const auto optimizer = make_optimizer(GetParam(), parameters, options());
  run_steps(*optimizer, parameters, 0, 3);
  const NamedTensors good = optimizer->state_dict();
  const auto values = [&] {
    std::vector<double> all;
    for (const auto& [name, t] : optimizer->state_dict())
      for (const double v : t.to_vector<double>()) all.push_back(v);
    return all;
  };
  const auto before = values();
  const auto refused = [&](Errc code, const char* part, const auto& change) {
    NamedTensors state = good;
    change(state);
    expect_error(code, part, [&] { optimizer->load_state_dict(state); });
    EXPECT_EQ(values(), before);
  };
  refused(Errc::Argument, "groups", [](NamedTensors& s) { s.clear(); });
  refused(Errc::Argument, "out of range", [](NamedTensors& s) {
    for (auto& [name, t] : s)
      if (name == "param_groups.0.lr") t = full({}, -1.0, f64);
  });
  refused(Errc::Argument, "got more",
          [](NamedTensors& s) { s.emplace_back("param_groups.1.lr", ones({})); });
  refused(Errc::Argument, "got one of 2", [](NamedTensors& s) {
    for (auto& [name, t] : s)
      if (name == "param_groups.0.params") t = arange(2);
  });
  refused(Errc::Argument, "\"other\"",
          [](NamedTensors& s) { s.emplace_back("state.0.other", ones({3, 4})); });
  refused(Errc::Shape, "[3, 4]", [](NamedTensors& s) {
    for (auto& [name, t] : s)
      if (name.starts_with("state.0.") && t.dim() != 0) t = ones({2});
  });
}

}  // namespace
}  // namespace tandem::testing
