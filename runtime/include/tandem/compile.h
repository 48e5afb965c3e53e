// compile(fn): the function traced, differentiated and compiled for the arguments it is called
// with.
#ifndef TANDEM_COMPILE_H
#define TANDEM_COMPILE_H
#include <tandem/ir/function_ref.h>
#include <tandem/ir/inline_vector.h>
#include <tandem/scalar.h>
#include <tandem/structure.h>
#include <tandem/tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tandem {

namespace ir {
class Partitioner;
class Backend;
struct GraphPass;
class Graph;
}  // namespace ir

/// Every stage of one compiled variant (<tandem/graph.h>).
struct CompiledGraphs;

struct CompileOptions {
  std::string name = {};  // of the function, in graphs and messages
  // "default", "reference", "save-all", "recompute-all", "memory_budget=B", "saved_budget=B",
  // "saved_bytes=N" (below)
  std::string partition = "default";
  double memory_budget = 1;  // bounds the peak: 0 the least that any set needs, 1 the default's
  double saved_budget = 1;   // bounds the saved bytes, as a share of the default set's
  std::shared_ptr<const ir::Partitioner> partitioner = {};  // overrides `partition`; no budget
  std::vector<std::shared_ptr<const ir::GraphPass>> passes = {};  // at their points, in this order
  std::shared_ptr<const ir::Backend> backend = {};                // of both halves; null: the JIT
  std::shared_ptr<const ir::Backend> backward_backend = {};       // null: the same as `backend`
  bool higher_order = true;  // a backward can itself be differentiated
  bool contract = true;      // form fused multiply-adds where a product feeds one sum
  // Of variants' graphs and plans, before the least recently used ones are dropped. Code is shared.
  int64_t max_variant_bytes = int64_t{64} << 20;
  std::string cache_dir = {};  // where compiled code is kept; empty: TANDEM_CACHE_DIR, else nowhere
};

/// How many threads kernels run on, of all callers together: what was set, else TANDEM_NUM_THREADS,
/// OMP_NUM_THREADS, the processors it may use. No result depends on it.
TANDEM_API int num_threads();
TANDEM_API void set_num_threads(int threads);

namespace runtime {

class FunctionCache;
struct Variant;

/// The leaves of one call's arguments, in order. (Here and below, what is no template is defined in
/// the library: it costs nothing to include.)
struct TANDEM_API Flat {
  ir::InlineVector<const Tensor*, 64> tensors;
  ir::InlineVector<uint64_t, 64>
      tokens;  // numbers, strings and container sizes: what is guarded by value

  void operator()(const Tensor& t, const std::string&);
  void operator()(const Scalar& s, const std::string&);
  template <structure::Plain T>
  void operator()(const T& v, const std::string& path) {
    count(structure::bits_of(v), path);
  }
  void operator()(const structure::NumberBits& v, const std::string& path) { count(v.bits, path); }
  void operator()(const std::string& s, const std::string&);
  void count(uint64_t n, const std::string&);
};

/// One tracing of a function, as the template below sees it.
class TANDEM_API TraceSession {
 public:
  /// The traced stand-in for an argument's tensor (an undefined tensor stays undefined).
  Tensor input(const Tensor& real, const std::string& name);
  /// Reports a tensor leaf of the result.
  void result(const Tensor& traced);
  /// Reports that leaf number `leaf` of the arguments (a Tensor of a non-const reference) was
  /// rebound.
  void rebound(int leaf, const Tensor& traced);
  void set_prototype(std::shared_ptr<const void> prototype);
  /// The next `count` of Flat's tokens stand for `what`; `spell` gives the number that one is.
  void name_guards(const std::string& what, size_t count, std::string (*spell)(uint64_t));

  struct Impl;
  explicit TraceSession(Impl& impl) : impl_(impl) {}

