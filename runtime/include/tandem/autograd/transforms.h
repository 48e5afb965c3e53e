// Functions of functions beside grad, jvp and vmap: vjp, linearize, Jacobians and Hessians, and
// modules as functions of their parameters. All compose with each other and with compile: inside a
// compiled function they are part of the one graph, a compiled function inside them runs
// uncompiled.
#ifndef TANDEM_AUTOGRAD_TRANSFORMS_H
#define TANDEM_AUTOGRAD_TRANSFORMS_H

#include <tandem/autograd/forward.h>
#include <tandem/autograd/value_and_grad.h>
#include <tandem/autograd/vmap.h>
#include <tandem/named_tensors.h>

namespace tandem {

namespace runtime {

/// What a function was computed from and gave, to pull gradients back.
class TANDEM_API Pullback {
 public:
  Pullback();
  /// What the function sees of its next tensor.
  Tensor watch(const Tensor& t);
  /// Takes the next tensor of the function's result; gives what others see of it.
  Tensor note(const Tensor& y);
  /// Gradients by the watched tensors, in order (zeros where nothing depends on one, undefined
  /// where it is not floating), from gradients of the noted ones (undefined: zero).
  std::vector<Tensor> pull(const std::vector<Tensor>& gradients, const SourceLocation& at) const;
  /// Where the noted tensors move to, from directions of the watched ones (undefined: zero).
  std::vector<Tensor> push(const std::vector<Tensor>& tangents, const SourceLocation& at) const;

 private:
  std::vector<Tensor> gradients_of(const std::vector<Tensor>& outputs,
                                   const std::vector<Tensor>& gradients, bool create_graph,
                                   const SourceLocation& at) const;
  bool is_kept(const Tensor& y) const;

  bool outer_mode_;
  std::vector<Tensor> given_, seen_, results_;
};

/// Gives the tensors of a list, one after the other.
struct NextOf {
  const std::vector<Tensor>& list;
  size_t next = 0;
  Tensor operator()(const Tensor&) { return list[next++]; }
};

template <class T>
std::vector<Tensor> tensors_of(const T& value) {
  std::vector<Tensor> all;
  ListTensors list{all};
  structure::for_each_leaf<false>(value, list);
  return all;
}

template <class T>
T with_tensors(T value, const std::vector<Tensor>& tensors) {
  replace_tensors(value, NextOf{tensors});
  return value;
}

/// fn(primals), watched by `pullback`.
template <class Fn, class P>
auto watched_call(Fn& fn, const P& primals, Pullback& pullback) {
  P seen = primals;
  replace_tensors(seen, [&](const Tensor& t) { return pullback.watch(t); });
  std::remove_cvref_t<decltype(call_on(fn, seen))> output;
  {
    const EnableGrad mode;
    output = call_on(fn, seen);
  }
  replace_tensors(output, [&](const Tensor& y) { return pullback.note(y); });
  return output;
}

template <class R, class P>
class VjpFunction {
 public:
  VjpFunction(P primals, Pullback pullback)
      : primals_(std::move(primals)), pullback_(std::move(pullback)) {}
  P operator()(const R& gradients, SourceLocation at = SourceLocation::current()) const {
    return with_tensors(primals_, pullback_.pull(tensors_of(gradients), at));
  }

 private:
  P primals_;
  Pullback pullback_;
};

template <class R, class P>
class JvpFunction {
 public:
  JvpFunction(R output, Pullback pullback)
      : output_(std::move(output)), pullback_(std::move(pullback)) {}
  R operator()(const P& tangents, SourceLocation at = SourceLocation::current()) const {
    return with_tensors(output_, pullback_.push(tensors_of(tangents), at));
  }

