// Forward-mode differentiation: jvp(fn, primals, tangents), Hessian-vector products, and dual
// numbers. Composes with the tape (a derivative of a gradient, a gradient of a derivative), with
// itself, and with compile: inside a compiled function it is part of the one graph, a compiled
// function inside it runs uncompiled.
#ifndef TANDEM_AUTOGRAD_FORWARD_H
#define TANDEM_AUTOGRAD_FORWARD_H

#include <tandem/autograd.h>
#include <tandem/autograd/tensors_of.h>

namespace tandem {

/// A level of forward-mode differentiation, of this thread, while it lives: what make_dual gives
/// carries a tangent, and so does what is computed of it. Levels nest, each a derivative of its
/// own; when one ends its tangents are gone. (torch.autograd.forward_ad.dual_level.) Where
/// operations go on large tensors one by one they are slower than outside a level.
///
/// A write in place writes the tangent too; views of a tensor with a tangent show a part of that.
/// detach() and NoGrad are other things: the first stops tangents, the second does not.
/// Error{Autograd} for what has no derivative along a tangent: operators of the user's, custom
/// functions without jvp, operators without a gradient, changes of a tensor itself (t_, ...).
class TANDEM_API DualLevel {
 public:
  DualLevel();
  ~DualLevel();
  DualLevel(const DualLevel&) = delete;
  DualLevel& operator=(const DualLevel&) = delete;
};

/// `primal`, seen as a new tensor that carries a copy of `tangent` at the innermost level. Both are
/// of one floating dtype and of the same sizes. Error{Autograd} outside levels, or if primal
/// carries one there already.
TANDEM_API Tensor make_dual(const Tensor& primal, const Tensor& tangent,
                            SourceLocation at = SourceLocation::current());

/// What a dual number consists of.
struct Dual {
  Tensor primal;   // without the innermost level's tangent
  Tensor tangent;  // undefined: zero
};
/// Error{Autograd} outside levels.
TANDEM_API Dual unpack_dual(const Tensor& t, SourceLocation at = SourceLocation::current());

/// What a function gives, and how it moves.
template <class R>
struct WithTangent {
  R output, tangent;
};

namespace runtime {

/// The tangent of `t` at the innermost level, zeros where it does not move; undefined for tensors
/// that are undefined or not floating.
TANDEM_API Tensor tangent_or_zeros(const Tensor& t, const SourceLocation& at);
/// `primal` as it enters a function that is differentiated: as make_dual, but a tensor that is not
/// floating, or whose tangent is undefined (zero), stays as it is.
TANDEM_API Tensor moved_along(const Tensor& primal, const Tensor& tangent,
                              const SourceLocation& at);
/// `t` without its history, but moving as t does.
TANDEM_API Tensor moving_detached(const Tensor& t,
                                  const SourceLocation& at = SourceLocation::current());
[[noreturn]] TANDEM_API void fail_tangent_count(size_t primals, size_t tangents);

/// A tuple's items are a function's arguments; anything else is its one argument.
template <class Fn, class P>
decltype(auto) call_on(Fn& fn, P& primals) {
  if constexpr (structure::is_instance<P, std::tuple>)
    return std::apply(fn, primals);
  else
    return fn(primals);
}

}  // namespace runtime

/// fn(primals) and the derivative of that along `tangents` (torch.func.jvp). Primals and tangents
/// are of one type: a tensor, a std::tuple with an item per argument, or any structure of tensors
/// (<tandem/structure.h>); fn gives such a structure. An undefined tangent is zero; tensors that
/// are not floating have none. What fn writes to its arguments is written to the caller's tensors.
template <class Fn, class P>
auto jvp(Fn&& fn, const P& primals, const P& tangents,
         SourceLocation at = SourceLocation::current()) {
  std::vector<Tensor> along, of;
  runtime::ListTensors list_tangents{along}, list_primals{of};
  structure::for_each_leaf<false>(tangents, list_tangents);
  structure::for_each_leaf<false>(primals, list_primals);
  if (along.size() != of.size()) runtime::fail_tangent_count(of.size(), along.size());
  const DualLevel level;
  P duals = primals;
  size_t next = 0;
  runtime::replace_tensors(
      duals, [&](const Tensor& t) { return runtime::moved_along(t, along[next++], at); });
  using R = std::remove_cvref_t<decltype(runtime::call_on(fn, duals))>;
  R output = runtime::call_on(fn, duals);
  R tangent = output;
  runtime::replace_tensors(tangent,
                           [&](const Tensor& t) { return runtime::tangent_or_zeros(t, at); });
  return WithTangent<R>{std::move(output), std::move(tangent)};
}

/// The value of fn (a tensor of one element) at x, and its Hessian there times `v`: forward over
/// reverse, at the cost of a few gradients (torch.autograd.functional.hvp).
template <class Fn>
WithTangent<Tensor> hvp(Fn&& fn, const Tensor& x, const Tensor& v,
                        SourceLocation at = SourceLocation::current()) {
  Tensor value;
  const auto gradient = [&](const Tensor& dual) {
    const bool differentiable = grad_enabled() && dual.requires_grad();
    const EnableGrad mode;
    const Tensor point =
        differentiable ? dual : runtime::moving_detached(dual, at).requires_grad_();
    const Tensor y = fn(point);
    value = differentiable ? y : runtime::moving_detached(y, at);
    return grad({y}, {point}, {.create_graph = differentiable}, at)[0];
  };
  Tensor product = jvp(gradient, x, v, at).tangent;
  return {std::move(value), std::move(product)};
}

}  // namespace tandem

#endif  // TANDEM_AUTOGRAD_FORWARD_H
