// What a training step does, part by part, and how to tell that nothing of it happened.
#ifndef TANDEM_TESTS_OOM_CASES_H
#define TANDEM_TESTS_OOM_CASES_H

#include <tandem/tandem.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tandem::testing {

/// A model in training. Which functions a case compiles, and when, is up to it.
struct World {
  Tensor weight = randn({4, 8}).requires_grad_(), bias = zeros({4}).requires_grad_();
  Tensor x = randn({16, 8}), y = randn({16, 4});
  Tensor mean = zeros({4}), large = zeros({40000}), square = randn({128, 128});
  Tensor hidden;  // computed from weight, where a step writes it
  std::unique_ptr<optim::AdamW> optimizer = std::make_unique<optim::AdamW>(
      std::vector<Tensor>{weight, bias}, optim::AdamWOptions{.lr = 0.1});
  std::function<Tensor(World&)> loss;  // of the model
  std::function<void(World&)> update;  // of buffers
  Tensor out;                          // what the step gives
};

struct Case {
  const char* name;
  void (*prepare)(World&);               // all allocations succeed
  void (*step)(World&);                  // what is watched
  void (*rest)(World&) = [](World&) {};  // after it
  bool allocates = true;
  bool on_workers = false;  // of the allocations only those on the pool's workers count
};

std::span<const Case> cases();

/// All that a failed step leaves alone: contents of parameters, inputs and buffers, and what the
/// generator gives next, which starts again from the seed of every step.
std::string kept(const World& world);
std::vector<std::string> gradients(const World& world);
std::string result(const World& world);
void seed();

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_OOM_CASES_H
