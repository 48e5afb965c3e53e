// Runs of halves become f32, and f32 become halves: the bits that load() and store() of element.h
// give, by vectors of each instruction set.
#ifndef TANDEM_MACHINE_HALVES_HALVES_H
#define TANDEM_MACHINE_HALVES_HALVES_H

#include <cstdint>
#include <tuple>

#include "machine/element.h"

namespace tandem::machine {

/// Of `n` elements that lie side by side.
template <class T>
struct HalfRuns {
  void (*widen)(const T* from, int64_t n, float* to);
  void (*narrow)(const float* from, int64_t n, T* to);
};
using Halves = std::tuple<HalfRuns<Bf16>, HalfRuns<F16>>;

extern const Halves kHalvesBase, kHalvesAvx2, kHalvesAvx512;

/// Those of this processor.
const Halves& halves();

template <class T>
void widen(const T* from, int64_t n, float* to) {
  std::get<HalfRuns<T>>(halves()).widen(from, n, to);
}
template <class T>
void narrow(const float* from, int64_t n, T* to) {
  std::get<HalfRuns<T>>(halves()).narrow(from, n, to);
}

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_HALVES_HALVES_H
