#include "bench/limits/precision.h"

#include <tandem/tandem.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "bench/limits/machine.h"

namespace bench {
namespace {

namespace td = tandem;
using td::Tensor;

constexpr int kTurns = 5;
constexpr double kSeconds = 0.05;

struct Size {
  int64_t m, n, k;
};
constexpr Size kSizes[] = {
    {512, 768, 768}, {512, 4096, 4096}, {1024, 1024, 1024}, {2048, 2048, 2048}};

struct Precision {
  const char* name;
  td::MatmulPrecision value;
  double seconds = INFINITY;
};

/// Relative to the results: the root of the mean of squares, of the first rows.
double error_of(const Tensor& a, const Tensor& b, const Tensor& c) {
  constexpr int64_t kRows = 32;
  const Tensor exact = td::matmul(a.slice(0, 0, kRows).to(td::f64), b.to(td::f64));
  const Tensor errors = c.slice(0, 0, kRows).to(td::f64) - exact;
  return std::sqrt(td::sum(errors * errors).item<double>() / td::sum(exact * exact).item<double>());
}

/// The precisions take turns.
void measure(const Size& size) {
  const Tensor a = td::randn({size.m, size.k}), b = td::randn({size.k, size.n});
  const auto product = td::compile(
      [](const Tensor& x, const Tensor& y) { return td::matmul(x, y); }, {.name = "limits"});
  Precision all[] = {{"highest", td::MatmulPrecision::Highest},
                     {"high", td::MatmulPrecision::High},
                     {"medium", td::MatmulPrecision::Medium}};
  for (int turn = 0; turn < kTurns; ++turn)
    for (Precision& p : all) {
      const td::MatmulPrecisionScope scope(p.value);
      p.seconds = std::min(p.seconds, best_time([&] { product(a, b); }, kSeconds));
    }
  const double operations = 2e-9 * static_cast<double>(size.m * size.n * size.k);
  for (const Precision& p : all) {
    const td::MatmulPrecisionScope scope(p.value);
    std::printf("%-24s %5lld x %lld x %lld %10.1f us %8.1f Gflop/s %5.2f %9.1e\n", p.name,
                static_cast<long long>(size.m), static_cast<long long>(size.n),
                static_cast<long long>(size.k), p.seconds * 1e6, operations / p.seconds,
                all[0].seconds / p.seconds, error_of(a, b, product(a, b)));
  }
  std::fflush(stdout);
}

}  // namespace

void measure_precisions(const char* only) {
  if (!std::strstr("precision", only)) return;
  const td::NoGrad no_grad;
  std::printf("\n%-24s %18s %13s %16s %s %s\n", "precision of f32 products", "size", "took", "rate",
              "of highest", "error");
  for (const Size& size : kSizes) measure(size);
}

}  // namespace bench
