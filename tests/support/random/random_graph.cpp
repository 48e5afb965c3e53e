// Every value belongs to a storage whose magnitude is bounded: an operation whose result could
// leave the safe range is preceded by a squash. No decision depends on a floating dtype.
#include "tests/support/random/random_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "ir/base/error.h"
#include "ir/build/builder.h"
#include "ir/random.h"
#include "ir/strides.h"
#include "tests/support/gradcheck.h"
#include "tests/support/random/samples.h"
#include "tests/support/random/strided_sink.h"

namespace tandem::testing {
namespace {

using ir::Dim;
using ir::Dims;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Type;
using ir::ValueId;

constexpr double kMaxMagnitude = 30, kMaxElements = 400;

struct Storage {
  double bound = 0;  // of every element's magnitude
  bool grad = false;
};

struct Value {
  ValueId id;
  size_t storage = 0;
  bool is_view = false;
  bool writable = true;  // no two elements share memory
};

enum class Domain : uint8_t { Any, Positive, Unit, AboveOne };

struct Unary {
  Op op;
  Domain domain;
  double bound;  // of the result; 0: the operand's
};

constexpr Unary kUnary[] = {
    {Op::neg, Domain::Any, 0},
    {Op::abs, Domain::Any, 0},
    {Op::sign, Domain::Any, 1},
    {Op::floor, Domain::Any, kMaxMagnitude},
    {Op::ceil, Domain::Any, kMaxMagnitude},
    {Op::round, Domain::Any, kMaxMagnitude},
    {Op::trunc, Domain::Any, 0},
    {Op::exp, Domain::Unit, 3},
    {Op::exp2, Domain::Unit, 2},
    {Op::expm1, Domain::Unit, 2},
    {Op::log, Domain::Positive, 4},
    {Op::log2, Domain::Positive, 6},
    {Op::log10, Domain::Positive, 2},
    {Op::log1p, Domain::Positive, 4},
    {Op::sqrt, Domain::Positive, 6},
    {Op::rsqrt, Domain::Positive, 2},
    {Op::reciprocal, Domain::Positive, 3},
    {Op::sin, Domain::Any, 1},
    {Op::cos, Domain::Any, 1},
    {Op::tan, Domain::Unit, 2},
    {Op::asin, Domain::Unit, 2},
    {Op::acos, Domain::Unit, 3},
    {Op::atan, Domain::Any, 2},
    {Op::sinh, Domain::Unit, 2},
    {Op::cosh, Domain::Unit, 2},
    {Op::tanh, Domain::Any, 1},
    {Op::asinh, Domain::Any, 5},
    {Op::acosh, Domain::AboveOne, 5},
    {Op::atanh, Domain::Unit, 2},
    {Op::erf, Domain::Any, 1},
    {Op::erfc, Domain::Unit, 2},
    {Op::sigmoid, Domain::Any, 1},
    {Op::clone, Domain::Any, 0},
    {Op::relu, Domain::Any, 0},
    {Op::relu6, Domain::Any, 6},
    {Op::selu, Domain::Any, 2 * kMaxMagnitude},
    {Op::silu, Domain::Any, 0},
    {Op::mish, Domain::Any, 0},
    {Op::softsign, Domain::Any, 1},
    {Op::hardsigmoid, Domain::Any, 1},
    {Op::hardswish, Domain::Any, 0},
    {Op::log_sigmoid, Domain::Any, kMaxMagnitude + 1},
    {Op::square, Domain::Unit, 1},
    {Op::frac, Domain::Any, 1},
    {Op::i0e, Domain::Any, 1},
    {Op::i1e, Domain::Any, 1},
    {Op::log_ndtr, Domain::Unit, 2},
};

constexpr Op kBinary[] = {Op::add,     Op::sub,       Op::mul,      Op::div,      Op::maximum,
                          Op::minimum, Op::atan2,     Op::hypot,    Op::copysign, Op::logaddexp,
                          Op::pow,     Op::clamp_min, Op::clamp_max};
constexpr Op kCompare[] = {Op::eq, Op::ne, Op::lt, Op::le, Op::gt, Op::ge};
constexpr Op kIntegers[] = {Op::add,         Op::sub,         Op::mul,     Op::bitwise_and,
                            Op::bitwise_or,  Op::bitwise_xor, Op::maximum, Op::minimum,
                            Op::shift_right, Op::shift_left,  Op::gcd};
constexpr Op kLogic[] = {Op::logical_and, Op::logical_or, Op::logical_xor};

class Generator {
 public:
  Generator(uint64_t seed, const ProgramOptions& options)
      : random_(seed), options_(options), sink_(program_.graph), b_(sink_) {
    program_.graph = ir::Graph(fmt::format("random{}", seed), ir::Level::Traced);
    program_.floating = below(4) == 0 ? DType::F64 : DType::F32;
    if (options.samples && below(8) == 0) program_.floating = pick({DType::BF16, DType::F16});
    float_ = options.widened ? DType::F64 : program_.floating;
    for (Dim& size : sizes_) size = pick({1, 2, 3, 4, 5, 7, 8, 17});
    if (below(2) == 0) rows_ = pick({17, 33, 50, 67, 100});
  }

