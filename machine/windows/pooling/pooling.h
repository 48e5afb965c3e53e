// Sums and maxima over windows of planes, contiguous. Each plane is computed by one thread.
#ifndef TANDEM_MACHINE_WINDOWS_POOLING_POOLING_H
#define TANDEM_MACHINE_WINDOWS_POOLING_POOLING_H

#include "machine/windows/convolution.h"
#include "machine/windows/pooling/maxima.h"

namespace tandem::machine {

/// Planes [input...] under windows of which there are [output...]. Of fewer than three dimensions
/// the first ones are of size 1.
struct WindowSpec {
  int64_t planes = 0;
  Extents input{1, 1, 1}, output{1, 1, 1};
  Extents window{1, 1, 1};  // 0: adaptive
  Extents stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
};

/// y: the sums over each window of x.
template <class T>
void sum_windows(const WindowSpec& spec, const T* x, T* y);
/// x: the sums of the elements of y in whose windows it lies.
template <class T>
void spread_windows(const WindowSpec& spec, const T* y, T* x);
/// Each window's largest element and its row-major place in its plane. No window is empty.
template <class T>
void find_maxima(const WindowSpec& spec, const T* x, Maxima<T> y,
                 const MaximaKernels& kernels = maxima_kernels());

#define TANDEM_WINDOWS(prefix, T)                              \
  prefix void sum_windows(const WindowSpec&, const T*, T*);    \
  prefix void spread_windows(const WindowSpec&, const T*, T*); \
  prefix void find_maxima(const WindowSpec&, const T*, Maxima<T>, const MaximaKernels&);
TANDEM_WINDOWS(extern template, float)
TANDEM_WINDOWS(extern template, double)
TANDEM_WINDOWS(extern template, int64_t)

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_POOLING_POOLING_H
