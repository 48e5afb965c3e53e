// The gradient of a function as a function: value_and_grad(fn), grad(fn). Both compose with
// themselves, with compile and with functionalize, inside and around.
#ifndef TANDEM_AUTOGRAD_VALUE_AND_GRAD_H
#define TANDEM_AUTOGRAD_VALUE_AND_GRAD_H

#include <tandem/autograd.h>
#include <tandem/autograd/tensors_of.h>
#include <tandem/compile.h>

namespace tandem {

/// What value_and_grad(fn) gives.
template <class G>
struct ValueAndGrad {
  Tensor value;
  G gradients;
  TANDEM_FIELDS(ValueAndGrad, value, gradients)
};

/// Of a function that gives something besides.
template <class G, class A>
struct ValueAuxAndGrad {
  Tensor value;
  A aux;
  G gradients;
  TANDEM_FIELDS(ValueAuxAndGrad, value, aux, gradients)
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
  /// A tensor that fn gives besides, as others see it. After run().
  Tensor besides(const Tensor& t) const;

 private:
  struct Watched {
    Tensor given, seen, gradient;
  };
  const bool outer_mode_;
  bool kept_ = false;  // the histories of what fn gives
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
                "grad: expected a function that gives a Tensor of one element, or a std::pair of "
                "one and what it gives besides");
};

/// What a function that is differentiated gives: a value, or a pair of that and something besides.
template <class R>
struct DifferentiatedResult;
template <>
struct DifferentiatedResult<Tensor> {
  template <class G>
  using Both = ValueAndGrad<G>;
  template <class G>
  using Gradients = G;
  static Tensor& value(Tensor& result) { return result; }
  template <class G>
  static Both<G> joined(Tensor result, G gradients, const Differentiation&) {
    return {std::move(result), std::move(gradients)};
  }
  template <class G>
  static G gradients(Both<G> both) {
    return std::move(both.gradients);
  }
};
template <class A>
struct DifferentiatedResult<std::pair<Tensor, A>> {
  template <class G>
  using Both = ValueAuxAndGrad<G, A>;
  template <class G>
  using Gradients = std::pair<G, A>;
  static Tensor& value(std::pair<Tensor, A>& result) { return result.first; }
  template <class G>
  static Both<G> joined(std::pair<Tensor, A> result, G gradients, const Differentiation& d) {
    replace_tensors(result.second, [&](const Tensor& t) { return d.besides(t); });
    return {std::move(result.first), std::move(result.second), std::move(gradients)};
  }
  template <class G>
  static std::pair<G, A> gradients(Both<G> both) {
    return {std::move(both.gradients), std::move(both.aux)};
  }
};

template <class Fn, class R, class... Params, size_t... argnums>
  requires requires { sizeof(DifferentiatedResult<R>); }
class ValueAndGradOf<Compiled<Fn, R, Params...>, argnums...> {
  using Kind = DifferentiatedResult<R>;

  static_assert(((argnums < sizeof...(Params)) && ...),
                "grad: the function has no argument of such a number");
  template <size_t I>
  using Argument = std::remove_cvref_t<std::tuple_element_t<I, std::tuple<Params...>>>;

 public:
  using Gradients = typename OneOrTuple<Argument<argnums>...>::Type;
  using Both = typename Kind::template Both<Gradients>;
  using GradientsAlone = typename Kind::template Gradients<Gradients>;

  explicit ValueAndGradOf(Fn fn) : fn_(std::move(fn)) {}

  static GradientsAlone gradients(Both both) {
    return Kind::template gradients<Gradients>(std::move(both));
  }

  Both operator()(Params... params) const {
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
  Both call(std::index_sequence<I...>, std::remove_reference_t<Params>&... params) const {
    const std::tuple<std::remove_reference_t<Params>&...> given{params...};
    std::tuple<Argument<argnums>...> copies{std::get<argnums>(given)...};
    Differentiation differentiation;
    WatchTensors watch{differentiation};
    (structure::for_each_leaf<false>(std::get<place(argnums)>(copies), watch), ...);
    R result = fn_(static_cast<Params&&>(seen<I>(params, copies))...);
    differentiation.run(Kind::value(result), SourceLocation::current());
    TakeGradients take{differentiation};
    (structure::for_each_leaf<false>(std::get<place(argnums)>(copies), take), ...);
    if constexpr (sizeof...(argnums) == 1)
      return Kind::joined(std::move(result), std::get<0>(std::move(copies)), differentiation);
    else
      return Kind::joined(std::move(result), std::move(copies), differentiation);
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
  typename Both::GradientsAlone operator()(Params... params) const {
    return Both::gradients(both_(static_cast<Params&&>(params)...));
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
/// depends on a tensor outside that requires grad. A function that gives std::pair{value, aux}
/// (jax: has_aux) gives {value, aux, gradients}, with aux (any structure of tensors) as fn gave it.
template <size_t... argnums, class Fn>
auto value_and_grad(Fn fn) {
  using Function = runtime::SignatureOf<Fn>;
  if constexpr (sizeof...(argnums) == 0)
    return runtime::ValueAndGradOf<Function, 0>(std::move(fn));
  else
    return runtime::ValueAndGradOf<Function, argnums...>(std::move(fn));
}

/// torch.func.grad, jax.grad: the gradients alone; of a function that gives std::pair{value, aux},
/// std::pair{gradients, aux}.
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
