// The gradient of a function as a function: value_and_grad(fn), grad(fn). Both compose with
// themselves, with compile and with functionalize, inside and around.
#ifndef TANDEM_AUTOGRAD_VALUE_AND_GRAD_H
#define TANDEM_AUTOGRAD_VALUE_AND_GRAD_H

#include <tandem/autograd.h>
#include <tandem/compile.h>

namespace tandem {

/// What value_and_grad(fn) gives.
template <class G>
struct ValueAndGrad {
  Tensor value;
  G gradients;
  TANDEM_FIELDS(ValueAndGrad, value, gradients)
};

namespace runtime {

/// The tensors that a function is differentiated by in one call. Grad mode is on while it lives.
class TANDEM_API Differentiation {
 public:
  Differentiation();
  ~Differentiation();
  Differentiation(const Differentiation&) = delete;
  Differentiation& operator=(const Differentiation&) = delete;

  /// What fn sees of `t`; of one tensor in several places the same. Undefined tensors, and those
  /// that are not floating, are seen themselves.
  Tensor watch(const Tensor& t);
  /// Computes the gradients of `value`, which loses a history that leads to nothing else.
  /// Error{Shape} unless it has one element.
  void run(Tensor& value, const SourceLocation& at);
  /// By what watch() gave: zeros if the value does not depend on it; undefined if it is not
  /// watched.
  Tensor gradient(const Tensor& watched) const;

 private:
  struct Watched {
    Tensor given, seen, gradient;
  };
  const bool outer_mode_;
  const EnableGrad mode_;
  std::vector<Watched> watched_;
};

/// Puts what fn sees in place of an argument's tensors. (Buffers are state, by which nothing is
/// differentiated.)
struct WatchTensors {
  Differentiation& differentiation;
  structure::OwnShared own = structure::OwnShared(true);
  void operator()(Tensor& t, const std::string&) { t = differentiation.watch(t); }
  void buffer(nn::Buffer&, const std::string&) {}
  template <class T>
  void operator()(const T&, const std::string&) {}
  void count(size_t, const std::string&) {}
};

/// Puts gradients in their place.
struct TakeGradients {
  const Differentiation& differentiation;
  void operator()(Tensor& t, const std::string&) { t = differentiation.gradient(t); }
  void buffer(nn::Buffer& b, const std::string&) { b = Tensor(); }
  template <class T>
  void operator()(const T&, const std::string&) {}
  void count(size_t, const std::string&) {}
};

template <class... G>
struct OneOrTuple {
  using Type = std::tuple<G...>;
};
template <class G>
struct OneOrTuple<G> {
  using Type = G;
};

template <class Function, size_t... argnums>
class ValueAndGradOf {
  static_assert(structure::unsupported<Function>,
                "grad: expected a function that gives a Tensor of one element");
};
template <class Fn, class... Params, size_t... argnums>
class ValueAndGradOf<Compiled<Fn, Tensor, Params...>, argnums...> {
  static_assert(((argnums < sizeof...(Params)) && ...),
                "grad: the function has no argument of such a number");
  template <size_t I>
  using Argument = std::remove_cvref_t<std::tuple_element_t<I, std::tuple<Params...>>>;

 public:
  using Gradients = typename OneOrTuple<Argument<argnums>...>::Type;

  explicit ValueAndGradOf(Fn fn) : fn_(std::move(fn)) {}

  ValueAndGrad<Gradients> operator()(Params... params) const {
    return call(std::index_sequence_for<Params...>(), params...);
  }

 private:
  /// Which of the differentiated arguments argument I is; their number: none.
  static constexpr size_t place(size_t argument) {
    constexpr size_t all[] = {argnums...};
    size_t i = 0;
    while (i < sizeof...(argnums) && all[i] != argument) ++i;
    return i;
  }

  template <size_t I, class Param, class Copies>
  static Param& seen(Param& param, Copies& copies) {
    if constexpr (place(I) < sizeof...(argnums))
      return std::get<place(I)>(copies);
    else
      return param;
  }

  template <size_t... I>
  ValueAndGrad<Gradients> call(std::index_sequence<I...>,
                               std::remove_reference_t<Params>&... params) const {
    const std::tuple<std::remove_reference_t<Params>&...> given{params...};
    std::tuple<Argument<argnums>...> copies{std::get<argnums>(given)...};
    Differentiation differentiation;
    WatchTensors watch{differentiation};
    (structure::for_each_leaf<false>(std::get<place(argnums)>(copies), watch), ...);
    Tensor value = fn_(static_cast<Params&&>(seen<I>(params, copies))...);
    differentiation.run(value, SourceLocation::current());
    TakeGradients take{differentiation};
    (structure::for_each_leaf<false>(std::get<place(argnums)>(copies), take), ...);
    if constexpr (sizeof...(argnums) == 1)
      return {std::move(value), std::get<0>(std::move(copies))};
    else
      return {std::move(value), std::move(copies)};
  }

  Fn fn_;
};

/// The gradients alone.
template <class Function, size_t... argnums>
class GradOf;
template <class Fn, class R, class... Params, size_t... argnums>
class GradOf<Compiled<Fn, R, Params...>, argnums...> {
  using Both = ValueAndGradOf<Compiled<Fn, R, Params...>, argnums...>;

 public:
  explicit GradOf(Fn fn) : both_(std::move(fn)) {}
  typename Both::Gradients operator()(Params... params) const {
    return both_(static_cast<Params&&>(params)...).gradients;
  }

 private:
  Both both_;
};

template <class Fn>
using SignatureOf = typename Signature<Fn>::template Result<Fn>;

}  // namespace runtime

/// torch.func.grad_and_value, jax.value_and_grad: the function that gives {value, gradients} of
/// `fn`, which is as in compile and gives a Tensor of one element. By its first argument, or by
/// those that are numbered: `value_and_grad<0, 2>(fn)` has a tuple of gradients. The gradient by an
/// argument is of its type: a tensor, a struct or container of them (undefined where a tensor is
/// integer or an nn::Buffer); zeros where the value does not depend on it. No .grad is touched, and
/// frozen tensors get gradients too. What it gives has a history where grad mode is on and it
/// depends on a tensor outside that requires grad.
template <size_t... argnums, class Fn>
auto value_and_grad(Fn fn) {
  using Function = runtime::SignatureOf<Fn>;
  if constexpr (sizeof...(argnums) == 0)
    return runtime::ValueAndGradOf<Function, 0>(std::move(fn));
  else
    return runtime::ValueAndGradOf<Function, argnums...>(std::move(fn));
}

/// torch.func.grad, jax.grad: the gradients alone.
template <size_t... argnums, class Fn>
auto grad(Fn fn) {
  using Function = runtime::SignatureOf<Fn>;
  if constexpr (sizeof...(argnums) == 0)
    return runtime::GradOf<Function, 0>(std::move(fn));
  else
    return runtime::GradOf<Function, argnums...>(std::move(fn));
}

}  // namespace tandem

#endif  // TANDEM_AUTOGRAD_VALUE_AND_GRAD_H
