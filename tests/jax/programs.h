// Programs of derivatives and control flow that compare.py writes in JAX too, under the same names.
#pragma once

#include <tandem/tandem.h>

#include <span>
#include <vector>

namespace tandem::testing {

using Tensors = std::vector<Tensor>;

/// What a program is called in compare.py, the sizes of the f64 tensors it is given, and how it is
/// written here.
struct JaxProgram {
  const char* name;
  std::vector<Shape> inputs;
  Tensors (*run)(const Tensors& inputs);
};

/// The programs of all `parts`, in order.
inline std::vector<JaxProgram> joined(std::initializer_list<std::vector<JaxProgram>> parts) {
  std::vector<JaxProgram> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::span<const JaxProgram> derivative_programs();
std::span<const JaxProgram> control_flow_programs();

}  // namespace tandem::testing
