#include "ir/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "ir/base/error_scope.h"

namespace tandem::ir {

std::string_view name(Errc code) {
  static constexpr std::string_view kNames[] = {
      "shape",    "dtype", "argument", "index", "version",     "autograd",      "trace",
      "mutation", "parse", "graph",    "file",  "unsupported", "out_of_memory", "partition"};
  return kNames[static_cast<size_t>(code)];
}

namespace {

thread_local const ErrorScope* t_scope = nullptr;

/// What follows the name of an operation at the start of `message`, or all of it: an environment
/// variable is what is wrong, whichever operation reads it first.
std::string_view without_name(std::string_view message) {
  if (message.starts_with("TANDEM_")) return message;
  const size_t end = message.find(": ");
  const auto is_name_char = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c));
  };
  const bool has_name =
      end != message.npos && std::ranges::all_of(message.substr(0, end), is_name_char);
  return has_name ? message.substr(end + 2) : message;
}

}  // namespace

ErrorScope::ErrorScope(const std::source_location& at, std::string_view function, bool in_place)
    : at_(at), function_(function), in_place_(in_place), outermost_(t_scope == nullptr) {
  if (outermost_) t_scope = this;
}
ErrorScope::~ErrorScope() {
  if (outermost_) t_scope = nullptr;
}

std::string ErrorScope::function() {
  if (t_scope == nullptr) return "";
  return fmt::format("{}{}", t_scope->function_, t_scope->in_place_ ? "_" : "");
}

std::string ErrorScope::complete(const std::string& message) const {
  const std::string text =
      fmt::format("{}{}: {}", function_, in_place_ ? "_" : "", without_name(message));
  return at_.line() == 0 ? text : fmt::format("{} ({}:{})", text, at_.file_name(), at_.line());
}

void fail(Errc code, const std::string& message) {
  throw Error(code, t_scope != nullptr ? t_scope->complete(message) : message);
}

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(fmt::format("internal check failed: {} ({}:{}){}{}", condition, file, line,
                                  message.empty() ? "" : ": ", message));
}

}  // namespace tandem::ir
