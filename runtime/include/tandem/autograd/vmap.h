// vmap(fn): a function of one example as a function of many. Composes with itself, with gradients
// of both kinds and with compile: inside a compiled function it is part of the one graph, a
// compiled function inside it runs uncompiled.
#ifndef TANDEM_AUTOGRAD_VMAP_H
#define TANDEM_AUTOGRAD_VMAP_H

#include <tandem/autograd/tensors_of.h>
#include <tandem/compile.h>
#include <tandem/generator.h>

namespace tandem {

/// What random numbers are to the examples of vmap.
enum class Randomness : uint8_t {
  Error,      // none may be drawn
  Same,       // all examples see the same ones
  Different,  // each example sees its own
};

struct VmapOptions {
  /// By argument of the function: which dimension of all of its tensors counts examples, from the
  /// end if negative; nullopt: the argument is the same for all. None given: 0 for each.
  std::vector<std::optional<int>> in_dims = {};
  /// By tensor of the result: where the dimension of examples goes. None given: 0; one: for all.
  std::vector<int> out_dims = {};
  Randomness randomness = Randomness::Error;
  /// At most so many examples at a time, to bound memory; 0: all at once. Of what examples draw in
  /// common each part draws the same.
  int64_t chunk_size = 0;
};

namespace runtime {

/// One call of a function that vmap gave.
class TANDEM_API VmapCall {
 public:
  VmapCall(const VmapOptions& options, const SourceLocation& at);
  ~VmapCall();
  VmapCall(const VmapCall&) = delete;
  VmapCall& operator=(const VmapCall&) = delete;

  /// A tensor of argument number `argument`, in order.
  void add(const Tensor& t, size_t argument);
  /// Error{Argument} or {Shape} unless the arguments, `count` in all, have one number of examples.
  void check(size_t count);
  /// Enters the level of the next part of the examples; false behind the last one.
  bool next();
  /// What the function sees of the next tensor.
  Tensor seen();
  /// Takes the next tensor of the function's result.
  void take(const Tensor& t);
  /// Ends the level.
  void leave();
  /// The next tensor of the whole result.
  Tensor result();

 private:
  struct Given {
    Tensor tensor;
    size_t argument;
    std::optional<int> dim;
  };
  struct Taken {
    std::vector<Tensor> parts;
    int dim = 0;
  };
  int out_dim(size_t i, int rank) const;

  const VmapOptions& options_;
  const SourceLocation& at_;
  std::vector<Given> given_;
  std::vector<Taken> taken_;
  Dim size_ = -1, begin_ = 0, end_ = 0;
  size_t cursor_ = 0;
  bool started_ = false, inside_ = false;
  std::optional<ForkRng> draws_;  // of a part before the last, if all draw the same
};

/// Hands the tensors of an argument to a call.
struct AddTensors {
  VmapCall& call;
  size_t argument;
  void operator()(const Tensor& t, const std::string&) { call.add(t, argument); }
  template <class T>
  void operator()(const T&, const std::string&) {}
  void count(size_t, const std::string&) {}
};

template <class Fn, class... Args>
auto call_vmapped(const Fn& fn, const VmapOptions& options, const SourceLocation& at,
                  Args&... args) {
  VmapCall call(options, at);
  size_t argument = 0;
  const auto add = [&](const auto& arg) {
    AddTensors visit{call, argument++};
    structure::for_each_leaf<false>(arg, visit);
  };
  (add(args), ...);
  call.check(sizeof...(Args));
  const auto run = [&] {
    std::tuple<std::remove_const_t<Args>...> copies{args...};
    std::apply(
        [&](auto&... copy) {
          (replace_tensors(copy, [&](const Tensor&) { return call.seen(); }), ...);
        },
        copies);
    return std::apply(fn, copies);
  };
  using R = decltype(run());
  if constexpr (std::is_void_v<R>) {
    while (call.next()) {
      run();
      call.leave();
    }
  } else {
    std::optional<R> result;
    while (call.next()) {
      result.emplace(run());
      replace_tensors(*result, [&](const Tensor& t) { return call.take(t), t; });
      call.leave();
    }
    replace_tensors(*result, [&](const Tensor&) { return call.result(); });
    return *std::move(result);
  }
}

/// Of functions of any arguments, as generic lambdas.
template <class Fn, class Signature>
class Vmapped {
 public:
  Vmapped(Fn fn, VmapOptions options, SourceLocation at)
      : fn_(std::move(fn)), options_(std::move(options)), at_(at) {}
  template <class... Args>
  auto operator()(const Args&... args) const {
    return call_vmapped(fn_, options_, at_, args...);
  }

 private:
  Fn fn_;
  VmapOptions options_;
  SourceLocation at_;
};
template <class Fn, class R, class... Params>
class Vmapped<Fn, Compiled<Fn, R, Params...>> {
 public:
  Vmapped(Fn fn, VmapOptions options, SourceLocation at)
      : fn_(std::move(fn)), options_(std::move(options)), at_(at) {}
  R operator()(Params... params) const {
    return call_vmapped(fn_, options_, at_, std::as_const(params)...);
  }

 private:
  Fn fn_;
  VmapOptions options_;
  SourceLocation at_;
};

template <class Fn>
auto vmapped_type() {
  if constexpr (requires { &Fn::operator(); } || std::is_pointer_v<Fn>)
    return std::type_identity<Vmapped<Fn, typename Signature<Fn>::template Result<Fn>>>();
  else
    return std::type_identity<Vmapped<Fn, void>>();
}

}  // namespace runtime

/// torch.vmap, jax.vmap: the function that applies `fn` to each of many examples, by operations on
/// all at once. fn sees of each argument that is batched (a tensor, or any structure of tensors,
/// <tandem/structure.h>) one example, whose sizes lack the dimension that counts them, and gives a
/// structure of tensors, which gain one. What it writes in place to its arguments is written to the
/// caller's tensors. Numbers and Scalars are the same for all.
///
/// Error{Shape} where arguments have different numbers of examples, Error{Argument} where none is
/// batched, or fn looks at elements of what stands for many (item(), data(), results whose sizes
/// depend on elements); Error{Mutation} where it writes what is the same for all.
template <class Fn>
auto vmap(Fn fn, VmapOptions options = {}, SourceLocation at = SourceLocation::current()) {
  return
      typename decltype(runtime::vmapped_type<Fn>())::type(std::move(fn), std::move(options), at);
}

}  // namespace tandem

#endif  // TANDEM_AUTOGRAD_VMAP_H