  RandomProgram run() {
    add_inputs();
    if (options_.samples) add_sample_inputs();
    const int kind = below(8);
    const bool wants[] = {kind != 0 && kind != 1, kind != 2 && kind != 3, kind != 4 && kind != 5};
    const int steps = 4 + below(18);
    for (int i = 0; i < steps && values_.size() < 45; ++i) {
      sink_.grad_enabled = below(16) != 0;
      step();
      if (!pending_.empty() && below(4) == 0) sample();
      if (i == steps / 3 && wants[0]) reduction();
      if (i == steps / 3 && rng_.valid()) draw();
      if (i == steps / 2 && wants[1]) contraction();
      if (i == steps / 2 && wants[2]) write_through_view();
    }
    sink_.grad_enabled = true;
    while (!pending_.empty()) sample();
    while (values_.size() < 8) unary();
    add_outputs();
    return std::move(program_);
  }

 private:
  // --- random choices
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  template <class T>
  T pick(std::initializer_list<T> list) {
    return list.begin()[below(static_cast<int>(list.size()))];
  }
  template <class T, size_t n>
  const T& pick(const T (&table)[n]) {
    return table[below(static_cast<int>(n))];
  }
  Dim any_size() { return sizes_[below(3)]; }
  Shape any_shape() {
    if (rows_ > 0) return many_rows();
    Shape shape;
    for (int rank = 1 + below(3); rank > 0; --rank) shape.push_back(any_size());
    return shape;
  }
  /// Many rows of few columns, which compiled code goes along; sometimes across, or one column.
  Shape many_rows() {
    Shape shape{rows_};
    for (int more = 1 + below(2); more > 0; --more)
      if (const Dim size = any_size(); ir::numel(shape) * size <= kMaxElements)
        shape.push_back(size);
    if (below(8) == 0) std::swap(shape[0], shape[shape.rank() - 1]);
    return shape;
  }

  // --- values
  const Type& type(const Value& v) const { return program_.graph.type(v.id); }
  bool is_float(const Value& v) const { return ir::is_floating(type(v).dtype); }
  double bound(const Value& v) const { return storages_[v.storage].bound; }
  bool grad(const Value& v) const { return storages_[v.storage].grad; }

  /// Whether eager can view `v` as any other sizes.
  bool has_views(const Value& v) { return !v.is_view && sink_.is_contiguous(v.id); }

  Value fresh(ValueId id, double bound, bool grad) {
    grad = grad && sink_.grad_enabled && ir::is_floating(program_.graph.type(id).dtype);
    storages_.push_back({bound, grad});
    values_.push_back({id, storages_.size() - 1});
    return values_.back();
  }
  Value fresh(ValueId id, double bound, std::initializer_list<Value> from) {
    const bool has_grad = std::ranges::any_of(from, [&](const Value& v) { return grad(v); });
    return fresh(id, bound, has_grad);
  }

  template <class Test>
  std::optional<Value> find(Test test) {
    std::vector<size_t> found;
    for (size_t i = 0; i < values_.size(); ++i)
      if (test(values_[i])) found.push_back(i);
    if (found.empty()) return std::nullopt;
    // Late values are chosen more often: programs become deep.
    const size_t a = random_() % found.size(), c = random_() % found.size();
    return values_[found[std::max(a, c)]];
  }
  Value any_float() {
    return *find([&](const Value& v) { return is_float(v); });
  }
  Value floats_of_rank(int low, int high) {
    const auto fits = [&](const Value& v) {
      return is_float(v) && type(v).rank() >= low && type(v).rank() <= high;
    };
    if (const auto found = find(fits)) return *found;
    const Value v = any_float();
    const Dim rows = any_size();
    Value grown = type(v).rank() > high ? with_shape(v, {ir::numel(type(v).sizes)}) : v;
    while (type(grown).rank() < low) grown = fresh(b_.stack(copies(grown, rows), 0), bound(v), {v});
    return grown;
  }
  std::vector<ValueId> copies(const Value& v, Dim n) {
    return std::vector<ValueId>(static_cast<size_t>(std::min<int64_t>(int64_t{n}, 3)), v.id);
  }
  Value with_shape(const Value& v, const Shape& sizes) {
    sink_.grad_enabled = true;  // see view_of
    const Value base = has_views(v) ? v : fresh(b_.clone(v.id), bound(v), {v});
    return add_view(base, b_.view(base.id, sizes), true);
  }

  /// A value in [-limit, limit].
  Value within(const Value& v, double limit) {
    if (bound(v) <= limit) return v;
    if (below(2)) return fresh(b_.mul(b_.tanh(v.id), limit), limit, {v});
    return fresh(b_.mul(v.id, limit / bound(v)), limit, {v});
  }
  Value in_domain(const Value& v, Domain domain) {
    if (domain == Domain::Any) return v;
    if (domain == Domain::Unit) return within(v, 0.9);
    const double least = domain == Domain::Positive ? 0.4 : 1.2;
    return fresh(b_.add(b_.abs(v.id), least), bound(v) + least, {v});
  }

  // --- inputs and outputs
  Value add_input(const std::string& name, const Type& type, bool requires_grad,
                  std::optional<ir::AliasOf> alias = {},
                  const std::optional<ir::Strides>& strides = {}) {
    ir::Input input;
    input.name = name;
    input.requires_grad = requires_grad;
    input.strides = strides.value_or(ir::contiguous_strides(type.sizes));
    input.alias_of = alias;
    const ValueId id = program_.graph.add_input(input, type);
    return fresh(id, ir::is_floating(type.dtype) ? 2 : 9, requires_grad);
  }

