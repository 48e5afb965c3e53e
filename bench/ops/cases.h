// The functions that `./dev bench ops` times: the inputs that each is given, and the call.
// operators.py has the same, by the same names.
#ifndef TANDEM_BENCH_OPS_CASES_H
#define TANDEM_BENCH_OPS_CASES_H

#include <tandem/tandem.h>

#include <string>
#include <vector>

namespace bench {

using Tensors = std::vector<tandem::Tensor>;

struct OpCase {
  std::string name;
  Tensors (*inputs)();  // those of floating dtype are differentiated
  tandem::Tensor (*call)(const Tensors& inputs);
  bool differentiates = true;
  bool compiles = true;  // or the sizes of its result depend on data
};

const std::vector<OpCase>& op_cases();

}  // namespace bench

#endif  // TANDEM_BENCH_OPS_CASES_H
