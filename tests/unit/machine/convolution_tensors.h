// Tensors for tests of convolutions: numbers that any dtype holds exactly.
#ifndef TANDEM_TESTS_UNIT_MACHINE_CONVOLUTION_TENSORS_H
#define TANDEM_TESTS_UNIT_MACHINE_CONVOLUTION_TENSORS_H

#include <algorithm>
#include <cstdint>
#include <vector>

#include "machine/windows/convolution.h"

namespace tandem::machine {

template <class T>
struct Tensors {
  std::vector<T> x, w, y, bias;

  ConvolutionData<T> data(Sought sought, bool has_bias) {
    return {x.data(), w.data(), y.data(),
            has_bias && sought != Sought::Weight ? bias.data() : nullptr};
  }
  std::vector<T>& result(Sought sought) {
    return sought == Sought::Output ? y : sought == Sought::Input ? x : w;
  }
};

template <class T>
std::vector<T> numbers(int64_t n, int64_t seed) {
  std::vector<T> out;
  for (int64_t i = 0; i < n; ++i)
    out.push_back(static_cast<T>((i * 37 + seed * 11) % 101 - 50) / static_cast<T>(32));
  return out;
}

template <class T>
Tensors<T> tensors(const ConvolutionSpec& s) {
  return {numbers<T>(s.images * s.in * product(s.input), 1),
          numbers<T>(s.out * (s.in / s.groups) * product(s.kernel), 2),
          numbers<T>(s.images * s.out * product(s.output), 3),
          numbers<T>(std::max(s.in, s.out), 4)};
}

}  // namespace tandem::machine

#endif  // TANDEM_TESTS_UNIT_MACHINE_CONVOLUTION_TENSORS_H