  /// Half of them row by row; else in another order, with gaps, or both.
  ir::Strides any_strides(const Shape& sizes) {
    if (below(2) == 0) return ir::contiguous_strides(sizes);
    const bool reversed = below(2) == 0;
    ir::Strides strides = ir::Strides::filled(sizes.rank(), 0);
    Dim step = 1 + below(3);
    for (int k = 0; k < sizes.rank(); ++k) {
      const int d = reversed ? k : sizes.rank() - 1 - k;
      strides[d] = step;
      step = step * std::max<Dim>(1, sizes[d]) + below(3);
    }
    return strides;
  }

  void add_inputs() {
    const bool overlap = below(8) == 0;
    const int count = 1 + below(3);
    const Shape common = any_shape();
    for (int i = 0; i < count; ++i) {
      const Shape sizes = i == 0 || below(2) ? common : any_shape();
      const bool requires_grad = !overlap && below(4) != 0;
      add_input(fmt::format("x{}", i), {float_, sizes}, requires_grad, {},
                overlap ? ir::contiguous_strides(sizes) : any_strides(sizes));
    }
    if (overlap) add_overlapping();
    if (below(3) == 0)
      add_input("n", {pick({DType::I64, DType::I32, DType::I16, DType::I8, DType::U8}), common},
                false);
    if (below(3) == 0) add_input("mask", {DType::Bool, common}, false);
    if (below(3) == 0) add_rng();
  }

  void add_rng() {
    ir::Input input;
    input.name = "rng";
    input.role = ir::Role::Rng;
    input.strides = {1};
    rng_ = program_.graph.add_input(input, {DType::I64, {2}});
  }

  /// The middle of x0's memory as an input of its own.
  void add_overlapping() {
    const int64_t count = ir::numel(type(values_[0]).sizes);
    const int64_t step = 1 + below(2);
    const int64_t offset = count / 3, length = std::max<int64_t>(1, count / 2 / step);
    if (offset + (length - 1) * step >= count) return;
    const Value v = add_input("alias", {float_, {Dim(length)}}, false, ir::AliasOf{0, Dim(offset)},
                              ir::Strides{step});
    values_.back().storage = values_[0].storage;
    values_.back().is_view = true;
    (void)v;
  }

  void add_outputs() {
    const int count = 1 + below(4);
    for (int i = 0; i < count; ++i) {
      const Value v = i == 0 ? any_float() : *find([](const Value&) { return true; });
      ir::Output output;
      output.value = v.id;
      output.name = fmt::format("y{}", i);
      output.requires_grad = grad(v) && is_float(v);
      output.strides = ir::contiguous_strides(type(v).sizes);
      program_.graph.add_output(output);
    }
    for (size_t i = 0; i < drawn_.size(); ++i) {
      ir::Output output;
      output.value = drawn_[i];
      output.name = kDrawn + std::to_string(i);
      output.strides = ir::contiguous_strides(program_.graph.type(output.value).sizes);
      program_.graph.add_output(output);
    }
    program_.graph.epilogue.rng_draws = draws_;
  }

  // --- equations
  void step() {
    using Step = void (Generator::*)();
    static constexpr Step kSteps[] = {
        &Generator::unary,
        &Generator::unary,
        &Generator::unary,
        &Generator::binary,
        &Generator::binary,
        &Generator::binary,
        &Generator::ternary,
        &Generator::compare,
        &Generator::integers,
        &Generator::logic,
        &Generator::view,
        &Generator::view,
        &Generator::view,
        &Generator::shape,
        &Generator::index,
        &Generator::reduction,
        &Generator::write,
        &Generator::write,
        &Generator::write_through_view,
        &Generator::draw,
    };
    (this->*pick(kSteps))();
  }

  void unary() {
    const Unary& row = pick(kUnary);
    const Value v = in_domain(within(any_float(), kMaxMagnitude), row.domain);
    fresh(b_.pointwise(row.op, {v.id}), row.bound > 0 ? row.bound : bound(v), {v});
  }

  /// A float that broadcasts with `v`: of v's sizes, or a column or row of one.
  Value partner(const Value& v) {
    const Shape sizes = type(v).sizes;  // new equations move the graph's types
    const auto same = [&](const Value& o) { return is_float(o) && type(o).sizes == sizes; };
    if (below(4) == 0 && sizes.rank() > 0) {
      sink_.grad_enabled = true;  // see view_of
      const Value other = *find(same);
      return add_view(other, b_.slice(other.id, below(sizes.rank()), 0, 1), true);
    }
    return *find(same);
  }
  bool is_empty(const Value& v) const { return ir::numel(type(v).sizes) == 0; }

  void binary() {
    const Op op = pick(kBinary);
    Value v = within(any_float(), 5), other = within(partner(v), 5);
    if (op == Op::div || op == Op::pow) other = in_domain(within(other, 2), Domain::Positive);
    if (op == Op::pow) v = in_domain(within(v, 2), Domain::Positive);
    if (op == Op::copysign || op == Op::atan2) v = in_domain(v, Domain::Positive);
    if (below(5) == 0) {
      fresh(b_.add(b_.mul(v.id, 0.5 + below(4)), 0.25 * below(8)), 4 * bound(v) + 2, {v});
      return;
    }
    fresh(b_.pointwise(op, {v.id, other.id}), 30, {v, other});
  }

  Value mask_like(const Value& v) {
    const auto fits = [&](const Value& o) {
      return type(o).dtype == DType::Bool && type(o).sizes == type(v).sizes;
    };
    if (const auto found = find(fits)) return *found;
    return fresh(b_.pointwise(pick(kCompare), {v.id, b_.number(0.25 * below(8) - 1, v.id)}), 1,
                 false);
  }

