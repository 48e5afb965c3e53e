#include "runtime/train/values.h"

#include <fmt/format.h>

#include "ir/base/error.h"

namespace tandem::runtime {
namespace {

bool has_earlier(const train::Values& values, size_t i) {
  for (size_t j = 0; j < i; ++j)
    if (values[j].first == values[i].first) return true;
  return false;
}

}  // namespace

void check_names(std::string_view log, const train::Values& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& name = values[i].first;
    if (name.empty() || name == "step" || has_earlier(values, i))
      ir::fail(ir::Errc::Argument,
               fmt::format("{}: expected names of their own for all values, got \"{}\"{}", log,
                           name, has_earlier(values, i) ? " twice" : ""));
  }
}

}  // namespace tandem::runtime
