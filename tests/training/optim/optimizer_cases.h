// The optimizers by name, and the runs of tests/torch/optimizers.py: the same parameters and
// gradients.
#ifndef TANDEM_TESTS_TRAINING_OPTIM_OPTIMIZER_CASES_H
#define TANDEM_TESTS_TRAINING_OPTIM_OPTIMIZER_CASES_H

#include <tandem/optim.h>

#include <memory>
#include <string>
#include <vector>

namespace tandem::testing {

using Parameters = std::vector<Tensor>;

/// "lr=0.1 amsgrad=1" as options.
optim::ParamGroup options_of(const std::string& text);

/// All but LBFGS.
std::vector<std::string> optimizer_names();
std::shared_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 const std::vector<optim::ParamGroup>& groups);
/// In one group, or with `second` the first two in one and the others in another.
std::shared_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 const Parameters& parameters,
                                                 const std::string& first,
                                                 const std::string& second = "-");

/// Where the runs start: of Muon, matrices.
Parameters first_parameters(const std::string& name, DType dtype = f64);
/// Undefined where parameter k has none in this step.
Tensor gradient_of(const Tensor& p, int step, size_t k);
void set_gradients(const Parameters& parameters, int step);
/// Steps from..to-1 of a run, in which all learning rates are halved before step 10.
void run_steps(optim::Optimizer& optimizer, const Parameters& parameters, int from, int to);

std::vector<double> flat(const Parameters& parameters);
std::vector<std::vector<std::string>> read_table(const std::string& file);
std::vector<double> numbers_in(const std::string& text);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_TRAINING_OPTIM_OPTIMIZER_CASES_H