  void ternary() {
    const Value v = within(any_float(), 5), other = within(partner(v), 5), mask = mask_like(v);
    switch (below(5)) {
      case 0:
        fresh(b_.where(mask.id, v.id, other.id), 5, {v, other});
        break;
      case 1:
        fresh(b_.masked_fill(v.id, mask.id, 0.5), 5, {v});
        break;
      case 2:
        fresh(b_.clamp(v.id, -1.5, 1.25), 5, {v});
        break;
      case 3:
        fresh(b_.pointwise(Op::lerp, {v.id, other.id, other.id}), 60, {v, other});
        break;
      default:
        fresh(b_.pointwise(Op::addcmul, {v.id, other.id, other.id}, {ir::Number(0.5)}), 20,
              {v, other});
    }
  }

  void compare() {
    const Value v = any_float(), other = partner(v);
    const Value mask = fresh(b_.pointwise(pick(kCompare), {v.id, other.id}), 1, false);
    if (below(2)) fresh(b_.convert(mask.id, float_), 1, false);
  }

  std::optional<Value> any_integer() {
    return find([&](const Value& v) { return !is_float(v) && type(v).dtype != DType::Bool; });
  }
  void integers() {
    const auto v = any_integer();
    if (!v) return unary();
    const Op op = pick(kIntegers);
    const Value r = fresh(b_.pointwise(op, {v->id, b_.number(1 + below(4), v->id)}), 0, false);
    // Down to small numbers before they become floats.
    const ValueId small = b_.pointwise(Op::bitwise_and, {r.id, b_.number(7, r.id)});
    if (below(2)) fresh(b_.convert(small, float_), 8, false);
  }

  void logic() {
    const auto v = find([&](const Value& o) { return type(o).dtype == DType::Bool; });
    if (!v) return compare();
    const auto other = find([&](const Value& o) {
      return type(o).dtype == DType::Bool && type(o).sizes == type(*v).sizes;
    });
    fresh(below(3) ? b_.pointwise(pick(kLogic), {v->id, other->id}) : b_.logical_not(v->id), 1,
          false);
  }

  // --- views
  Value add_view(const Value& of, ValueId id, bool writable) {
    if (id == of.id) return of;
    values_.push_back({id, of.storage, true, of.writable && writable});
    return values_.back();
  }

  /// In grad mode: what a view made without it is, once its base is written, is not compared here.
  Value view_of(const Value& v) {
    sink_.grad_enabled = true;
    const Shape sizes = type(v).sizes;  // new equations move the graph's types
    const int rank = sizes.rank(), dim = rank ? below(rank) : 0;
    const int choice = below(9);
    if (rank == 0 || choice == 0) return add_view(v, b_.unsqueeze(v.id, rank ? dim : 0), true);
    const Dim size = sizes[dim];
    if (choice == 1 && rank > 1) return add_view(v, b_.transpose(v.id, 0, rank - 1), true);
    if (choice == 2 && rank > 1 && rank < 5 && size > 0)
      return add_view(v, b_.select(v.id, dim, below(static_cast<int>(int64_t{size}))), true);
    if (choice == 3 && has_views(v)) return add_view(v, b_.view(v.id, {ir::numel(sizes)}), true);
    if (choice == 4 && rank > 1) return add_view(v, b_.diagonal(v.id, 0, 0, 1), true);
    if (choice == 5 && rank < 3) {
      const ValueId up = b_.unsqueeze(v.id, 0);
      Shape wanted{3};
      for (Dim d : sizes) wanted.push_back(d);
      return add_view(v, b_.expand(up, wanted), false);
    }
    if (choice == 6 && has_views(v) && ir::numel(sizes) >= 4)
      return add_view(v, b_.as_strided(v.id, {2, 2}, {2, 1}, 0), true);
    if (choice == 7) return add_view(v, b_.emit(Op::alias, {v.id}), true);
    const Dim start = size > 0 ? below(static_cast<int>(int64_t{size})) : 0, step = 1 + below(2);
    return add_view(v, b_.slice(v.id, dim, start, std::nullopt, step), true);
  }

  void view() {
    Value v = view_of(any_float());
    if (below(3) == 0) view_of(v);
  }

  // --- shapes, indices
  void shape() {
    const Value v = floats_of_rank(1, 3);
    if (ir::numel(type(v).sizes) > kMaxElements) return reduction();
    const Value other = partner(v);
    const std::vector<ValueId> pair{v.id, other.id};
    const bool equal = type(v).sizes == type(other).sizes;
    const int dim = below(type(v).rank());
    const ir::Axes front{dim};
    switch (below(4)) {
      case 0:
        if (equal) fresh(b_.cat(pair, dim), std::max(bound(v), bound(other)), {v, other});
        break;
      case 1:
        if (equal && type(v).rank() < 3)
          fresh(b_.stack(pair, dim), std::max(bound(v), bound(other)), {v, other});
        break;
      case 2:
        fresh(b_.flip(v.id, front), bound(v), {v});
        break;
      default: {
        Dims padding(static_cast<size_t>(2 * type(v).rank()), Dim(0));
        padding[static_cast<size_t>(below(static_cast<int>(padding.size())))] = 1 + below(2);
        fresh(b_.emit(Op::pad, {v.id}, {padding, ir::Number(0.5)}), std::max(1.0, bound(v)), {v});
      }
    }
  }

