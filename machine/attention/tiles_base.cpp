// Tiles with what every processor has.
#include <cmath>

#include "machine/attention/tiles.h"
#include "machine/unroll.h"

namespace tandem::machine::attention {
namespace {

constexpr int kLanes = 4, kRows = 2, kVectors = 4;
using F = float __attribute__((vector_size(16)));
using I = int32_t __attribute__((vector_size(16)));

F load(const float* p) { return F{p[0], p[1], p[2], p[3]}; }
void store(float* p, F x) {
  for (int i = 0; i < kLanes; ++i) p[i] = x[i];
}
F broadcast(float x) { return F{x, x, x, x}; }
F add(F a, F b) { return a + b; }
F sub(F a, F b) { return a - b; }
F mul(F a, F b) { return a * b; }
F fma(F a, F b, F c) { return a * b + c; }
F embedded_fma(const float* a, F b, F c) { return fma(broadcast(*a), b, c); }
F largest(F a, F b) { return a > b ? a : b; }
F rounded(F x) {
  return F{std::nearbyint(x[0]), std::nearbyint(x[1]), std::nearbyint(x[2]), std::nearbyint(x[3])};
}
/// `n` between -127 and 128.
F times_power(F x, F n) {
  const I exponent = (__builtin_convertvector(n, I) + 127) << 23;
  return x * reinterpret_cast<F>(exponent);
}
/// `a` where x < y, else `b`.
F less(F x, F y, F a, F b) { return x < y ? a : b; }
/// Bytes as numbers.
F widened(const uint8_t* p) {
  return F{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]),
           static_cast<float>(p[3])};
}

#include "machine/vectors/multiples.inc"

}  // namespace
}  // namespace tandem::machine::attention

#include "machine/attention/tiles.inc"

namespace tandem::machine::attention {
const Tiles kTilesBase = kTiles;
}
