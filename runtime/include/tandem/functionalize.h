// functionalize(fn): the same function without writes to intermediates; grad(fn): its gradient as a
// function. Both compose with each other, with compile and with make_graph (<tandem/graph.h>).
#ifndef TANDEM_FUNCTIONALIZE_H
#define TANDEM_FUNCTIONALIZE_H

#include <tandem/autograd.h>
#include <tandem/compile.h>

namespace tandem {

/// What functionalize takes out of a function. (Lower case: it reads as part of the call.)
// NOLINTNEXTLINE(readability-identifier-naming)
enum class remove : uint8_t {
  mutations,            // equations that write; arguments are written once, at the end
  mutations_and_views,  // views too: they become `_copy` operations, every tensor is contiguous
};

// The phase of the same name is a namespace inside the library, which this lets stand beside.
inline namespace forms {

/// A function that does what `fn` does, in operations that write nothing; what fn writes to its
/// arguments is copied there at the end. It runs eagerly, inside a trace it is traced through. Fn
/// is as in compile. Without views, results share no memory with anything.
template <class Fn>
auto functionalize(Fn fn, remove what = remove::mutations) {
  using Result = typename runtime::Signature<Fn>::template Result<Fn>;
  return Result(std::move(fn), runtime::make_functionalizer(what == remove::mutations_and_views));
}

}  // namespace forms

/// The gradient of a function as a function.
template <class Fn, class R, class... Params>
class GradientOf {
 public:
  explicit GradientOf(Fn fn) : fn_(std::move(fn)) {}

  Tensor operator()(Params... params) const {
    std::tuple<std::remove_cvref_t<Params>...> copies{params...};
    return gradient(copies, std::index_sequence_for<Params...>());
  }

 private:
  template <class Tuple, size_t... I>
  Tensor gradient(Tuple& copies, std::index_sequence<I...>) const {
    Tensor& x = std::get<0>(copies);
    const bool differentiable = grad_enabled() && x.requires_grad();
    const EnableGrad mode;
    if (differentiable)
      x = x.alias();
    else
      x = x.detach().requires_grad_();
    const Tensor wrt = x;
    const Tensor y = fn_(static_cast<Params&&>(std::get<I>(copies))...);
    return grad({y}, {wrt}, {.create_graph = differentiable})[0];
  }

  Fn fn_;
};

namespace runtime {
template <class C>
struct GradientSignature;
template <class Fn, class R, class... Params>
struct GradientSignature<Compiled<Fn, R, Params...>> {
  using Type = GradientOf<Fn, R, Params...>;
};
}  // namespace runtime

/// The function that gives d fn / d (its first argument, a tensor). fn returns one element.
template <class Fn>
auto grad(Fn fn) {
  using Result = typename runtime::Signature<Fn>::template Result<Fn>;
  return typename runtime::GradientSignature<Result>::Type(std::move(fn));
}

}  // namespace tandem

#endif  // TANDEM_FUNCTIONALIZE_H