  /// Places of `size` in another order, or of some of them, several times each.
  ValueId places(Dim size) {
    const int64_t last = int64_t{size} - 1, step = 1 + below(3);
    const ValueId backwards = b_.iota(size, DType::I64, last, -1);
    if (below(2)) return backwards;
    return b_.pointwise(Op::floor_divide, {backwards, b_.number(1 + step, backwards)});
  }

  void index() {
    const Value v = within(floats_of_rank(1, 3), 5);
    const Shape sizes = type(v).sizes;  // new equations move the graph's types
    const int dim = below(sizes.rank());
    if (sizes[dim] == 0) return;
    const ValueId at = places(sizes[dim]);
    const auto fits = [&](const Value& o) {
      return is_float(o) && type(o).sizes == sizes && bound(o) <= 5;
    };
    if (const Value added = *find(fits); below(2))
      fresh(b_.index_add(v.id, dim, at, added.id), 5.0 + 5.0 * static_cast<double>(sizes[dim]),
            {v, added});
    else
      fresh(b_.index_select(v.id, dim, at), bound(v), {v});
  }

  // --- reductions and contractions
  /// All results of one equation, with their bounds.
  void several(const ir::ValueList& results, std::initializer_list<double> bounds, const Value& v) {
    for (size_t i = 0; i < results.size(); ++i) {
      const bool is_float = ir::is_floating(b_.dtype(results[i]));  // halves' statistics: f32
      fresh(is_float ? b_.convert(results[i], float_) : results[i], bounds.begin()[i], {v});
    }
  }

  void reduction() {
    const Value v = within(floats_of_rank(1, 3), 5);
    const int rank = type(v).rank(), dim = below(rank);
    const int64_t size = type(v).sizes[dim];
    if (size == 0 || is_empty(v)) return;
    program_.features.reduction = true;
    const ir::Axes dims = below(4) ? ir::Axes{dim} : ir::Axes();
    const int64_t count = dims.empty() ? int64_t{ir::numel(type(v).sizes)} : size;
    const bool keep = below(2);
    switch (below(16)) {
      case 0:
      case 1:
        fresh(b_.sum(v.id, dims, keep), 5.0 * static_cast<double>(count), {v});
        break;
      case 2:
        fresh(b_.mean(v.id, dims, keep), 5, {v});
        break;
      case 3:
        fresh(b_.reduce(Op::amax, v.id, dims, keep), 5, {v});
        break;
      case 4:
        fresh(b_.reduce(Op::amin, v.id, dims, keep), 5, {v});
        break;
      case 5:
        fresh(b_.var(v.id, dims, 0, keep), 25, {v});
        break;
      case 6:
        fresh(b_.logsumexp(v.id, dims, keep), 12, {v});
        break;
      case 7:
        fresh(b_.softmax(v.id, dim), 1, {v});
        break;
      case 8:
        fresh(b_.log_softmax(v.id, dim), 20, {v});
        break;
      case 9:
        several(b_.native_layer_norm(v.id, {}, {}, 1, 0.1), {10, 5, 4}, v);
        break;
      case 10:
        several(b_.var_mean(v.id, dims, 0, keep), {25, 5}, v);
        break;
      case 11:
        several(b_.aminmax(v.id, dims, keep), {5, 5}, v);
        break;
      case 12:
        several(b_.extremum_with_indices(pick({Op::max_with_indices, Op::min_with_indices}), v.id,
                                         dim, keep),
                {5, static_cast<double>(size)}, v);
        break;
      case 13:
        fresh(b_.emit(Op::cumsum, {v.id}, {int64_t{dim}}), 5.0 * static_cast<double>(size), {v});
        break;
      case 14: {
        const ValueId order = b_.emit(Op::argsort, {v.id}, {int64_t{dim}, below(2) == 0});
        fresh(b_.gather(v.id, dim, order), 5, {v});
        break;
      }
      default:
        fresh(b_.reduce(Op::any, mask_like(v).id, dims, keep), 1, false);
    }
  }

  void contraction() {
    const Value v = within(floats_of_rank(2, 3), 2);
    if (ir::numel(type(v).sizes) > kMaxElements) return;
    program_.features.contraction = true;
    const int rank = type(v).rank();
    const double inner = type(v).sizes[rank - 1];
    const auto fits = [&](const Value& o) {
      return is_float(o) && type(o).rank() == 2 && bound(o) <= 5 &&
             type(o).sizes[0] == type(v).sizes[rank - 1];
    };
    if (const auto other = find(fits); other && below(2)) {
      fresh(b_.matmul(v.id, other->id), 10 * inner, {v, *other});
      return;
    }
    fresh(b_.matmul(v.id, b_.transpose(v.id, rank - 2, rank - 1)), 4 * inner, {v});
  }

  // --- randomness
  /// The operands' end and attribute of a random equation: where its draws begin.
  Dim take_draws(DType dtype, const Shape& sizes) {
    program_.features.random = true;
    const Dim offset = draws_;
    draws_ = draws_ + ir::random_counters(dtype, ir::numel(sizes));
    return offset;
  }

  /// As the single program draws it, so that the widened one has the same bits.
  ValueId drawn(Op op, const Shape& sizes) {
    const DType dtype = program_.floating == DType::F64 ? DType::F64 : DType::F32;
    const ValueId id = b_.emit(op, {rng_}, {sizes, dtype, take_draws(dtype, sizes)});
    drawn_.push_back(id);
    return b_.emit(Op::convert, {id}, {float_});
  }