 private:
  Impl& impl_;
};

using Tracer = ir::FunctionRef<void(TraceSession&)>;

/// What a call gives back: the result's tensors in leaf order, then the rebound ones.
struct CallResults {
  ir::InlineVector<Tensor, 8> tensors;
  std::shared_ptr<const void> prototype;
  std::vector<int> rebound;
};

TANDEM_API std::shared_ptr<FunctionCache> make_function_cache(const CompileOptions& options);
/// A cache of nothing: calls run the functionalized trace (<tandem/functionalize.h>).
TANDEM_API std::shared_ptr<FunctionCache> make_functionalizer(bool without_views);
/// Gives `receive` the results before any argument is written: where it throws, nothing changes.
TANDEM_API CallResults call(FunctionCache& cache, const Flat& arguments, Tracer tracer,
                            ir::FunctionRef<void(const CallResults&)> receive);
TANDEM_API const CompiledGraphs& graphs(FunctionCache& cache, const Flat& arguments, Tracer tracer);
/// Whether a call is to run fn itself: a trace goes through compiled functions.
TANDEM_API bool traces_through(const FunctionCache& cache);
/// The graph that tracing gives.
TANDEM_API void trace_into(ir::Graph& graph, Tracer tracer);

/// Puts stand-ins in place of an argument's tensors, and names what is guarded by value, in Flat's
/// order.
struct TANDEM_API ReplaceInputs {
  TraceSession& session;
  std::vector<Tensor>& stand_ins;
  structure::OwnShared own = structure::OwnShared();
  void operator()(Tensor& t, const std::string& path);
  void operator()(Scalar& s, const std::string& path);
  template <structure::Plain T>
  void operator()(const T&, const std::string& path) {
    session.name_guards(path, 1, &structure::spell_bits<T>);
  }
  void operator()(const structure::NumberBits& v, const std::string& path);
  void operator()(const std::string& s, const std::string& path);
  void count(size_t, const std::string& path);
};

/// Finds the leaves that fn rebound.
struct FindRebound {
  TraceSession& session;
  const std::vector<Tensor>& stand_ins;
  int leaf = 0;
  bool by_reference = false;
  void check(const Tensor& t) {
    if (by_reference && t.impl() != stand_ins[leaf].impl()) session.rebound(leaf, t);
    ++leaf;
  }
  void operator()(const Tensor& t, const std::string&) { check(t); }
  void operator()(const Scalar& s, const std::string&) { check(s.tensor()); }
  template <class T>
  void operator()(const T&, const std::string&) {}
  void count(size_t, const std::string&) {}
};

struct ReportResults {
  TraceSession& session;
  void operator()(const Tensor& t, const std::string&) { session.result(t); }
  void operator()(const Scalar& s, const std::string&) { session.result(s.tensor()); }
  template <class T>
  void operator()(const T&, const std::string&) {}
  void count(size_t, const std::string&) {}
};

struct FillResults {
  const Tensor* next;
  structure::OwnShared own = structure::OwnShared();
  void operator()(Tensor& t, const std::string&) { t = *next++; }
  void operator()(Scalar& s, const std::string&) { s = Scalar(*next++); }
  template <class T>
  void operator()(const T&, const std::string&) {}
  void count(size_t, const std::string&) {}
};

struct ClearTensors {
  structure::OwnShared own = structure::OwnShared();
  void operator()(Tensor& t, const std::string&) { t = Tensor(); }
  void operator()(Scalar&, const std::string&) {}
  template <class T>
  void operator()(const T&, const std::string&) {}
  void count(size_t, const std::string&) {}
};

/// Assigns leaf number `leaf` of the arguments.
struct Rebind {
  int leaf;
  const Tensor& to;
  void operator()(Tensor& t, const std::string&) {
    if (leaf-- == 0) t = to;
  }
  void operator()(Scalar& s, const std::string&) {
    if (leaf-- == 0) s = Scalar(to);
  }
  template <class T>
  void operator()(const T&, const std::string&) {}
  void count(size_t, const std::string&) {}
};

template <class T>
inline constexpr bool is_mutable_reference =
    std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>>;

}  // namespace runtime

/// A compiled function: a copyable handle (copies share the compiled variants), callable from any
/// thread.
template <class Fn, class R, class... Params>
class Compiled {
 public:
  Compiled(Fn fn, const CompileOptions& options)
      : state_(
            std::make_shared<State>(State{std::move(fn), runtime::make_function_cache(options)})) {}
  Compiled(Fn fn, std::shared_ptr<runtime::FunctionCache> cache)
      : state_(std::make_shared<State>(State{std::move(fn), std::move(cache)})) {}

