// The step length along a direction that meets the strong Wolfe conditions.
#ifndef TANDEM_RUNTIME_OPTIM_LINE_SEARCH_H
#define TANDEM_RUNTIME_OPTIM_LINE_SEARCH_H

#include <tandem/ir/function_ref.h>
#include <tandem/tensor.h>

namespace tandem::optim {

/// A point along the direction: at step length t, the loss, its gradient [n], and that along the
/// direction.
struct LinePoint {
  double t, loss;
  Tensor gradient;
  double slope;
};

struct LineSearchLimits {
  double largest_direction;  // of its elements
  double tolerance_change;
  int64_t iterations;
};

struct FoundPoint {
  LinePoint point;
  int64_t evaluations;
};

/// From `start` (t = 0), first to t.
FoundPoint strong_wolfe(const LinePoint& start, double t, const LineSearchLimits& limits,
                        ir::FunctionRef<LinePoint(double t)> evaluate);

}  // namespace tandem::optim

#endif  // TANDEM_RUNTIME_OPTIM_LINE_SEARCH_H