  void draw() {
    if (!rng_.valid()) return unary();
    const Value v = within(any_float(), 5);
    const Shape sizes = type(v).sizes;  // new equations move the graph's types
    const double p = 0.125 * (1 + below(6));
    switch (below(4)) {
      case 0:
        fresh(drawn(Op::rand, sizes), 1, false);
        break;
      case 1:
        fresh(drawn(Op::randn, sizes), 7, false);
        break;
      case 2: {  // Bernoulli
        const ValueId u = drawn(Op::rand, sizes);
        fresh(b_.pointwise(Op::lt, {u, b_.number(p, u)}), 1, false);
        break;
      }
      default:
        // Its words are 32-bit ones whatever its dtype.
        fresh(b_.emit(Op::dropout, {v.id, rng_}, {p, take_draws(DType::F32, sizes)}), 5 / (1 - p),
              {v});
    }
  }

  // --- samples
  /// An operand of a sample: an input, and whether the equations that read it begin behind its
  /// first row.
  struct Operand {
    ValueId id;
    ir::Strides strides;  // as the sample sees them
    bool is_fixed = false, is_offset = false, grad = false;
  };
  struct Pending {
    Sample sample;
    std::vector<double> bounds;
    std::vector<Operand> operands;
    std::vector<bool> shown;  // by result
    bool grad = true;         // no operand refuses gradients
    Dim draws = 0;            // that are set aside for it: the widened program's are no fewer
  };

  void add_sample_inputs() {
    for (int i = 1 + below(3); i > 0; --i) {
      const uint64_t seed = random_();
      auto sample = random_sample(seed, program_.floating);
      if (!sample) continue;
      auto bounds = bounds_of(*sample, program_.floating);
      if (!bounds) continue;
      Pending pending{std::move(*sample), std::move(*bounds), {}};
      const ir::Graph body = body_of(pending.sample, float_);
      if (draws(body) && !rng_.valid()) add_rng();
      pending.grad = below(4) != 0 && !refuses_gradients(body);
      const ir::Graph wide = body_of(pending.sample, DType::F64);
      pending.shown = shown_results(body_of(pending.sample, program_.floating), wide);
      pending.draws = wide.epilogue.rng_draws;
      for (size_t k = 0; k < pending.sample.operands.size(); ++k)
        pending.operands.push_back(sample_input(pending, k, body.type(body.inputs()[k].value)));
      pending_.push_back(std::move(pending));
    }
  }

  ir::Graph body_of(const Sample& sample, DType floating) const {
    std::vector<ir::Strides> layouts;
    for (const ir::Buffer& operand : sample.operands)
      layouts.push_back(ir::contiguous_strides(operand.sizes()));
    return sample.body(floating, layouts);
  }

  /// Which results may show the memory of another value, or several times the same: of the program
  /// or of the widened one, where a conversion may be none.
  static std::vector<bool> shown_results(const ir::Graph& body, const ir::Graph& wide) {
    const auto is_shown = [](const ir::Graph& graph, size_t k) {
      const ir::EquationId e = graph.producer(graph.outputs()[k].value);
      return !e.valid() || ir::is_view(graph.op(e));
    };
    std::vector<bool> shown;
    for (size_t k = 0; k < body.outputs().size(); ++k)
      shown.push_back(is_shown(body, k) || is_shown(wide, k));
    return shown;
  }

  Operand sample_input(Pending& pending, size_t place, Type type) {
    ir::Buffer& contents = pending.sample.operands[place];
    Operand operand;
    operand.is_fixed = pending.sample.is_fixed[place];
    operand.strides = ir::contiguous_strides(type.sizes);
    operand.grad =
        ir::is_floating(type.dtype) && pending.grad && !operand.is_fixed && below(3) != 0;
    ir::Input input;
    const int layout = operand.is_fixed ? 8 : below(8);
    if (layout < 4 && pending.sample.takes_layouts) operand.strides = any_strides(type.sizes);
    if (layout == 4 && pending.sample.takes_repetitions) operand.strides = repeat(contents);
    input.strides = operand.strides;
    operand.is_offset = layout == 5 && type.rank() > 0;
    if (operand.is_offset) {
      type.sizes[0] += 1;
      contents = behind_a_row(contents);
    }
    input.name = fmt::format("s{}", program_.contents.size());
    input.requires_grad = operand.grad;
    operand.id = program_.graph.add_input(input, type);
    program_.contents.emplace(input.name, contents);
    return operand;
  }

  /// Makes what lies along one dimension the same element of memory.
  ir::Strides repeat(ir::Buffer& contents) {
    ir::Strides strides = ir::contiguous_strides(contents.sizes());
    if (contents.sizes().rank() == 0 || contents.numel() == 0) return strides;
    const int dim = below(contents.sizes().rank());
    const int64_t step = int64_t{strides[dim]}, size = int64_t{contents.sizes()[dim]};
    for (int64_t i = 0; i < contents.numel(); ++i)
      contents.set(i, contents.at(i - i / step % size * step));
    strides[dim] = 0;
    return strides;
  }

  static ir::Buffer behind_a_row(const ir::Buffer& contents) {
    Type type = contents.type();
    type.sizes[0] += 1;
    ir::Buffer longer(type);
    const int64_t row = longer.numel() - contents.numel();
    for (int64_t i = 0; i < contents.numel(); ++i) longer.set(row + i, contents.at(i));
    return longer;
  }

