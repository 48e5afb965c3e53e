// Compiled functions of the library's own.
#ifndef TANDEM_RUNTIME_COMPILE_LIBRARY_FUNCTION_H
#define TANDEM_RUNTIME_COMPILE_LIBRARY_FUNCTION_H

#include <tandem/compile.h>

#include <string>

namespace tandem::runtime {

/// make_function_cache, without a warning of many codes.
std::shared_ptr<FunctionCache> make_library_cache(const CompileOptions& options);

/// compile(fn) for lists of tensors that are the caller's, as the gradients that are clipped: how
/// many of them a program has is no fault of it, so nobody is warned of much new code.
template <class Fn>
auto compile_library_function(Fn fn, std::string name) {
  CompileOptions options;
  options.name = std::move(name);
  return decltype(compile(fn, options))(fn, make_library_cache(options));
}

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_COMPILE_LIBRARY_FUNCTION_H
