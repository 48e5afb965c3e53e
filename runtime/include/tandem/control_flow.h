// Branches and loops that depend on data: cond, switch_case, while_loop, fori_loop, scan, map,
// associative_scan.
// Outside of compiled functions they simply run. Inside one they are equations of its graph, whose
// bodies are compiled once: neither the branch taken nor the trip count compiles anything again.
//
// What bodies see and give are structures of tensors (<tandem/structure.h>); numbers and strings in
// them stay as they are, and must be the same in what comes out. Carries, slices and results are
// tensors of their own: a body may write what it is handed without anybody else seeing it, and what
// it writes to tensors that it captured is written there, once for each time that it runs. Inside a
// compiled function such a tensor may share no memory with another that the loop uses, and at most
// 63 bodies lie one inside another.
//
// Derivatives of any order and kind go through all of them, eagerly and inside compiled functions,
// but gradients through a while_loop there that nothing bounds. Inside vmap bodies are those of one
// example. A predicate that differs between examples is no branch any more: both branches of a cond
// are computed for all, a while_loop goes on until all examples are done (said once on stderr);
// eagerly its body may then write no tensor from outside, Error{Mutation}.
#ifndef TANDEM_CONTROL_FLOW_H
#define TANDEM_CONTROL_FLOW_H

#include <tandem/compile.h>

#include <concepts>
#include <type_traits>

namespace tandem {

struct WhileOptions {
  std::optional<int64_t> max_steps = {};  // stops after so many though its condition holds
};

struct AssociativeScanOptions {
  int64_t dim = 0;
  bool reverse = false;  // from the last slice to the first
};

struct ScanOptions {
  std::optional<int64_t> length = {};  // of the slices; needed where there are none
  bool reverse = false;                // from the last slice to the first
};

namespace control {

using Tensors = std::vector<Tensor>;
using Body = ir::FunctionRef<Tensors(Tensors&&)>;
using Condition = ir::FunctionRef<Tensor(const Tensors&)>;
using Combine = ir::FunctionRef<Tensors(const Tensors&, const Tensors&)>;

/// What is guarded of a structure, and of each of its tensors 1 if it is there, else 0.
struct StructureShape {
  std::vector<uint64_t> tokens, defined;
};
/// Error{Argument} if they differ: `who` gives structures that do.
TANDEM_API void require_same_shape(const StructureShape& a, const StructureShape& b,
                                   const char* who);

/// Moves a structure's tensors to a list; what is left is the structure without them.
struct TANDEM_API TakeTensors {
  Tensors& tensors;
  StructureShape& shape;
  structure::OwnShared own = structure::OwnShared(true);
  void operator()(Tensor& t, const std::string&);
  void operator()(Scalar& s, const std::string&);
  template <structure::Plain T>
  void operator()(const T& v, const std::string& path) {
    count(structure::bits_of(v), path);
  }
  void operator()(const structure::NumberBits& v, const std::string& path) { count(v.bits, path); }
  void operator()(const std::string& s, const std::string&);
  void count(uint64_t n, const std::string&);
};

/// Puts a list's tensors back.
struct TANDEM_API PutTensors {
  const Tensor* next;
  const uint64_t* defined;
  structure::OwnShared own = structure::OwnShared(true);
  void operator()(Tensor& t, const std::string&);
  void operator()(Scalar& s, const std::string&);
  template <class T>
  void operator()(const T&, const std::string&) {}
  void count(size_t, const std::string&) {}
};

/// A structure apart from its tensors: all that it takes must be alike.
template <class T>
class Structure {
 public:
  explicit Structure(const char* who) : who_(who) {}

  Tensors take(T value) {
    Tensors tensors;
    StructureShape shape;
    TakeTensors take{tensors, shape};
    structure::for_each_leaf<false>(value, take);
    if (rest_) require_same_shape(shape, shape_, who_);
    if (!rest_) rest_.emplace(std::move(value)), shape_ = std::move(shape);
    return tensors;
  }

  T make(const Tensor* tensors) const {
    T value = *rest_;
    PutTensors put{tensors, shape_.defined.data()};
    structure::for_each_leaf<false>(value, put);
    return value;
  }

