// Products with weights in i8, beside what memory and f32 arithmetic allow.
#ifndef TANDEM_BENCH_LIMITS_INT8_H
#define TANDEM_BENCH_LIMITS_INT8_H

namespace bench {

/// Those whose name has `only` in it, with their f32 counterparts.
void measure_int8(const char* only);

}  // namespace bench

#endif  // TANDEM_BENCH_LIMITS_INT8_H