  R operator()(Params... params) const {
    if (runtime::traces_through(*state_->cache))
      return state_->fn(static_cast<Params&&>(params)...);
    runtime::Flat flat;
    (structure::for_each_leaf<false>(params, flat), ...);
    const auto trace = [&](runtime::TraceSession& session) { trace_call(session, params...); };
    if constexpr (std::is_void_v<R>) {
      rebind_arguments(
          runtime::call(*state_->cache, flat, trace, [](const runtime::CallResults&) {}),
          params...);
    } else {
      std::optional<R> result;
      rebind_arguments(
          runtime::call(*state_->cache, flat, trace,
                        [&](const runtime::CallResults& r) { result.emplace(rebuild(r)); }),
          params...);
      return *std::move(result);
    }
  }

  /// The graphs of the variant for these arguments (compiled now if it was not), valid while the
  /// handle lives.
  const CompiledGraphs& graphs(Params... params) const {
    runtime::Flat flat;
    (structure::for_each_leaf<false>(params, flat), ...);
    const auto trace = [&](runtime::TraceSession& session) { trace_call(session, params...); };
    return runtime::graphs(*state_->cache, flat, trace);
  }

  /// The function as it is traced for these arguments, into `graph` (make_graph in
  /// <tandem/graph.h>).
  void trace(ir::Graph& graph, Params... params) const {
    const auto trace = [&](runtime::TraceSession& session) { trace_call(session, params...); };
    runtime::trace_into(graph, trace);
  }

 private:
  struct State {
    Fn fn;
    std::shared_ptr<runtime::FunctionCache> cache;
  };

  /// Runs fn on copies of the arguments whose tensors are stand-ins, and reports what it returned
  /// and rebound.
  void trace_call(runtime::TraceSession& session,
                  const std::remove_reference_t<Params>&... params) const {
    std::tuple<std::remove_cvref_t<Params>...> copies{params...};
    std::vector<Tensor> stand_ins;
    runtime::ReplaceInputs replace{session, stand_ins};
    std::apply(
        [&](auto&... items) {
          int i = 0;
          (structure::for_each_leaf<true>(items, replace, argument_name(i++)), ...);
        },
        copies);
    runtime::ReportResults report{session};
    if constexpr (std::is_void_v<R>) {
      invoke(copies, std::index_sequence_for<Params...>());
    } else {
      auto result = std::make_shared<std::remove_cvref_t<R>>(
          invoke(copies, std::index_sequence_for<Params...>()));
      structure::for_each_leaf<false>(std::as_const(*result), report);
      session.set_prototype(forget_tensors(result));
    }
    report_rebound(session, stand_ins, copies, std::index_sequence_for<Params...>());
  }

  static std::string argument_name(int i) {
    return sizeof...(Params) == 1 ? "x" : "x" + std::to_string(i);
  }

  template <size_t... I>
  R invoke(std::tuple<std::remove_cvref_t<Params>...>& copies, std::index_sequence<I...>) const {
    return state_->fn(static_cast<Params&&>(std::get<I>(copies))...);
  }

  template <size_t... I>
  static void report_rebound(runtime::TraceSession& session, const std::vector<Tensor>& stand_ins,
                             const std::tuple<std::remove_cvref_t<Params>...>& copies,
                             std::index_sequence<I...>) {
    [[maybe_unused]] runtime::FindRebound find{session, stand_ins};
    ((find.by_reference = runtime::is_mutable_reference<Params>,
      structure::for_each_leaf<false>(std::get<I>(copies), find)),
     ...);
  }

  /// The result's shape (container sizes, numbers) without the traced tensors in it.
  template <class T>
  static std::shared_ptr<const void> forget_tensors(const std::shared_ptr<T>& result) {
    if constexpr (!std::is_same_v<T, Tensor>) {
      runtime::ClearTensors clear;
      structure::for_each_leaf<false>(*result, clear);
      return result;
    }
    return nullptr;
  }