 private:
  const char* who_;
  std::optional<T> rest_;
  StructureShape shape_;
};

TANDEM_API Tensors run_cond(const Tensor& pred, Body then, Body otherwise);
TANDEM_API Tensors run_while(Condition condition, Body body, Tensors carries,
                             const WhileOptions& options);
TANDEM_API Tensors run_associative_scan(Combine fn, Tensors xs,
                                        const AssociativeScanOptions& options);
/// `tensors`: `carries` carries, then xs. body: (carries, slices) -> (carries, ys).
TANDEM_API Tensors run_scan(Body body, Tensors tensors, size_t carries, const ScanOptions& options);
/// index < branch, for branches before `branch`.
TANDEM_API Tensor is_before(const Tensor& index, int64_t branch);
TANDEM_API Tensor step_number(int64_t first);

}  // namespace control

/// `then(operands...)` if `pred` (one number) is not zero, else `otherwise(operands...)`; only the
/// branch that is taken runs. Both give the same structure of tensors of the same types, or
/// nothing. (jax.lax.cond, torch.cond.) The gradient is that of the branch taken.
template <class Then, class Otherwise, class... Operands>
  requires std::invocable<Then&, const Operands&...> &&
           std::invocable<Otherwise&, const Operands&...>
auto cond(const Tensor& pred, Then&& then, Otherwise&& otherwise, const Operands&... operands) {
  using R = std::remove_cvref_t<std::invoke_result_t<Then&, const Operands&...>>;
  if constexpr (std::is_void_v<R>) {
    control::run_cond(
        pred, [&](const control::Tensors&) { return then(operands...), control::Tensors(); },
        [&](const control::Tensors&) { return otherwise(operands...), control::Tensors(); });
  } else {
    control::Structure<R> given("cond");
    const control::Tensors results = control::run_cond(
        pred, [&](const control::Tensors&) { return given.take(then(operands...)); },
        [&](const control::Tensors&) { return given.take(otherwise(operands...)); });
    return given.make(results.data());
  }
}

/// carry = body(carry) while condition(carry) (one number) is not zero. (jax.lax.while_loop.) The
/// body gives a carry of the same structure and types. Inside a compiled function it has no
/// gradient, because nothing bounds what would have to be kept: Error{Autograd} in backward; use
/// WhileOptions::max_steps, scan or fori_loop. Error{Argument} for a negative max_steps.
///
/// With max_steps it is inside a compiled function a scan of so many steps, of which those behind
/// the end do nothing; its gradient keeps the carry of each.
template <class While, class Fn, class Carry>
Carry while_loop(While&& condition, Fn&& body, const Carry& carry,
                 const WhileOptions& options = {}) {
  control::Structure<Carry> state("while_loop");
  control::Tensors first = state.take(carry);
  const control::Tensors last = control::run_while(
      [&](const control::Tensors& t) -> Tensor { return condition(state.make(t.data())); },
      [&](control::Tensors t) {
        Carry value = state.make(t.data());
        t.clear();
        return state.take(body(std::move(value)));
      },
      std::move(first), options);
  return state.make(last.data());
}

/// (carry, y) = body(carry, x) for each slice x of `xs` along dimension 0, in order. Gives the last
/// carry, and the ys stacked along dimension 0. (jax.lax.scan.) Each carry that the body gives has
/// the structure and the types of the first. Backward keeps the carries that each step began with
/// and computes the step again; where CompileOptions bounds memory, those of about every
/// sqrt(length)th step alone. `xs` without tensors, as std::tuple<>(): a step for each of
/// ScanOptions::length. Error{Shape} for xs of other lengths.
template <class Fn, class Carry, class Xs>
auto scan(Fn&& body, const Carry& carry, const Xs& xs, const ScanOptions& options = {}) {
  using Step = std::remove_cvref_t<std::invoke_result_t<Fn&, Carry, Xs>>;
  using Y = std::remove_cvref_t<std::tuple_element_t<1, Step>>;
  control::Structure<Carry> state("scan");
  control::Structure<Xs> slices("scan");
  control::Structure<Y> given("scan");
  control::Tensors tensors = state.take(carry);
  const size_t carries = tensors.size();
  for (Tensor& x : slices.take(xs)) tensors.push_back(std::move(x));
  const control::Tensors results = control::run_scan(
      [&](control::Tensors t) {
        Carry now = state.make(t.data());
        Xs slice = slices.make(t.data() + carries);
        t.clear();
        Step step = body(std::move(now), std::move(slice));
        control::Tensors next = state.take(std::move(std::get<0>(step)));
        for (Tensor& y : given.take(std::move(std::get<1>(step)))) next.push_back(std::move(y));
        return next;
      },
      std::move(tensors), carries, options);
  return std::pair<Carry, Y>(state.make(results.data()), given.make(results.data() + carries));
}

/// The prefixes of `xs` along a dimension by an associative `fn`: x0, fn(x0, x1), fn(fn(x0, x1),
/// x2), ... (jax.lax.associative_scan), in as many steps as the length has bits. fn(a, b) sees many
/// elements at once, structures of slices of `xs` that are alike, and gives such a one: it works
/// element by element, or on what lies behind the dimension. Error{Shape} for xs of different
/// lengths or where fn gives another type, Error{Index} for a dimension that they have not.
template <class Fn, class Xs>
Xs associative_scan(Fn&& fn, const Xs& xs, const AssociativeScanOptions& options = {}) {
  control::Structure<Xs> elements("associative_scan");
  control::Tensors tensors = elements.take(xs);
  const control::Tensors prefixes = control::run_associative_scan(
      [&](const control::Tensors& a, const control::Tensors& b) {
        return elements.take(fn(elements.make(a.data()), elements.make(b.data())));
      },
      std::move(tensors), options);
  return elements.make(prefixes.data());
}

/// fn(x) for each slice x of `xs` along dimension 0, stacked along dimension 0. (jax.lax.map.)
template <class Fn, class Xs>
auto map(Fn&& fn, const Xs& xs) {
  const auto body = [&](std::tuple<> none, const Xs& x) { return std::pair(none, fn(x)); };
  return scan(body, std::tuple<>(), xs).second;
}

/// carry = body(i, carry) for i (an i64 tensor of no dimensions) from `lower` to `upper` - 1.
/// (jax.lax.fori_loop.)
template <class Fn, class Carry>
Carry fori_loop(int64_t lower, int64_t upper, Fn&& body, const Carry& carry) {
  using State = std::pair<Tensor, Carry>;
  const auto step = [&](const State& state, std::tuple<> none) {
    Tensor next = state.first + 1;
    return std::pair(State(std::move(next), body(state.first, state.second)), none);
  };
  return scan(step, State(control::step_number(lower), carry), std::tuple<>(),
              {.length = upper > lower ? upper - lower : 0})
      .first.second;
}
/// The same up to a number that is data: a while_loop.
template <class Fn, class Carry>
Carry fori_loop(int64_t lower, const Tensor& upper, Fn&& body, const Carry& carry) {
  using State = std::pair<Tensor, Carry>;
  return while_loop([&](const State& state) { return state.first < upper; },
                    [&](const State& state) {
                      Tensor next = state.first + 1;
                      return State(std::move(next), body(state.first, state.second));
                    },
                    State(control::step_number(lower), carry))
      .second;
}

/// The branch of that number, on the operands: of a tuple of functions that give the same structure
/// of tensors of the same types. `index` (one integer) outside of them is the nearest.
/// (jax.lax.switch.)
template <class... Branches, class... Operands>
auto switch_case(const Tensor& index, const std::tuple<Branches...>& branches,
                 const Operands&... operands) {
  const auto choose = [&]<size_t first, size_t last>(const auto& self,
                                                     std::index_sequence<first, last>) {
    if constexpr (last - first == 1) {
      return std::get<first>(branches)(operands...);
    } else {
      constexpr size_t middle = (first + last) / 2;
      return cond(
          control::is_before(index, static_cast<int64_t>(middle)),
          [&] { return self(self, std::index_sequence<first, middle>()); },
          [&] { return self(self, std::index_sequence<middle, last>()); });
    }
  };
  return choose(choose, std::index_sequence<0, sizeof...(Branches)>());
}

}  // namespace tandem

#endif  // TANDEM_CONTROL_FLOW_H