 private:
  R output_;
  Pullback pullback_;
};

}  // namespace runtime

/// What vjp gives: fn's value, and the function from gradients of that to gradients of primals.
template <class R, class P>
struct Vjp {
  R output;
  runtime::VjpFunction<R, P> pullback;
};

/// fn(primals), and its transposed derivative there as a function (torch.func.vjp, jax.vjp).
/// Primals, as in jvp, are a tensor, a std::tuple with an item per argument, or any structure of
/// tensors; fn gives such a structure. `pullback(gradients)` takes gradients of the type of fn's
/// value and gives some of the type of primals, any number of times, without running fn again.
/// Error{Shape} for gradients that do not fit.
template <class Fn, class P>
auto vjp(Fn&& fn, const P& primals) {
  runtime::Pullback pullback;
  auto output = runtime::watched_call(fn, primals, pullback);
  using R = decltype(output);
  return Vjp<R, P>{std::move(output), {primals, std::move(pullback)}};
}

/// What linearize gives: fn's value, and its derivative as a linear function of directions.
template <class R, class P>
struct Linearized {
  R output;
  runtime::JvpFunction<R, P> pushforward;
};

/// fn(primals), and its derivative there as a function (torch.func.linearize, jax.linearize):
/// `pushforward(tangents)` is what jvp gives, without running fn again.
template <class Fn, class P>
auto linearize(Fn&& fn, const P& primals) {
  runtime::Pullback pullback;
  auto output = runtime::watched_call(fn, primals, pullback);
  using R = decltype(output);
  return Linearized<R, P>{output, {output, std::move(pullback)}};
}

struct JacobianOptions {
  int64_t chunk_size = 0;                     // rows (jacfwd: columns) at a time; 0: all
  Randomness randomness = Randomness::Error;  // jacfwd: whether fn may draw numbers
};

namespace runtime {

using OfTensors = std::function<Tensor(const std::vector<Tensor>&)>;
using Jacobians = std::vector<Tensor> (*)(const OfTensors& fn, const std::vector<Tensor>& given,
                                          const JacobianOptions& options, const SourceLocation& at);
/// [output..., input...] for each of `given`, by gradients of rows and by tangents of columns.
TANDEM_API std::vector<Tensor> jacobians_by_rows(const OfTensors& fn,
                                                 const std::vector<Tensor>& given,
                                                 const JacobianOptions& options,
                                                 const SourceLocation& at);
TANDEM_API std::vector<Tensor> jacobians_by_columns(const OfTensors& fn,
                                                    const std::vector<Tensor>& given,
                                                    const JacobianOptions& options,
                                                    const SourceLocation& at);

template <class Function, size_t... argnums>
class JacobianOf {
  static_assert(structure::unsupported<Function>,
                "jacrev, jacfwd: expected a function that gives a Tensor");
};
template <class Fn, class... Params, size_t... argnums>
class JacobianOf<Compiled<Fn, Tensor, Params...>, argnums...> {
  static_assert(((argnums < sizeof...(Params)) && ...),
                "jacrev, jacfwd: the function has no argument of such a number");
  template <size_t I>
  using Argument = std::remove_cvref_t<std::tuple_element_t<I, std::tuple<Params...>>>;
  using All = std::tuple<std::remove_cvref_t<Params>...>;
  using Chosen = std::tuple<Argument<argnums>...>;

 public:
  using Result = typename OneOrTuple<Argument<argnums>...>::Type;

  JacobianOf(Fn fn, Jacobians how, JacobianOptions options)
      : fn_(std::move(fn)), how_(how), options_(options) {}

  Result operator()(Params... params) const {
    const All given{params...};
    const Chosen chosen{std::get<argnums>(given)...};
    const OfTensors of = [&](const std::vector<Tensor>& tensors) {
      const Chosen seen = with_tensors(chosen, tensors);
      All all = given;
      ((std::get<argnums>(all) = std::get<index_of<argnums>()>(seen)), ...);
      return std::apply(fn_, all);
    };
    Chosen found =
        with_tensors(chosen, how_(of, tensors_of(chosen), options_, SourceLocation::current()));
    if constexpr (sizeof...(argnums) == 1)
      return std::get<0>(std::move(found));
    else
      return found;
  }

