// Tracing a function once.
#ifndef TANDEM_RUNTIME_COMPILE_RECORD_H
#define TANDEM_RUNTIME_COMPILE_RECORD_H

#include <string>

#include "runtime/compile/variant.h"

namespace tandem::runtime {

/// Runs the function on stand-ins and reads off what it recorded.
Recording record(const std::string& name, Tracer tracer);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_COMPILE_RECORD_H
