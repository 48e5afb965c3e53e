// Windows of signals.
#include <fmt/format.h>
#include <tandem/ops/shapes.h>
#include <tandem/ops/special.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/ops/call.h"

namespace tandem::signal::windows {
namespace {

void require_window(Dim n, DType dtype) {
  if (n < 0)
    ir::fail(Errc::Argument, fmt::format("{}: expected a length of at least 0, got {}",
                                         ir::ErrorScope::function(), int64_t{n}));
  if (dtype != f32 && dtype != f64)
    ir::fail(Errc::DType, fmt::format("{}: expected f32 or f64, got {}", ir::ErrorScope::function(),
                                      ir::name(dtype)));
}

void require(bool holds, std::string_view what, double got) {
  if (!holds)
    ir::fail(Errc::Argument,
             fmt::format("{}: expected {}, got {}", ir::ErrorScope::function(), what, got));
}

/// The numbers of intervals in which a window of n runs from end to end.
double intervals(Dim n, bool sym) {
  return std::max(1.0, static_cast<double>(int64_t{n}) - (sym ? 1 : 0));
}

/// n numbers from `start` on, at distances of `step`.
Tensor line(Dim n, double start, double step, DType dtype, const SourceLocation& at) {
  require_window(n, dtype);
  const double last = static_cast<double>(int64_t{n}) - 1;
  return linspace(start, start + last * step, n, dtype, at);
}

Tensor cosines(Dim n, const std::vector<double>& a, bool sym, DType dtype,
               const SourceLocation& at) {
  if (a.empty())
    ir::fail(Errc::Argument,
             ir::ErrorScope::function() + ": expected at least one coefficient, got none");
  const Tensor x = line(n, 0, 2 * std::numbers::pi / intervals(n, sym), dtype, at);
  if (n == 1) return ones({1}, dtype, at);
  Tensor sum = full({n}, a[0], dtype, at);
  for (size_t i = 1; i < a.size(); ++i)
    sum = sum + cos(x * static_cast<double>(i)) * (i % 2 == 1 ? -a[i] : a[i]);
  return sum;
}

double middle(Dim n, bool sym) { return n == 1 ? 0 : intervals(n, sym) / 2; }

}  // namespace

Tensor bartlett(Dim n, bool sym, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  const Tensor x = line(n, -1, 2 / intervals(n, sym), dtype, at);
  return n == 1 ? ones({1}, dtype, at) : 1 - abs(x);
}
Tensor blackman(Dim n, bool sym, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return cosines(n, {0.42, 0.5, 0.08}, sym, dtype, at);
}
Tensor cosine(Dim n, bool sym, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  const double step = std::numbers::pi / (n == 1 ? 1 : intervals(n, sym) + 1);
  return sin(line(n, step / 2, step, dtype, at));
}
Tensor hann(Dim n, bool sym, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return cosines(n, {0.5, 0.5}, sym, dtype, at);
}
Tensor hamming(Dim n, bool sym, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return cosines(n, {0.54, 1 - 0.54}, sym, dtype, at);
}
Tensor nuttall(Dim n, bool sym, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return cosines(n, {0.3635819, 0.4891775, 0.1365995, 0.0106411}, sym, dtype, at);
}
Tensor general_cosine(Dim n, const std::vector<double>& a, bool sym, DType dtype,
                      SourceLocation at) {
  const ir::ErrorScope errors(at);
  return cosines(n, a, sym, dtype, at);
}
Tensor general_hamming(Dim n, double alpha, bool sym, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return cosines(n, {alpha, 1 - alpha}, sym, dtype, at);
}
Tensor exponential(Dim n, std::optional<double> center, double tau, bool sym, DType dtype,
                   SourceLocation at) {
  const ir::ErrorScope errors(at);
  require(tau > 0, "tau above 0", tau);
  require(!sym || !center, "no center of a symmetric window", center.value_or(0));
  return exp(-abs(line(n, -center.value_or(middle(n, sym)) / tau, 1 / tau, dtype, at)));
}
Tensor gaussian(Dim n, double std, bool sym, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require(std > 0, "std above 0", std);
  const double step = 1 / (std * std::numbers::sqrt2);
  return exp(-square(line(n, -middle(n, sym) * step, step, dtype, at)));
}
Tensor kaiser(Dim n, double beta, bool sym, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require(beta >= 0, "beta of at least 0", beta);
  if (n == 1) return ones({1}, dtype, at);
  const Tensor most = full({}, beta, dtype, at);
  const Tensor x = minimum(line(n, -beta, 2 * beta / intervals(n, sym), dtype, at), most);
  return i0(sqrt(clamp_min(most * most - square(x), 0))) / i0(most);
}

}  // namespace tandem::signal::windows
