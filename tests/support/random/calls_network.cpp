#include <sstream>
#include <string_view>

#include "ir/dim.h"
#include "tests/support/random/calls.h"

namespace tandem::testing {
namespace {

constexpr std::string_view kNames = "xwbyzijm";

/// What a norm gives, and what it made of copies of the running statistics.
template <class Norm>
Tensor with_running(Norm norm, const Tensor& x, const Tensor& mean, const Tensor& var,
                    const Tensor& w, const Tensor& b, bool training, double momentum) {
  const Tensor own_mean = mean.detach().clone(), own_var = var.detach().clone();
  const Tensor result =
      norm(x, own_mean, own_var, w, b, training, momentum, 1e-5, SourceLocation::current());
  return cat({result.reshape({-1}), own_mean, own_var});
}

#define CASE(operands, ...)                                                               \
  {operands, #__VA_ARGS__, [](const CallOperands& o, const Number&) -> Tensor {           \
     [[maybe_unused]] const Tensor &x = o[0], &w = o[1], &b = o[2], &y = o[3], &z = o[4], \
                                   &i = o[5], &j = o[6], &m = o[7];                       \
     return __VA_ARGS__;                                                                  \
   }},

Tensor made(char name, const std::string& text) {
  const size_t below = text.find('<');
  std::istringstream in(text.substr(0, below));
  Shape sizes;
  for (std::string size; std::getline(in, size, ',');) sizes.push_back(std::stoll(size));
  const Tensor n = arange(ir::numel(sizes)).view(sizes);
  if (name == 'm') return n % 3 != 1;
  if (name == 'i' || name == 'j') return (n * 7 + 3) % std::stoll(text.substr(below + 1));
  const auto k = static_cast<int64_t>(kNames.find(name));
  return ((n * 37 + k * 11) % 101 - 50).to(f64) / 32;
}

/// As `kind` says: x:2,3 i:4<5.
CallOperands operands(const std::string& kind, uint64_t) {
  CallOperands operands(kNames.size());
  std::istringstream in(kind);
  for (std::string word; in >> word;)
    operands[kNames.find(word[0])] = made(word[0], word.substr(2));
  return operands;
}

}  // namespace

const CallTable& network_calls() {  // NOLINT(readability-function-size): a table
  static const CallTable table{{
#include "tests/ops/network_values.inc"
#include "tests/support/random/more_calls.inc"
                               },
                               operands};
  return table;
}

}  // namespace tandem::testing
