// Nocedal & Wright, Numerical Optimization, algorithms 3.5 (a bracket is found) and 3.6 (it is made
// small), with cubic interpolation, as PyTorch has them.
#include "runtime/optim/line_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem::optim {
namespace {

constexpr double kDecrease = 1e-4, kCurvature = 0.9;

/// Where the cubic through two points with their slopes is least, within bounds.
double cubic_minimum(const LinePoint& a, const LinePoint& b, double least, double most) {
  const LinePoint &left = a.t <= b.t ? a : b, &right = a.t <= b.t ? b : a;
  const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (least + most) / 2;
  const double d2 = std::sqrt(square);
  const double at = right.t - (right.t - left.t) *
                                  ((right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2));
  return std::min(std::max(at, least), most);
}

class Search {
 public:
  Search(const LinePoint& start, const LineSearchLimits& limits,
         ir::FunctionRef<LinePoint(double)> evaluate)
      : start_(start), limits_(limits), evaluate_(evaluate) {}

  FoundPoint run(double t) {
    if (!find_bracket(t)) make_small();
    return {low_, evaluations_};
  }

 private:
  LinePoint at(double t) {
    ++evaluations_;
    return evaluate_(t);
  }
  bool is_too_high(const LinePoint& p) const {
    return p.loss > start_.loss + kDecrease * p.t * start_.slope;
  }
  bool is_flat(const LinePoint& p) const { return std::abs(p.slope) <= -kCurvature * start_.slope; }
  void set_bracket(const LinePoint& first, const LinePoint& second) {
    const bool in_order = first.loss <= second.loss;
    low_ = in_order ? first : second;
    high_ = in_order ? second : first;
  }

  /// Leaves in low_ a point that meets both conditions (then true), or in low_ and high_ a bracket.
  bool find_bracket(double t) {
    LinePoint before = start_, now = at(t);
    for (iterations_ = 0; iterations_ < limits_.iterations; ++iterations_) {
      if (is_too_high(now) || (iterations_ > 1 && now.loss >= before.loss) ||
          (!is_flat(now) && now.slope >= 0)) {
        set_bracket(before, now);
        return false;
      }
      if (is_flat(now)) {
        low_ = now;
        return true;
      }
      const double next = cubic_minimum(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10);
      before = std::exchange(now, at(next));
    }
    set_bracket(start_, now);
    return false;
  }

  /// A step within the bracket, not twice close to the same end.
  double step_within() {
    const double least = std::min(low_.t, high_.t), most = std::max(low_.t, high_.t),
                 margin = 0.1 * (most - least);
    const double t = cubic_minimum(low_, high_, least, most);
    const bool is_close = std::min(most - t, t - least) < margin;
    if (!is_close || !(progressed_little_ || t >= most || t <= least)) {
      progressed_little_ = is_close;
      return t;
    }
    progressed_little_ = false;
    return std::abs(t - most) < std::abs(t - least) ? most - margin : least + margin;
  }

  void make_small() {
    for (; iterations_ < limits_.iterations; ++iterations_) {
      if (std::abs(high_.t - low_.t) * limits_.largest_direction < limits_.tolerance_change) return;
      const LinePoint now = at(step_within());
      if (is_too_high(now) || now.loss >= low_.loss) {
        const LinePoint other = low_;
        set_bracket(other, now);
        continue;
      }
      const bool is_done = is_flat(now);
      if (!is_done && now.slope * (high_.t - low_.t) >= 0) high_ = low_;
      low_ = now;
      if (is_done) return;
    }
  }

  const LinePoint& start_;
  const LineSearchLimits& limits_;
  ir::FunctionRef<LinePoint(double)> evaluate_;
  LinePoint low_, high_;
  int64_t evaluations_ = 0, iterations_ = 0;
  bool progressed_little_ = false;
};

}  // namespace

FoundPoint strong_wolfe(const LinePoint& start, double t, const LineSearchLimits& limits,
                        ir::FunctionRef<LinePoint(double t)> evaluate) {
  return Search(start, limits, evaluate).run(t);
}

}  // namespace tandem::optim
