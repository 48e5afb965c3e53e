// Loops and branches that several checks differentiate: programs of f64 tensors, with arguments.
#ifndef TANDEM_TESTS_E2E_CONTROL_FLOW_PROGRAMS_H
#define TANDEM_TESTS_E2E_CONTROL_FLOW_PROGRAMS_H

#include <tandem/tandem.h>

#include <utility>

#include "tests/support/check_compiled.h"

namespace tandem::testing {

struct Example {
  Program program;
  Tensors args;
};

/// A scan with two carries, one of them a count.
inline Example counted_scan(int64_t length, bool reverse) {
  return {[=](const Tensors& t) {
            const auto [last, ys] = scan(
                [&](const std::pair<Tensor, Tensor>& c, const Tensor& x) {
                  const Tensor next = tanh(c.first * t[2] + x);
                  return std::pair(std::pair(next, c.second + 1), next * x + c.second);
                },
                std::pair(t[0], full({}, 0, DType::I64)), t[1],
                {.length = length, .reverse = reverse});
            return Tensors{last.first, ys};
          },
          {noise({3}, 1, f64), noise({length, 3}, 2, f64), noise({3}, 3, f64)}};
}

/// A scan whose steps write their carry and a tensor from outside, and a branch that writes it.
inline Example writes() {
  return {[](const Tensors& t) {
            Tensor total = t[2] * 1;
            const auto [last, ys] = scan(
                [&](const Tensor& c, const Tensor& x) {
                  c.mul_(x);
                  total.add_(c * c);
                  return std::pair(c, total + x);
                },
                t[0], t[1]);
            cond(last.sum() > 0, [&] { total.mul_(total); }, [&] { total.mul_(last); });
            return Tensors{last, ys, total};
          },
          {noise({3}, 1, f64), noise({3, 3}, 2, f64), noise({3}, 3, f64)}};
}

/// A branch in a loop in a scan.
inline Example nested_loops() {
  return {[](const Tensors& t) {
            const auto once = [&](const Tensor& x) {
              return [&](const Tensor& i, const Tensor& v) {
                return cond(i < 1, [&] { return sin(v) * x; }, [&] { return v * t[2]; });
              };
            };
            const auto step = [&](const Tensor& c, const Tensor& x) {
              const Tensor y = fori_loop(0, 2, once(x), c);
              return std::pair(y, (y * y).sum());
            };
            return Tensors{scan(step, t[0], t[1]).second};
          },
          {noise({2}, 1, f64), noise({3, 2}, 2, f64), noise({2}, 3, f64)}};
}

/// Products in the steps of a scan, in a branch there and in a branch of its own: what they give is
/// kept for backward.
inline Example cells() {
  return {[](const Tensors& t) {
            const auto step = [&](const Tensor& h, const Tensor& x) {
              const Tensor next = tanh(matmul(h, t[2]) + x);
              const Tensor y = cond(
                  x.sum() > 0, [&] { return sin(matmul(next, t[2].t())); },
                  [&] { return next * h; });
              return std::pair(next * 0.5 + y, y);
            };
            const auto [last, ys] = scan(step, t[0], t[1]);
            const Tensor out = cond(
                last.sum() > 0, [&] { return cos(matmul(last, t[2])) * last; },
                [&] { return matmul(sin(matmul(last, t[2])), t[2]); });
            return Tensors{out, ys};
          },
          {noise({2, 3}, 1, f64), noise({4, 2, 3}, 2, f64), noise({3, 3}, 3, f64)}};
}

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_E2E_CONTROL_FLOW_PROGRAMS_H
