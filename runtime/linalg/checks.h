// What functions of vectors and matrices ask of their arguments.
#ifndef TANDEM_RUNTIME_LINALG_CHECKS_H
#define TANDEM_RUNTIME_LINALG_CHECKS_H

#include <fmt/format.h>

#include "runtime/ops/call.h"

namespace tandem::runtime {

template <class... Args>
[[noreturn]] void reject(ir::Errc code, fmt::format_string<Args...> text, Args&&... args) {
  ir::fail(code,
           ir::ErrorScope::function() + ": " + fmt::format(text, std::forward<Args>(args)...));
}

/// An operand of so many dimensions.
inline V operand_of_rank(Call& c, const Tensor& t, int rank, const char* name) {
  const V v = c.in(t, name);
  if (c.b.rank(v) != rank)
    reject(ir::Errc::Shape, "{} has the wrong number of dimensions; expected {}, got {}", name,
           rank, to_string(c.b.sizes(v)));
  return v;
}

inline void require_dtype_of(Call& c, V v, V like, std::string_view name) {
  if (c.b.dtype(v) != c.b.dtype(like))
    reject(ir::Errc::DType, "{} has another dtype than self; expected {}, got {}", name,
           ir::name(c.b.dtype(like)), ir::name(c.b.dtype(v)));
}

inline void require_floating(Call& c, V v) {
  if (!ir::is_floating(c.b.dtype(v)))
    reject(ir::Errc::DType, "expected a floating dtype, got {}", ir::name(c.b.dtype(v)));
}

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_LINALG_CHECKS_H
