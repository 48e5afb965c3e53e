#include "tests/training/optim/optimizer_cases.h"

#include <tandem/ops.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>

namespace tandem::testing {
namespace {

using optim::ParamGroup;

const std::map<std::string, std::optional<double> ParamGroup::*> kNumbers = {
    {"lr", &ParamGroup::lr},
    {"momentum", &ParamGroup::momentum},
    {"dampening", &ParamGroup::dampening},
    {"alpha", &ParamGroup::alpha},
    {"rho", &ParamGroup::rho},
    {"lr_decay", &ParamGroup::lr_decay},
    {"beta1", &ParamGroup::beta1},
    {"beta2", &ParamGroup::beta2},
    {"eps", &ParamGroup::eps},
    {"weight_decay", &ParamGroup::weight_decay},
    {"momentum_decay", &ParamGroup::momentum_decay},
    {"initial_accumulator_value", &ParamGroup::initial_accumulator_value},
};

const std::map<std::string, std::optional<bool> ParamGroup::*> kFlags = {
    {"nesterov", &ParamGroup::nesterov},
    {"amsgrad", &ParamGroup::amsgrad},
    {"centered", &ParamGroup::centered},
    {"decoupled_weight_decay", &ParamGroup::decoupled_weight_decay},
    {"maximize", &ParamGroup::maximize},
};

template <class Optimizer>
std::shared_ptr<optim::Optimizer> make(const std::vector<ParamGroup>& groups) {
  return std::make_shared<Optimizer>(groups);
}

using Make = std::shared_ptr<optim::Optimizer> (*)(const std::vector<ParamGroup>&);
const std::map<std::string, Make> kOptimizers = {
    {"SGD", make<optim::SGD>},         {"Adam", make<optim::Adam>},
    {"AdamW", make<optim::AdamW>},     {"NAdam", make<optim::NAdam>},
    {"RAdam", make<optim::RAdam>},     {"RMSprop", make<optim::RMSprop>},
    {"Adagrad", make<optim::Adagrad>}, {"Adadelta", make<optim::Adadelta>},
    {"Adamax", make<optim::Adamax>},   {"Muon", make<optim::Muon>},
    {"Lion", make<optim::Lion>},       {"LAMB", make<optim::LAMB>},
};

void set_option(ParamGroup& group, const std::string& name, double value) {
  if (const auto number = kNumbers.find(name); number != kNumbers.end())
    group.*number->second = value;
  else if (name == "ns_steps")
    group.ns_steps = static_cast<int>(value);
  else if (name == "adjust_lr")
    group.adjust_lr = static_cast<optim::AdjustLr>(value);
  else
    group.*kFlags.at(name) = value != 0;
}

}  // namespace

ParamGroup options_of(const std::string& text) {
  ParamGroup group;
  std::istringstream items(text);
  for (std::string item; items >> item;) {
    const size_t at = item.find('=');
    set_option(group, item.substr(0, at), std::stod(item.substr(at + 1)));
  }
  return group;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kOptimizers) names.push_back(name);
  return names;
}

std::shared_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 const std::vector<ParamGroup>& groups) {
  return kOptimizers.at(name)(groups);
}

std::shared_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 const Parameters& parameters,
                                                 const std::string& first,
                                                 const std::string& second) {
  ParamGroup one = options_of(first);
  if (second == "-") {
    one.parameters = parameters;
    return make_optimizer(name, {one});
  }
  ParamGroup other = options_of(first + " " + second);
  one.parameters = {parameters[0], parameters[1]};
  other.parameters = {parameters.begin() + 2, parameters.end()};
  return make_optimizer(name, {one, other});
}

Parameters first_parameters(const std::string& name, DType dtype) {
  const std::vector<Shape> shapes = name == "Muon"
                                        ? std::vector<Shape>{{3, 4}, {5, 2}, {2, 2}, {4, 2}}
                                        : std::vector<Shape>{{3, 4}, {5}, {}, {4, 2}};
  Parameters out;
  for (const Shape& shape : shapes) {
    const double k = static_cast<double>(out.size());
    const Tensor row = cos(arange(ir::numel(shape), f64) * 0.7 + k);
    out.push_back(row.reshape(shape).to(dtype).requires_grad_());
  }
  return out;
}

Tensor gradient_of(const Tensor& p, int step, size_t k) {
  if ((k == 1 && step % 3 == 1) || (k == 2 && step < 2)) return {};
  const NoGrad no_grad;
  return p * 0.3 + sin(p * 1.7 + (step + static_cast<int>(k)));
}

void set_gradients(const Parameters& parameters, int step) {
  for (size_t k = 0; k < parameters.size(); ++k)
    parameters[k].set_grad(gradient_of(parameters[k], step, k));
}

void run_steps(optim::Optimizer& optimizer, const Parameters& parameters, int from, int to) {
  for (int step = from; step < to; ++step) {
    if (step == 10)
      for (const optim::Group& group : optimizer.param_groups())
        group.set("lr", group.get("lr") * 0.5);
    set_gradients(parameters, step);
    optimizer.step();
  }
}

std::vector<double> flat(const Parameters& parameters) {
  std::vector<double> out;
  for (const Tensor& p : parameters)
    for (const double v : p.to_vector<double>()) out.push_back(v);
  return out;
}

std::vector<std::vector<std::string>> read_table(const std::string& name) {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/torch/" + name);
  if (!file) throw std::runtime_error("no " + name);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    auto& row = rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '\t');) row.push_back(cell);
  }
  return rows;
}

std::vector<double> numbers_in(const std::string& text) {
  std::istringstream words(text);
  std::vector<double> out;
  for (std::string word; words >> word;) out.push_back(std::stod(word));
  return out;
}

}  // namespace tandem::testing
