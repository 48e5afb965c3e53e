// Loops of selections with AVX-512: compiled for it, so nothing here may be a function that others
// share.
#include <cstring>

#include "machine/lines/selection.h"
#include "machine/unroll.h"

namespace tandem::machine::lines {
namespace {

constexpr int kBytes = 64;  // of a vector

#include "machine/lines/selection.inc"

}  // namespace

constinit const Selections kSelectionsAvx512 = selections_of(Selections{});

}  // namespace tandem::machine::lines
