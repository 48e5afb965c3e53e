// Measures what the partitioner's prices are on this machine.
#ifndef TANDEM_TOOLS_CALIBRATE_H
#define TANDEM_TOOLS_CALIBRATE_H

#include "codegen/cost/costs.h"

namespace tandem::tools {

/// Times every pointwise operator, streaming from memory and contractions, in generated code. Takes
/// some seconds; nothing else should run meanwhile.
codegen::CostTable calibrate();

}  // namespace tandem::tools

#endif  // TANDEM_TOOLS_CALIBRATE_H
