// The second table of ./dev bench limits: products, convolutions and attention, forward and
// backward, beside the f32 peak that is measured in turns with them.
#ifndef TANDEM_BENCH_LIMITS_ARITHMETIC_H
#define TANDEM_BENCH_LIMITS_ARITHMETIC_H

namespace bench {

/// Rows whose name has `only` in it.
void measure_arithmetic(const char* only);

}  // namespace bench

#endif  // TANDEM_BENCH_LIMITS_ARITHMETIC_H
