// Loops of selections with what every x86-64 has.
#include <cstring>

#include "machine/lines/selection.h"
#include "machine/unroll.h"

namespace tandem::machine::lines {
namespace {

constexpr int kBytes = 16;  // of a vector

#include "machine/lines/selection.inc"

}  // namespace

constinit const Selections kSelectionsBase = selections_of(Selections{});

}  // namespace tandem::machine::lines
