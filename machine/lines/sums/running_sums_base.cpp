// Running sums of lines with what every x86-64 has.
#include <cstring>

#include "machine/lines/sums/running_sums.h"
#include "machine/unroll.h"

namespace tandem::machine::lines {
namespace {

constexpr int kBytes = 16;  // of a vector

#include "machine/lines/sums/running_sums.inc"

}  // namespace

const RunningSumKernels kRunningSumsBase = kSums;

}  // namespace tandem::machine::lines
