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

/// Error unless all are tensors, none of which shares memory with another.
void check_each(std::string_view op, const std::vector<const Tensor*>& out);

template <class Results>
std::vector<const Tensor*> each_of(const Results& results) {
  return std::apply([](const auto&... field) { return std::vector<const Tensor*>{&field...}; },
                    results.tandem_fields());
}

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

/// The same of several results (results.h), each into its own tensor: all fit before one is
/// written.
template <class Results, class Make>
Results write_each(std::string_view op, const Results& out, const SourceLocation& at, Make make) {
  const ir::ErrorScope errors(at, op);
  const std::vector<const Tensor*> into = each_of(out);
  check_each(op, into);
  const Results made = make();
  const std::vector<const Tensor*> values = each_of(made);
  for (size_t i = 0; i < into.size(); ++i) check_out(op, *into[i], *values[i]);
  for (size_t i = 0; i < into.size(); ++i) fill_out(*into[i], *values[i], at);
  return out;
}

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_OPS_OUT_H