  static R rebuild(const runtime::CallResults& results) {
    if constexpr (std::is_same_v<R, Tensor>) {
      return results.tensors[0];
    } else {
      R out = *static_cast<const R*>(results.prototype.get());
      runtime::FillResults fill{results.tensors.data()};
      structure::for_each_leaf<false>(out, fill);
      return out;
    }
  }

  static void rebind_arguments(const runtime::CallResults& results,
                               std::remove_reference_t<Params>&... params) {
    const size_t first = results.tensors.size() - results.rebound.size();
    for (size_t i = 0; i < results.rebound.size(); ++i) {
      [[maybe_unused]] runtime::Rebind rebind{results.rebound[i], results.tensors[first + i]};
      (structure::for_each_leaf<false>(params, rebind), ...);
    }
  }

  std::shared_ptr<State> state_;
};

namespace runtime {

template <class R, class... Params>
struct SignatureIs {
  template <class Fn>
  using Result = Compiled<Fn, R, Params...>;
};

/// From the type of a call operator.
template <class Operator>
struct CallOperator;
template <class C, class R, class... Params>
struct CallOperator<R (C::*)(Params...) const> : SignatureIs<R, Params...> {};
template <class C, class R, class... Params>
struct CallOperator<R (C::*)(Params...)> : SignatureIs<R, Params...> {};
template <class C, class R, class... Params>
struct CallOperator<R (C::*)(Params...) const noexcept> : SignatureIs<R, Params...> {};
template <class C, class R, class... Params>
struct CallOperator<R (C::*)(Params...) noexcept> : SignatureIs<R, Params...> {};

template <class F>
concept HasOneCallOperator = requires { &F::operator(); };

/// How a function or function object is called.
template <class F>
struct Signature : SignatureIs<void> {
  static_assert(structure::unsupported<F>,
                "compile: a generic lambda, or a function object that can be called in several "
                "ways, has no one signature; expected it named: compile<R(Args...)>(fn)");
};
template <HasOneCallOperator F>
struct Signature<F> : CallOperator<decltype(&F::operator())> {};
template <class R, class... Params>
struct Signature<R (*)(Params...)> : SignatureIs<R, Params...> {};
template <class R, class... Params>
struct Signature<R (*)(Params...) noexcept> : SignatureIs<R, Params...> {};
template <class R, class... Params>
struct Signature<R(Params...)> : SignatureIs<R, Params...> {};
template <class Member, class C>
struct Signature<Member C::*> : SignatureIs<void> {
  static_assert(structure::unsupported<C>,
                "compile: a member function is called on an object; expected a lambda: "
                "compile([](const M& m, const Tensor& x) { return m.forward(x); })");
};

}  // namespace runtime

/// Compiles `fn`, which has one non-template call operator (a lambda, a function object, a
/// function). Captured state that is not a tensor is frozen when fn is traced: a captured number,
/// flag or container is read once per variant and its later changes are not seen; captured tensors
/// are inputs, by object (in-place changes are seen by the next call, rebinding the C++ variable is
/// not).
///
/// The first call with arguments of a new kind (dtypes, sizes, strides, requires_grad, alias
/// pattern, structure, numbers) traces fn and compiles; later calls run the compiled code. Numbers
/// that should change without recompiling are Scalars or 0-d tensors. Exceptions of fn pass through
/// unchanged and leave nothing behind. A call that throws, of what kind the error may be (memory
/// that runs out included, std::bad_alloc), leaves arguments, gradients and the random generator as
/// they were.
template <class Fn>
auto compile(Fn fn, const CompileOptions& options = {}) {
  return typename runtime::Signature<Fn>::template Result<Fn>(std::move(fn), options);
}

/// The same for a function object with a template call operator: compile<R(Args...)>(fn).
template <class Function, class Fn>
  requires std::is_function_v<Function>
auto compile(Fn fn, const CompileOptions& options = {}) {
  return typename runtime::Signature<Function>::template Result<Fn>(std::move(fn), options);
}

}  // namespace tandem

#endif  // TANDEM_COMPILE_H
