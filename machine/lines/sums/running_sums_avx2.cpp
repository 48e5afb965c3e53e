// Running sums of lines with AVX2: compiled for it, so nothing here may be a function that others
// share.
#include <cstring>

#include "machine/lines/sums/running_sums.h"
#include "machine/unroll.h"

namespace tandem::machine::lines {
namespace {

constexpr int kBytes = 32;  // of a vector

#include "machine/lines/sums/running_sums.inc"

}  // namespace

const RunningSumKernels kRunningSumsAvx2 = kSums;

}  // namespace tandem::machine::lines
