// Runs the steps of an AliasProgram on tensors, eager or traced.
#ifndef TANDEM_TESTS_SUPPORT_RANDOM_ALIAS_MACHINE_H
#define TANDEM_TESTS_SUPPORT_RANDOM_ALIAS_MACHINE_H

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/random/alias_program.h"

namespace tandem::testing {

/// Beyond it sums in `dtype` may round. (Integers are exact modulo what they hold.)
double largest_exact(DType dtype);

/// The tensors that a program has made so far; steps that do not apply to what they meet do
/// nothing. Looks at geometry only, so that eager and traced runs take the same steps.
class AliasMachine {
 public:
  explicit AliasMachine(const Tensors& inputs, std::vector<std::string>* text = nullptr)
      : pool_(inputs), text_(text) {
    for (const Tensor& t : inputs) largest_ = std::min(largest_, largest_exact(t.dtype()));
  }

  void run(const AliasProgram::Step& s);
  /// Runs it unless eager refuses to: the kind of the error, or -1.
  int try_to_run(const AliasProgram::Step& s);
  uint32_t number(uint32_t n) const { return n % static_cast<uint32_t>(pool_.size()); }
  Tensors outputs(const std::vector<uint32_t>& numbers) const {
    Tensors out;
    for (uint32_t n : numbers) out.push_back(pool_[n % pool_.size()]);
    return out;
  }
  const Tensors& all() const { return pool_; }

 private:
  const Tensor& at(uint32_t n) const { return pool_[number(n)]; }
  /// The first tensor from `n` on that broadcasts to `t`.
  uint32_t operand_for(const Tensor& t, uint32_t n) const;
  void add(Tensor t, const std::string& what);
  void say(std::string what);
  void view(const AliasProgram::Step& s);
  void arithmetic(const AliasProgram::Step& s);
  void write(const AliasProgram::Step& s);

  Tensors pool_;
  double bound_ = 4;                     // of every magnitude so far
  double largest_ = largest_exact(f32);  // that it may be
  std::vector<std::string>* text_;
};

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_RANDOM_ALIAS_MACHINE_H
