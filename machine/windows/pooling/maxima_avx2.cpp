// Places of the largest elements of windows with AVX2: compiled for it, so nothing here may be a
// function that others share.
#include <cstring>
#include <type_traits>
#include <utility>

#include "machine/unroll.h"
#include "machine/windows/pooling/maxima.h"

namespace tandem::machine {
namespace {

constexpr int kBytes = 32;  // of a vector

#include "machine/windows/pooling/maxima.inc"

}  // namespace

const MaximaKernels kMaximaAvx2 = kMaxima;

}  // namespace tandem::machine
