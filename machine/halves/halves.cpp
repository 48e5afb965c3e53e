#include "machine/halves/halves.h"

#include "machine/cpu.h"

namespace tandem::machine {
namespace {

template <class T>
constexpr HalfRuns<T> plain_loops() {
  return {.widen =
              [](const T* from, int64_t n, float* to) {
                for (int64_t i = 0; i < n; ++i) to[i] = load(from[i]);
              },
          .narrow =
              [](const float* from, int64_t n, T* to) {
                for (int64_t i = 0; i < n; ++i) to[i] = store<T>(from[i]);
              }};
}

const Halves& chosen() {
  if (!cpu_features().f16c) return kHalvesBase;
  return *for_this_processor(&kHalvesBase, &kHalvesAvx2, &kHalvesAvx512);
}

}  // namespace

constinit const Halves kHalvesBase{plain_loops<Bf16>(), plain_loops<F16>()};

const Halves& halves() {
  static const Halves& kept = chosen();
  return kept;
}

}  // namespace tandem::machine
