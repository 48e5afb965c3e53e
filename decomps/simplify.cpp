// Simplification: one pass that emits every equation again through a sink which first tries the
// rules below. Rules look only at operands and at what defines them, all of it simplified already,
// so that one pass reaches the fixed point. Every rule preserves every bit (a NaN may change its
// sign and payload).
#include "decomps/simplify.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "decomps/candidate.h"
#include "decomps/fold.h"
#include "ir/base/error.h"
#include "ir/build/rewrite.h"
#include "ir/reduction_order.h"

namespace tandem::decomps {
namespace {

using ir::Attr;
using ir::AttrValue;
using ir::Builder;
using ir::Dim;
using ir::DType;
using ir::EquationId;
using ir::Graph;
using ir::Number;
using ir::Op;
using ir::Shape;
using ir::Type;
using V = ir::ValueId;

// --- arithmetic

// x + -0 = x (x + 0 would turn -0 into 0); integers: x + 0 = x
Result add_zero(const Candidate& c) { return c.beside(ir::constant_of(c.type.dtype, -0.0)); }

// x - 0 = x
Result sub_zero(const Candidate& c) {
  return c.is_constant(c[1], ir::constant_of(c.type.dtype, 0.0)) ? Result(c[0]) : std::nullopt;
}

// x * 1 = x
Result mul_one(const Candidate& c) { return c.beside(ir::constant_of(c.type.dtype, 1.0)); }

// x * -1 = -x, of what holds -1
Result mul_minus_one(const Candidate& c) {
  if (c.type.dtype == DType::Bool || c.type.dtype == DType::U8) return std::nullopt;
  const Result x = c.beside(ir::constant_of(c.type.dtype, -1.0));
  return x ? Result(c.b.neg(*x)) : std::nullopt;
}

// x / 1 = x
Result div_one(const Candidate& c) {
  return c.is_constant(c[1], 1.0) ? Result(c[0]) : std::nullopt;
}

// x / 2^k = x * 2^-k: both are the same real number, rounded once
Result div_power_of_two(const Candidate& c) {
  const auto divisor = c.constant(c[1]);
  if (!divisor || ir::size_of(c.type.dtype) < 4) return std::nullopt;
  int exponent = 0;
  const double mantissa = std::frexp(divisor->to_double(), &exponent);
  if (std::abs(mantissa) != 0.5 || std::abs(exponent) > 100) return std::nullopt;
  return c.b.mul(c[0], c.b.full(c.type.sizes, c.type.dtype, 1 / divisor->to_double()));
}

// f f x = x: neg, logical_not, bitwise_not
Result involution(const Candidate& c) {
  return c.is(c[0], c.op) ? Result(c.behind(c[0])) : std::nullopt;
}

// abs(abs x) = abs x; abs(neg x) = abs x
Result abs_of_sign(const Candidate& c) {
  if (c.is(c[0], Op::abs)) return c[0];
  return c.is(c[0], Op::neg) ? Result(c.b.abs(c.behind(c[0]))) : std::nullopt;
}

// max(x, x) = x; the same for min, and, or
Result idempotent(const Candidate& c) { return c[0] == c[1] ? Result(c[0]) : std::nullopt; }

// x and true = x; x and false = false
Result and_constant(const Candidate& c) {
  if (const Result x = c.beside(true)) return x;
  return c.beside(false) ? Result(c.b.full(c.type.sizes, DType::Bool, false)) : std::nullopt;
}

// x or false = x; x or true = true
Result or_constant(const Candidate& c) {
  if (const Result x = c.beside(false)) return x;
  return c.beside(true) ? Result(c.b.full(c.type.sizes, DType::Bool, true)) : std::nullopt;
}

// op(constant, ...) = constant, for ops whose result is exact or rounded once
Result fold_constants(const Candidate& c) {
  std::vector<Number> values;
  for (V v : c.operands) {
    const auto value = c.constant(v);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  const auto folded = fold(c.op, values, c.graph.type(c[0]).dtype, c.type.dtype);
  return folded ? Result(c.b.full(c.type.sizes, c.type.dtype, *folded)) : std::nullopt;
}

// --- selection, conversion, identity

// where(true, x, y) = x; where(false, x, y) = y; where(c, x, x) = x
Result where_constant(const Candidate& c) {
  if (c[1] == c[2]) return c[1];
  const auto condition = c.constant(c[0]);
  return condition ? Result(condition->to_bool() ? c[1] : c[2]) : std::nullopt;
}

// where(c, where(c, x, y), z) = where(c, x, z); where(c, x, where(c, y, z)) = where(c, x, z)
Result where_of_where(const Candidate& c) {
  if (c.is(c[1], Op::where) && c.behind(c[1]) == c[0])
    return c.b.where(c[0], c.behind(c[1], 1), c[2]);
  if (c.is(c[2], Op::where) && c.behind(c[2]) == c[0])
    return c.b.where(c[0], c[1], c.behind(c[2], 2));
  return std::nullopt;
}

// where(not c, x, y) = where(c, y, x)
Result where_of_not(const Candidate& c) {
  if (!c.is(c[0], Op::logical_not)) return std::nullopt;
  return c.b.where(c.behind(c[0]), c[2], c[1]);
}

// convert(x, its own dtype) = x
Result convert_to_same(const Candidate& c) {
  return c.graph.type(c[0]) == c.type ? Result(c[0]) : std::nullopt;
}

// convert(convert(x, wide), y) = convert(x, y) if wide holds every value of x's dtype
Result convert_chain(const Candidate& c) {
  if (!c.is(c[0], Op::convert)) return std::nullopt;
  const V x = c.behind(c[0]);
  if (!holds_exactly(c.graph.type(c[0]).dtype, c.graph.type(x).dtype)) return std::nullopt;
  return c.b.convert(x, c.type.dtype);
}

// clone x = x, stop_gradient x = x: once differentiated and without aliases, they are identities
Result identity_in_core(const Candidate& c) {
  return c.graph.level >= ir::Level::Core ? Result(c[0]) : std::nullopt;
}

// --- views

// view(x, its own sizes) = x; the same for expand, slice, pad
Result view_of_all(const Candidate& c) {
  return c.graph.type(c[0]).sizes == c.type.sizes ? Result(c[0]) : std::nullopt;
}

// A view of a constant is a constant.
Result view_of_full(const Candidate& c) {
  if (!c.is(c[0], Op::full)) return std::nullopt;
  const Number value = c.attr_behind<Number>(c[0], Attr::value);
  return c.b.full(c.type.sizes, c.type.dtype, value);
}

// view(view x) = view x; expand(expand x) = expand x
Result same_view_twice(const Candidate& c) {
  if (!c.is(c[0], c.op)) return std::nullopt;
  return c.b.emit(c.op, {c.behind(c[0])}, c.attrs);
}

// expand(view(x [n], [1, n]), [m, n]) = expand(x, [m, n]): expand itself adds leading dimensions
Result expand_of_leading_ones(const Candidate& c) {
  if (!c.is(c[0], Op::view)) return std::nullopt;
  const Shape& from = c.graph.type(c.behind(c[0])).sizes;
  Shape sizes = c.graph.type(c[0]).sizes;
  while (sizes.rank() > from.rank() && sizes[0] == 1) sizes.erase(0);
  return sizes == from ? Result(c.b.expand(c.behind(c[0]), c.type.sizes)) : std::nullopt;
}

// permute that moves only dimensions of size 1 = view
Result permute_of_ones(const Candidate& c) {
  const Shape& sizes = c.graph.type(c[0]).sizes;
  int64_t last = -1;
  for (ir::Axis d : c.attr<ir::Axes>(Attr::dims)) {
    if (sizes[static_cast<int>(d)] == 1) continue;
    if (d < last) return std::nullopt;
    last = d;
  }
  return c.b.view(c[0], c.type.sizes);
}

// permute(permute(x, p), q) = permute(x, p[q[i]])
Result permute_of_permute(const Candidate& c) {
  if (!c.is(c[0], Op::permute)) return std::nullopt;
  const auto& first = c.attr_behind<ir::Axes>(c[0], Attr::dims);
  ir::Axes dims;
  for (ir::Axis d : c.attr<ir::Axes>(Attr::dims)) dims.push_back(first[static_cast<size_t>(d)]);
  return c.b.permute(c.behind(c[0]), dims);
}

// slice(slice(x, start s, step t), start a, step b) = slice(x, start s + a t, step t b)
Result slice_of_slice(const Candidate& c) {
  const int64_t dim = c.attr<int64_t>(Attr::dim);
  if (!c.is(c[0], Op::slice) || c.attr_behind<int64_t>(c[0], Attr::dim) != dim) return std::nullopt;
  const Dim first = c.attr_behind<Dim>(c[0], Attr::start);
  const Dim step = c.attr_behind<Dim>(c[0], Attr::step);
  const Dim end =
      std::min(c.attr_behind<Dim>(c[0], Attr::end), Dim(first + c.attr<Dim>(Attr::end) * step));
  const Dim start = std::min(Dim(first + c.attr<Dim>(Attr::start) * step), end);
  return c.b.emit(Op::slice, {c.behind(c[0])}, {dim, start, end, step * c.attr<Dim>(Attr::step)});
}

// cat(x) = x
Result cat_of_one(const Candidate& c) {
  return c.operands.size() == 1 ? Result(c[0]) : std::nullopt;
}

// --- reductions over one element per result

bool reduces_single_elements(const Candidate& c) {
  const Shape& sizes = c.graph.type(c[0]).sizes;
  return std::ranges::all_of(c.attr<ir::Axes>(Attr::dims),
                             [&](ir::Axis d) { return sizes[static_cast<int>(d)] == 1; });
}

// prod, amax, amin, any, all of single elements = view
Result reduce_single(const Candidate& c) {
  if (!reduces_single_elements(c)) return std::nullopt;
  return c.b.view(c.b.convert(c[0], c.type.dtype), c.type.sizes);
}

// sum of single elements = x + 0 (a sum starts at 0: that of -0 is 0)
Result sum_single(const Candidate& c) {
  const Result x = reduce_single(c);
  if (!x || ir::is_integral(c.type.dtype)) return x;
  return c.b.add(*x, c.b.full(c.type.sizes, c.type.dtype, 0.0));
}

struct Rule {
  Op op;
  Result (*apply)(const Candidate&);
};

/// Tried in order. Constants come first, so that the other rules meet them folded.
constexpr Rule kRules[] = {
    {Op::add, add_zero},
    {Op::sub, sub_zero},
    {Op::mul, mul_one},
    {Op::mul, mul_minus_one},
    {Op::div, div_one},
    {Op::div, div_power_of_two},
    {Op::neg, involution},
    {Op::logical_not, involution},
    {Op::bitwise_not, involution},
    {Op::abs, abs_of_sign},
    {Op::maximum, idempotent},
    {Op::minimum, idempotent},
    {Op::logical_and, idempotent},
    {Op::logical_and, and_constant},
    {Op::logical_or, idempotent},
    {Op::logical_or, or_constant},
    {Op::where, where_constant},
    {Op::where, where_of_where},
    {Op::where, where_of_not},
    {Op::convert, convert_to_same},
    {Op::convert, convert_chain},
    {Op::clone, identity_in_core},
    {Op::stop_gradient, identity_in_core},
    {Op::view, view_of_all},
    {Op::view, view_of_full},
    {Op::view, same_view_twice},
    {Op::permute, view_of_full},
    {Op::permute, permute_of_ones},
    {Op::permute, permute_of_permute},
    {Op::permute, permute_of_repeated},
    {Op::expand, view_of_all},
    {Op::expand, view_of_full},
    {Op::expand, same_view_twice},
    {Op::expand, expand_of_leading_ones},
    {Op::slice, view_of_all},
    {Op::slice, view_of_full},
    {Op::slice, slice_of_slice},
    {Op::pad, view_of_all},
    {Op::cat, cat_of_one},
    {Op::gather, gather_of_pointwise},
    {Op::sum, sum_single},
    {Op::sum, sum_of_scattered},
    {Op::sum, sum_of_padded},
    {Op::sum, reduction_of_repeated},
    {Op::prod, reduce_single},
    {Op::prod, reduction_of_repeated},
    {Op::amax, reduce_single},
    {Op::amax, reduction_of_repeated},
    {Op::amin, reduce_single},
    {Op::amin, reduction_of_repeated},
    {Op::any, reduce_single},
    {Op::any, reduction_of_repeated},
    {Op::all, reduce_single},
    {Op::all, reduction_of_repeated},
};

/// The rules of each op.
struct RuleIndex {
  std::vector<Result (*)(const Candidate&)> rules[ir::kOpCount];
  RuleIndex() {
    for (int i = 0; i < ir::kOpCount; ++i)
      if (ir::is_pointwise(static_cast<Op>(i)) && can_fold(static_cast<Op>(i)))
        rules[i].push_back(fold_constants);
    for (const Rule& rule : kRules) rules[static_cast<size_t>(rule.op)].push_back(rule.apply);
  }
};

const RuleIndex& rule_index() {
  static const auto* const index = new RuleIndex;
  return *index;
}

/// Emits simplified equations. What a rule emits is simplified too; each rule makes an equation
/// smaller, so that ends.
class SimplifyingSink final : public ir::Sink {
 public:
  explicit SimplifyingSink(ir::Splicer& splicer) : splicer_(splicer), builder_(*this) {}

  const Type& type(V v) const override { return splicer_.graph().type(v); }

  bool has_rules(Op op) const { return !index_.rules[static_cast<size_t>(op)].empty(); }
  /// What stands for the equation, if a rule applies.
  Result simplified(Op op, std::span<const V> operands, std::span<const AttrValue> attrs,
                    const Type& result) {
    const Candidate candidate{builder_, splicer_.graph(), op, operands, attrs, result};
    for (const auto& rule : index_.rules[static_cast<size_t>(op)])
      if (const Result v = rule(candidate)) {
        TANDEM_CHECK(type(*v) == result,
                     std::string(ir::name(op)) + ": simplified to " + to_string(type(*v)));
        return v;
      }
    return std::nullopt;
  }

  void emit(Op op, std::span<const V> operands, ir::AttrsRef attrs, bool in_place,
            std::span<const Type> types, std::span<V> results) override {
    if (const Result v = simplified(op, operands, attrs, types[0]))
      results[0] = *v;
    else
      splicer_.sink().emit(op, operands, attrs, in_place, types, results);
  }

 private:
  const RuleIndex& index_ = rule_index();
  ir::Splicer& splicer_;
  Builder builder_;
};

/// Simplifies equations where they stand. The lists are memory that serves one after the other:
/// what a rule reads of its equation must not be in the graph that grows meanwhile.
class Simplifier {
 public:
  explicit Simplifier(Graph graph) : splicer_(std::move(graph)), sink_(splicer_) {}

  Graph run() {
    for (uint32_t i = 0; i < splicer_.num_equations(); ++i) {
      splicer_.at({i});
      if (const Result v = simplified({i})) splicer_.replace({i}, {&*v, 1});
    }
    return splicer_.take();
  }

 private:
  Result simplified(EquationId e) {
    const Graph& graph = splicer_.graph();
    const ir::Equation& equation = graph.equation(e);
    if (equation.in_place || equation.result_count != 1 || !sink_.has_rules(equation.op))
      return std::nullopt;
    operands_.assign(graph.operands(e).begin(), graph.operands(e).end());
    attrs_.assign(graph.attrs(e).begin(), graph.attrs(e).end());
    const Type type = graph.type(graph.result(e));
    return sink_.simplified(equation.op, operands_, attrs_, type);
  }

  ir::Splicer splicer_;
  SimplifyingSink sink_;
  std::vector<V> operands_;
  std::vector<AttrValue> attrs_;
};

}  // namespace

Graph simplify(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = simplify(std::move(graph.subgraph({i})));
  return Simplifier(std::move(graph)).run();
}

}  // namespace tandem::decomps