 private:
  template <size_t Argnum>
  static constexpr size_t index_of() {
    constexpr size_t all[] = {argnums...};
    size_t i = 0;
    while (all[i] != Argnum) ++i;
    return i;
  }

  Fn fn_;
  Jacobians how_;
  JacobianOptions options_;
};

template <class Fn, size_t... argnums>
auto jacobian_of(Fn fn, Jacobians how, const JacobianOptions& options) {
  using Function = SignatureOf<Fn>;
  if constexpr (sizeof...(argnums) == 0)
    return JacobianOf<Function, 0>(std::move(fn), how, options);
  else
    return JacobianOf<Function, argnums...>(std::move(fn), how, options);
}

}  // namespace runtime

/// The function that gives the Jacobian of `fn`, which is as in compile and gives a Tensor
/// (torch.func.jacrev, jax.jacrev): for each tensor of the first argument, or of those that are
/// numbered (`jacrev<0, 2>(fn)`: a tuple), [output sizes..., input sizes...], in the structure of
/// the argument. Row by row, by one gradient of all rows at once: for fewer outputs than inputs.
/// Tensors that are not floating have an undefined one. Error{DType} if fn's value is not floating.
template <size_t... argnums, class Fn>
auto jacrev(Fn fn, const JacobianOptions& options = {}) {
  return runtime::jacobian_of<Fn, argnums...>(std::move(fn), &runtime::jacobians_by_rows, options);
}

/// The same column by column, by tangents (torch.func.jacfwd, jax.jacfwd): for fewer inputs than
/// outputs.
template <size_t... argnums, class Fn>
auto jacfwd(Fn fn, const JacobianOptions& options = {}) {
  return runtime::jacobian_of<Fn, argnums...>(std::move(fn), &runtime::jacobians_by_columns,
                                              options);
}

/// The function that gives the Hessian of `fn`, a function that gives a Tensor, by its first
/// argument, a Tensor (torch.func.hessian): [output sizes..., input sizes..., input sizes...];
/// forward over reverse.
template <class Fn>
auto hessian(Fn fn, const JacobianOptions& options = {}) {
  return jacfwd(jacrev(std::move(fn)), options);
}

/// `value`, a tensor or a structure of them, that no derivative goes through
/// (jax.lax.stop_gradient; of a tensor, detach()).
template <class T>
T stop_gradient(T value) {
  runtime::replace_tensors(value,
                           [](const Tensor& t) { return t.defined() ? t.detach() : Tensor(); });
  return value;
}

namespace runtime {

/// Puts the named tensors in place of a module's.
class TANDEM_API PutNamed {
 public:
  explicit PutNamed(const NamedTensors& tensors) : tensors_(tensors) {}
  void operator()(Tensor& t, const std::string& path) { note(t, path); }
  template <class T>
  void operator()(const T&, const std::string&) {}
  void count(size_t, const std::string&) {}
  structure::OwnShared own = structure::OwnShared(true);
  /// Error{Argument} if a name is none of the module's; then the tensors stand in their places,
  /// those of tied ones in all.
  void finish();

 private:
  void note(Tensor& t, const std::string& path);
  const NamedTensors& tensors_;
  std::vector<std::pair<std::string, Tensor*>> places_;
};

}  // namespace runtime

/// module(args...) with `tensors` in place of its own of these names ("blocks.0.weight"),
/// parameters and buffers, whose others stay (torch.func.functional_call). Module itself is not
/// changed but by what it writes in place. Error{Argument} for a name that the module has not.
template <class Module, class... Args>
decltype(auto) functional_call(const Module& module, const NamedTensors& tensors, Args&&... args) {
  Module copy = module;
  runtime::PutNamed put(tensors);
  structure::for_each_leaf<true>(copy, put);
  put.finish();
  return std::as_const(copy)(std::forward<Args>(args)...);
}

}  // namespace tandem

#endif  // TANDEM_AUTOGRAD_TRANSFORMS_H
