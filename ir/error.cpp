#include "ir/error.h"

#include <fmt/format.h>

namespace tandem::ir {

std::string_view name(Errc code) {
  static constexpr std::string_view kNames[] = {
      "shape",    "dtype", "argument", "index", "version",     "autograd",      "trace",
      "mutation", "parse", "graph",    "file",  "unsupported", "out_of_memory", "partition"};
  return kNames[static_cast<size_t>(code)];
}

void fail(Errc code, const std::string& message) { throw Error(code, message); }

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(fmt::format("internal check failed: {} ({}:{}){}{}", condition, file, line,
                                  message.empty() ? "" : ": ", message));
}

}  // namespace tandem::ir
