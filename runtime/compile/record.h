// Tracing a function once.
#ifndef TANDEM_RUNTIME_COMPILE_RECORD_H
#define TANDEM_RUNTIME_COMPILE_RECORD_H

#include <string>

#include "runtime/compile/variant.h"

namespace tandem::runtime {

/// Runs the function on stand-ins and reads off what it recorded. `bounds_memory`: scans keep less
/// for backward.
Recording record(const std::string& name, Tracer tracer, bool bounds_memory = false);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_COMPILE_RECORD_H
