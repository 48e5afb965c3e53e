// Products of f32 matrices by precision.
#ifndef TANDEM_BENCH_LIMITS_PRECISION_H
#define TANDEM_BENCH_LIMITS_PRECISION_H

namespace bench {

/// Beside each other: highest, high and medium, if "precision" has `only` in it.
void measure_precisions(const char* only);

}  // namespace bench

#endif  // TANDEM_BENCH_LIMITS_PRECISION_H
