// The two kinds of error. `Error` is a caller's mistake: it has a stable code and says what was
// expected, what came and where. `InternalError` is a fault of Tandem itself: a broken invariant,
// reported with what is known around it.
#ifndef TANDEM_IR_BASE_ERROR_H
#define TANDEM_IR_BASE_ERROR_H

#include <stdexcept>
#include <string>
#include <string_view>

#include "export.h"

namespace tandem::ir {

/// What a caller did wrong. The names are stable: programs may compare `Error::code()` with them.
enum class Errc {
  Shape,        // sizes that do not fit
  DType,        // an element type that the operation does not take
  Argument,     // a value outside what the parameter allows
  Index,        // an index or label outside its dimension (found in data)
  Version,      // a tensor that backward needs was changed in place
  Autograd,     // a request that differentiation cannot meet
  Trace,        // something that cannot happen inside a trace
  Mutation,     // a write that cannot be performed or replayed
  Parse,        // malformed text or JSON
  Graph,        // a well-formed graph that breaks a rule of its level
  File,         // a file that cannot be read or written, or whose contents are malformed
  Unsupported,  // a combination that has no implementation
  OutOfMemory,  // memory could not be had
  Partition,    // an infeasible request to the partitioner
};

/// The stable spelling of `code`, e.g. "shape", "out_of_memory".
TANDEM_API std::string_view name(Errc code);

class TANDEM_API Error : public std::runtime_error {
 public:
  Error(Errc code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Errc code() const { return code_; }

 private:
  Errc code_;
};

class TANDEM_API InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws Error. `message` reads "op: problem; expected ..., got ...": lower case, no final period.
[[noreturn]] TANDEM_API void fail(Errc code, const std::string& message);

/// Throws InternalError with the condition, the place and `message`.
[[noreturn]] TANDEM_API void check_failed(const char* condition, const char* file, int line,
                                          const std::string& message);

}  // namespace tandem::ir

/// An invariant of Tandem itself; stays on in release builds. Usage: TANDEM_CHECK(cond) or
/// TANDEM_CHECK(cond, message).
#define TANDEM_CHECK(condition, ...)                                                        \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::tandem::ir::check_failed(#condition, __FILE__, __LINE__, std::string(__VA_ARGS__)); \
  } while (false)

#endif  // TANDEM_IR_BASE_ERROR_H