  /// A little of the program is added to what suits the sample, so that it and its gradient flow
  /// through.
  Value sample_operand(const Operand& operand, bool contiguous) {
    Value v{operand.id, storages_.size()};
    storages_.push_back({0, operand.grad});
    if (operand.is_offset) v.id = b_.slice(v.id, 0, 1, std::nullopt);
    const Shape sizes = type(v).sizes;  // new equations move the graph's types
    const Value from = any_float();
    if (operand.is_fixed || !is_float(v) || is_empty(from) || below(2) == 0) return v;
    const ValueId little = b_.mul(b_.tanh(b_.clone(from.id)), 1.0 / 128);
    const bool has_grad = grad(v) || grad(from);
    v = {b_.pointwise(Op::add, {v.id, b_.convert(part_of(little, sizes), float_)}),
         storages_.size()};
    if (contiguous || operand.strides != ir::contiguous_strides(sizes)) v.id = b_.clone(v.id);
    storages_.push_back({0, has_grad});
    return v;
  }

  /// The first elements of `v`, or where there are not enough their mean.
  ValueId part_of(ValueId v, const Shape& sizes) {
    const Dim count = ir::numel(b_.sizes(v)), wanted = ir::numel(sizes);
    if (count < wanted) return b_.mean(v);
    return b_.view(b_.slice(b_.view(v, {count}), 0, 0, wanted), sizes);
  }

  void sample() {
    const Pending pending = std::move(pending_.back());
    pending_.pop_back();
    const bool enabled = sink_.grad_enabled && pending.grad;
    sink_.grad_enabled = true;  // see view_of
    std::vector<ValueId> operands;
    std::vector<ir::Strides> layouts;
    std::vector<bool> grads;
    for (const Operand& operand : pending.operands) {
      const Value v = sample_operand(operand, !pending.sample.takes_layouts);
      grads.push_back(grad(v) && enabled);
      operands.push_back(v.id);
      layouts.push_back(v.id == operand.id ? operand.strides
                                           : ir::contiguous_strides(type(v).sizes));
    }
    const ir::Graph body = body_on(pending.sample, operands, layouts);
    const std::vector<ValueId> results = inlined(body, operands, enabled);
    if (draws(body)) program_.features.random = true;
    draws_ = draws_ + pending.draws;
    const std::vector<bool> has_grad = results_with_grad(body, grads);
    for (size_t k = 0; k < results.size(); ++k)
      add_result(results[k], pending.bounds[k], has_grad[k], pending.shown[k]);
    program_.samples.push_back(pending.sample.name);
  }

  /// The body for operands of these layouts, or of copies, if it takes no others.
  ir::Graph body_on(const Sample& sample, std::vector<ValueId>& operands,
                    std::vector<ir::Strides>& layouts) {
    try {
      return sample.body(float_, layouts);
    } catch (const ir::Error&) {
      for (size_t i = 0; i < operands.size(); ++i) {
        operands[i] = b_.clone(operands[i]);
        layouts[i] = ir::contiguous_strides(b_.sizes(operands[i]));
      }
      return sample.body(float_, layouts);
    }
  }

  void add_result(ValueId result, double bound, bool has_grad, bool is_view) {
    const bool is_float = ir::is_floating(b_.dtype(result));
    if (is_float) result = b_.convert(result, float_);
    if (ir::numel(b_.sizes(result)) > kMaxElements) {
      if (!is_float) return;
      result = b_.mean(result);
    }
    fresh(result, bound, has_grad);
    values_.back().is_view = is_view;
    values_.back().writable = !is_view;
  }

  /// Which results have a history, by which operands do.
  static std::vector<bool> results_with_grad(const ir::Graph& body,
                                             const std::vector<bool>& operands) {
    std::vector<uint32_t> memory(body.num_values());  // a view's is its base's
    std::iota(memory.begin(), memory.end(), 0);
    std::vector<bool> has(body.num_values());
    for (size_t i = 0; i < operands.size(); ++i) has[body.inputs()[i].value.index] = operands[i];
    for (size_t i = 0; i < body.num_equations(); ++i) {
      const ir::EquationId e = body.equation_id(i);
      const Op op = body.op(e);
      const bool cuts = op == Op::detach || op == Op::detach_copy || op == Op::stop_gradient ||
                        op == Op::stop_backward;
      const bool flows = !cuts && body.equation(e).grad_enabled &&
                         std::ranges::any_of(body.operands(e),
                                             [&](ValueId v) { return bool(has[memory[v.index]]); });
      if (body.equation(e).in_place && flows) has[memory[body.operand(e, 0).index]] = true;
      for (const ValueId v : body.results(e)) {
        if (ir::is_view(op) && !cuts)
          memory[v.index] = memory[body.operand(e, 0).index];
        else
          has[v.index] = flows;
      }
    }
    std::vector<bool> results;
    for (const ir::Output& output : body.outputs())
      results.push_back(has[memory[output.value.index]]);
    return results;
  }

  bool reads_rng(ir::EquationId e) const {
    return rng_.valid() && std::ranges::count(program_.graph.operands(e), rng_) > 0;
  }

  /// Behind the program's own draws so far. The bits are the same in the widened program: calls
  /// draw in one dtype, but for dropout, whose words do not depend on it.
  void shift_draws(ir::EquationId e) {
    ir::Graph& graph = program_.graph;
    graph.set_attr(e, ir::Attr::offset, draws_ + graph.attr<Dim>(e, ir::Attr::offset));
    if (graph.op(e) != Op::dropout) drawn_.push_back(graph.result(e, 0));
  }

