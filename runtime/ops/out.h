// How the forms that write into given tensors do so.
#ifndef TANDEM_RUNTIME_OPS_OUT_H
#define TANDEM_RUNTIME_OPS_OUT_H

#include <fmt/format.h>
#include <tandem/ops.h>

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/autograd.h"

namespace tandem::runtime {

/// Of an operand, what it may share with out; without a tensor: a number.
struct Read {
  const Tensor* tensor;
  Sharing allowed;
};

inline Read whole(const Tensor& t) { return {&t, Sharing::AllOrNothing}; }
inline Read whole(const Located& operand) { return {operand.tensor, Sharing::AllOrNothing}; }
inline Read apart(const Tensor& t) { return {&t, Sharing::Nothing}; }
inline Read apart(const Located& operand) { return {operand.tensor, Sharing::Nothing}; }

/// Error unless `value` may be written into `out`.
void check_out(std::string_view op, const Tensor& out, const Tensor& value);

/// Writes what was checked.
inline const Tensor& fill_out(const Tensor& out, const Tensor& value, const SourceLocation& at) {
  if (out.sizes() != value.sizes()) out.resize_(value.sizes(), at);
  return out.copy_(Located(value, at));
}

/// `reads`: the operands that ATen looks at; others are read before out is written.
template <class Make>
const Tensor& write_out(std::string_view op, const Tensor& out, const SourceLocation& at,
                        const std::vector<Read>& reads, Make make) {
  const ir::ErrorScope errors(at, op);
  if (!out.defined())
    ir::fail(Errc::Argument, fmt::format("{}: undefined tensor; expected a tensor, got none", op));
  for (const Read& read : reads)
    if (read.tensor != nullptr && read.tensor->defined())
      check_apart(out, *read.tensor, read.allowed);
  const Tensor value = make();
  check_out(op, out, value);
  return fill_out(out, value, at);
}

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_OPS_OUT_H
