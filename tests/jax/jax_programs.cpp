// Runs every program, eagerly and compiled, on inputs of its own and writes one line of JSON for
// each: {"name", "inputs": [{sizes, data}], "eager": [...], "compiled": [...]}, a tensor as its
// sizes and its numbers; {"failed"} with what was thrown in place of results. `./dev test-jax`
#include <cmath>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "tests/jax/programs.h"

namespace tandem::testing {
namespace {

using nlohmann::json;

/// Numbers between -1 and 1 that no symmetry relates.
Tensor input_of(const Shape& sizes, size_t program, size_t number) {
  std::vector<Number> data;
  Dim count = 1;
  for (const Dim size : sizes) count = count * size;
  for (int64_t i = 0; i < count; ++i)
    data.push_back(std::sin(1.7 * static_cast<double>(i + 1) + 0.9 * static_cast<double>(number) +
                            0.31 * static_cast<double>(program)));
  return from_numbers(data, sizes, f64);
}

json written(const Tensors& tensors) {
  json list = json::array();
  for (const Tensor& t : tensors) {
    json sizes = json::array();
    for (const Dim size : t.sizes()) sizes.push_back(int64_t{size});
    list.push_back({{"sizes", sizes}, {"data", t.detach().to(f64).to_vector<double>()}});
  }
  return list;
}

template <class Run>
json results_of(Run run) {
  try {
    return written(run());
  } catch (const std::exception& error) {
    return {{"failed", error.what()}};
  }
}

void run_all() {
  size_t number = 0;
  for (const auto programs : {derivative_programs(), control_flow_programs()})
    for (const JaxProgram& program : programs) {
      Tensors inputs;
      for (const Shape& sizes : program.inputs)
        inputs.push_back(input_of(sizes, number, inputs.size()));
      ++number;
      const auto compiled = compile(program.run);
      const json line = {{"name", program.name},
                         {"inputs", written(inputs)},
                         {"eager", results_of([&] { return program.run(inputs); })},
                         {"compiled", results_of([&] { return compiled(inputs); })}};
      std::puts(line.dump().c_str());
    }
}

}  // namespace
}  // namespace tandem::testing

int main() { tandem::testing::run_all(); }
