// The programs of the table of `./dev bench partition`.
#ifndef TANDEM_BENCH_PARTITION_PROGRAMS_H
#define TANDEM_BENCH_PARTITION_PROGRAMS_H

#include <tandem/tandem.h>

#include <functional>
#include <string>
#include <vector>

namespace bench {

using Tensors = std::vector<tandem::Tensor>;

/// A scalar function of tensors, with its arguments.
struct Program {
  std::string name;
  Tensors inputs;
  std::function<tandem::Tensor(const Tensors&)> loss;
};

std::vector<Program> programs();
/// Four transformer blocks, for the curve of memory budgets.
Program four_blocks();

}  // namespace bench

#endif  // TANDEM_BENCH_PARTITION_PROGRAMS_H
