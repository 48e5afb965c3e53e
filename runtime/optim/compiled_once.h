// Functions of this folder that are compiled, once for the process.
#ifndef TANDEM_RUNTIME_OPTIM_COMPILED_ONCE_H
#define TANDEM_RUNTIME_OPTIM_COMPILED_ONCE_H

#include "runtime/compile/library_function.h"

namespace tandem::optim {

/// Never destroyed, so that it may be called until the process ends.
template <auto Function>
const auto& compiled_once(const char* name) {
  static const auto& compiled = *new auto(runtime::compile_library_function(Function, name));
  return compiled;
}

/// A number as a Scalar in full precision, whatever it comes as.
inline Scalar scalar_of(const Located& number) {
  return number.tensor == nullptr ? Scalar(number.number) : Scalar(*number.tensor);
}

}  // namespace tandem::optim

#endif  // TANDEM_RUNTIME_OPTIM_COMPILED_ONCE_H
