// Places of the largest elements of windows with what every x86-64 has.
#include <cstring>
#include <type_traits>
#include <utility>

#include "machine/unroll.h"
#include "machine/windows/pooling/maxima.h"

namespace tandem::machine {
namespace {

constexpr int kBytes = 16;  // of a vector

#include "machine/windows/pooling/maxima.inc"

}  // namespace

const MaximaKernels kMaximaBase = kMaxima;

}  // namespace tandem::machine