  std::vector<ValueId> inlined(const ir::Graph& body, const std::vector<ValueId>& operands,
                               bool grad_enabled) {
    ir::Graph& graph = program_.graph;
    ir::ValueMap<ValueId> map(body);
    for (size_t i = 0; i < operands.size(); ++i) map[body.inputs()[i].value] = operands[i];
    if (draws(body)) map[body.inputs().back().value] = rng_;
    for (size_t i = 0; i < body.num_equations(); ++i) {
      // (Of what is not symmetric the gradient is not the derivative.)
      const ir::EquationId given = body.equation_id(i);
      if (test::reads_one_triangle(body.op(given), body.attrs(given))) {
        ValueId& matrix = map[body.operand(given, 0)];
        matrix = b_.mul(b_.add(matrix, b_.transpose(matrix, -2, -1)), 0.5);
      }
      const ir::EquationId e = graph.append_copy(body, given, map);
      graph.equation(e).location = {};
      graph.equation(e).grad_enabled &= grad_enabled;
      if (reads_rng(e)) shift_draws(e);
    }
    std::vector<ValueId> results;
    for (const ir::Output& output : body.outputs()) results.push_back(map[output.value]);
    return results;
  }

  // --- writes
  bool is_target(const Value& v) const { return is_float(v) && v.writable; }

  void write() {
    if (const auto v = find([&](const Value& o) { return is_target(o); })) write_into(*v);
  }

  void write_through_view() {
    const auto base = find([&](const Value& v) { return is_target(v) && type(v).rank() > 0; });
    if (!base) return;
    Value target = view_of(*base);
    if (!target.writable || target.id == base->id)
      target = add_view(*base, b_.slice(base->id, 0, 0, 1), true);
    if (target.id == base->id) return;
    write_into(target);
    program_.features.view_write = true;
  }

  void write_into(const Value& v) {
    Storage& storage = storages_[v.storage];
    if (storage.bound > 15) {
      b_.pointwise_in_place(Op::tanh, {v.id});
      return;
    }
    const int choice = below(7);
    if (choice == 0) return b_.pointwise_in_place(Op::neg, {v.id});
    if (choice == 1) return b_.pointwise_in_place(Op::sin, {v.id});
    if (choice == 2) return b_.pointwise_in_place(Op::fill, {v.id}, {ir::Number(0.75)});
    if (choice == 3) return b_.pointwise_in_place(Op::mul, {v.id, b_.number(0.5, v.id)});
    const Value source = within(partner(v), 2);
    // `within` may have moved the storages.
    Storage& written = storages_[v.storage];
    const Op op = choice == 4 ? Op::copy : choice == 5 ? Op::add : Op::sub;
    b_.pointwise_in_place(op, {v.id, source.id});
    written.bound += bound(source);
    written.grad |= grad(source) && sink_.grad_enabled;
  }

  std::mt19937_64 random_;
  ProgramOptions options_;
  RandomProgram program_;
  StridedSink sink_;
  ir::Builder b_;
  DType float_;
  Dim sizes_[3], rows_ = 0;  // rows: many, of which all inputs are; or none
  ValueId rng_;              // invalid: the program does not draw
  Dim draws_ = 0;
  std::vector<ValueId> drawn_;
  std::vector<Value> values_;
  std::vector<Storage> storages_;
  std::vector<Pending> pending_;
};

/// A key, and a counter far from both ends.
ir::Buffer random_generator(std::mt19937_64& random) {
  ir::Buffer buffer({DType::I64, {2}});
  buffer.set(0, static_cast<int64_t>(random()));
  buffer.set(1, static_cast<int64_t>(random() >> 24));
  return buffer;
}

ir::Buffer random_buffer(const Type& type, std::mt19937_64& random) {
  ir::Buffer buffer(type);
  for (int64_t i = 0; i < buffer.numel(); ++i) {
    const uint64_t word = random();
    if (ir::is_floating(type.dtype))
      buffer.set(i, static_cast<float>(static_cast<double>(word >> 40) * 0x1p-22 - 2));
    else
      buffer.set(i, static_cast<int64_t>(word >> 40) % (type.dtype == DType::Bool ? 2 : 9));
  }
  return buffer;
}

}  // namespace

RandomProgram random_program(uint64_t seed, const ProgramOptions& options) {
  return Generator(seed, options).run();
}

std::map<std::string, ir::Buffer> random_tensors(const ir::Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed + 0x5eed);
  std::map<std::string, ir::Buffer> tensors;
  for (const ir::Input& input : graph.inputs())
    if (!input.alias_of)
      tensors.emplace(input.name, input.role == ir::Role::Rng
                                      ? random_generator(random)
                                      : random_buffer(graph.type(input.value), random));
  for (const ir::Output& output : graph.outputs())
    if (output.requires_grad)
      tensors.emplace("tangent:" + output.name, random_buffer(graph.type(output.value), random));
  return tensors;
}

std::map<std::string, ir::Buffer> random_tensors(const RandomProgram& program, uint64_t seed) {
  std::map<std::string, ir::Buffer> tensors = random_tensors(program.graph, seed);
  for (const auto& [name, contents] : program.contents) tensors[name] = contents;
  return tensors;
}

}  // namespace tandem::testing
