// One or more equations of every differentiable op, on small operands away from kinks.
#ifndef TANDEM_TESTS_UNIT_AUTODIFF_SAMPLES_H
#define TANDEM_TESTS_UNIT_AUTODIFF_SAMPLES_H

#include <string>
#include <vector>

#include "ir/buffer.h"
#include "ir/graph.h"

namespace tandem::test {

struct Sample {
  ir::Op op;
  std::vector<ir::Buffer> operands;  // f64 where floating
  std::vector<ir::AttrValue> attrs;
  bool twice = true;         // whether second derivatives are checked
  std::string name() const;  // the op's, for messages
};

std::vector<Sample> samples();

}  // namespace tandem::test

#endif  // TANDEM_TESTS_UNIT_AUTODIFF_SAMPLES_H
