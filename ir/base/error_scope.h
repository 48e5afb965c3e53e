// What the user called, and where, for the errors of what that calls in turn.
#ifndef TANDEM_IR_BASE_ERROR_SCOPE_H
#define TANDEM_IR_BASE_ERROR_SCOPE_H

#include <source_location>
#include <string>
#include <string_view>

#include "export.h"

namespace tandem::ir {

/// While it lives, what `fail` throws in this thread names the function that the user called, in
/// place of what that calls in turn, and the user's line: "embedding: index out of range; ...
/// (net.cpp:7)". The outermost one counts.
class TANDEM_API ErrorScope {
 public:
  explicit ErrorScope(const std::source_location& at,
                      std::string_view function = __builtin_FUNCTION(), bool in_place = false);
  ~ErrorScope();
  ErrorScope(const ErrorScope&) = delete;
  ErrorScope& operator=(const ErrorScope&) = delete;

  /// The function that the user called: "embedding", "add_"; "" where there is none.
  static std::string function();

  /// `message` as the user is to read it.
  std::string complete(const std::string& message) const;

 private:
  const std::source_location& at_;
  std::string_view function_;
  bool in_place_;  // the function's name ends in '_'
  bool outermost_;
};

}  // namespace tandem::ir

#endif  // TANDEM_IR_BASE_ERROR_SCOPE_H
