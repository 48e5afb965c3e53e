// Random graphs for lowering: views, reductions, contractions, scatters, writes into inputs, of
// contiguous, permuted and gapped tensors of one or several dtypes.
#ifndef TANDEM_TESTS_UNIT_CODEGEN_RANDOM_LOWERING_H
#define TANDEM_TESTS_UNIT_CODEGEN_RANDOM_LOWERING_H

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "tests/unit/codegen/check_lowering.h"

namespace tandem::codegen {

using ir::Dim;

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {
    const Shape sizes = pick(std::vector<Shape>{{6, 8},
                                                {3, 4, 5},
                                                {40, 20},
                                                {2, 70},
                                                {24},
                                                {4, 1, 6},
                                                {40, 3},
                                                {20, 2, 3},
                                                {5, 18, 4},
                                                {77, 3},
                                                {67, 5},
                                                {33, 12},
                                                {50, 2, 4},
                                                {17, 31},
                                                {34, 40}});
    const DType dtype = pick(std::vector{DType::F32, DType::F32, DType::F64, DType::BF16});
    for (int i = 0; i < 3; ++i) values_.push_back(t_.input(sizes, dtype, strides(sizes)));
    inputs_ = 3;
    values_.push_back(t_.input({sizes.back()}));
    rows_ = t_.input({3}, DType::I64);
    many_rows_ = t_.input({41}, DType::I64);
    for (int i = 0, n = 5 + below(20); i < n; ++i) step();
  }

  ir::Graph finish(bool all) {
    if (all)
      for (size_t i = 0; i + 3 < values_.size(); ++i) t_.output(values_[i]);
    for (size_t i = values_.size() - 3; i < values_.size(); ++i)
      t_.output(values_[i], strides(t_.b.sizes(values_[i])), mutated(values_[i]));
    return t_.finish(pick(std::vector<int64_t>{1, 4}), pick(std::vector<int64_t>{4, 16, 1024}));
  }

  /// How far results may be from the reference.
  double tolerance() const { return has_halves_ ? 0.3 : 1e-4; }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  template <class T>
  const T& pick(const std::vector<T>& v) {
    return v[static_cast<size_t>(below(static_cast<int>(v.size())))];
  }
  V any() {  // recent values more often
    const int n = static_cast<int>(values_.size());
    return values_[static_cast<size_t>(below(2) == 0 ? n - 1 - below(std::min(n, 4)) : below(n))];
  }
  int64_t numel(V v) const { return t_.b.numel(v); }

  /// Contiguous, of a random order of dims, or with gaps.
  ir::Strides strides(const Shape& sizes) {
    std::vector<int> order;
    for (int d = 0; d < sizes.rank(); ++d) order.push_back(d);
    if (below(2) == 0) std::shuffle(order.begin(), order.end(), random_);
    ir::Strides out = ir::Strides::filled(sizes.rank(), 0);
    const bool gaps = below(4) == 0;
    int64_t stride = gaps ? 1 + below(2) : 1;
    for (size_t i = order.size(); i-- > 0;) {
      out[order[i]] = stride;
      stride = stride * int64_t{sizes[order[i]]} + (gaps ? below(3) : 0);
    }
    return out;
  }

  /// An input that the value is the new contents of, each once; or -1.
  int mutated(V v) {
    if (inputs_ == 0 || t_.b.type(v) != t_.b.type(values_[static_cast<size_t>(inputs_ - 1)]))
      return -1;
    return --inputs_;
  }

  void step() {
    using Step = void (RandomGraph::*)();
    static const std::vector<Step> steps = {
        &RandomGraph::unary,   &RandomGraph::unary,     &RandomGraph::binary,
        &RandomGraph::binary,  &RandomGraph::binary,    &RandomGraph::reduce,
        &RandomGraph::reduce,  &RandomGraph::normalise, &RandomGraph::view,
        &RandomGraph::permute, &RandomGraph::slice,     &RandomGraph::shape,
        &RandomGraph::select,  &RandomGraph::matmul,    &RandomGraph::scatter,
        &RandomGraph::convert, &RandomGraph::position,  &RandomGraph::move_rows};
    (this->*pick(steps))();
  }

  void push(V v) {
    const DType dtype = t_.b.dtype(v);
    has_halves_ |= dtype == DType::BF16 || dtype == DType::F16;
    if (numel(v) > 0 && numel(v) < 20000) values_.push_back(v);
  }

  void convert() {
    push(t_.b.convert(any(), pick(std::vector{DType::F32, DType::F64, DType::BF16, DType::F16})));
  }
  V like(V x, V other) { return t_.b.convert(x, t_.b.dtype(other)); }

  void unary() {
    push(t_.b.emit(pick(std::vector<Op>{Op::sin, Op::neg, Op::sigmoid, Op::abs, Op::tanh}),
                   {any()}));
  }

  void binary() {
    const V a = any();
    const auto fits = [&](V b) {
      const Shape &x = t_.b.sizes(a), &y = t_.b.sizes(b);
      for (int i = 1; i <= std::min(x.rank(), y.rank()); ++i) {
        const int64_t p = x[x.rank() - i], q = y[y.rank() - i];
        if (p != q && p != 1 && q != 1) return false;
      }
      return true;
    };
    V b = any();
    for (int i = 0; i < 5 && !fits(b); ++i) b = any();
    if (!fits(b)) b = a;
    push(t_.b.pointwise(pick(std::vector<Op>{Op::add, Op::sub, Op::mul, Op::maximum}),
                        {a, like(b, a)}));
  }

  void reduce() {
    const V x = any();
    const int rank = t_.b.rank(x);
    if (rank == 0) return;
    const int first = below(rank), last = first + below(rank - first);
    ir::Axes dims;
    double n = 1;
    for (int d = first; d <= last; ++d) dims.push_back(d), n *= int64_t{t_.b.sizes(x)[d]};
    const V r = t_.b.reduce(pick(std::vector<Op>{Op::sum, Op::sum, Op::amax, Op::amin}), x, dims,
                            below(2) == 0);
    push(t_.b.mul(r, 1.0 / n));
  }

  void normalise() {
    const V x = any();
    if (t_.b.rank(x) == 0) return;
    const int last = t_.b.rank(x) - 1;
    const V e = t_.b.exp(t_.b.sub(x, t_.b.amax(x, {last}, true)));
    push(t_.b.div(e, t_.b.sum(e, {last}, true)));
  }

  void view() {
    const V x = any();
    const int64_t n = numel(x);
    for (int64_t rows : {6, 4, 5, 7, 3, 2})
      if (n % rows == 0 && below(2) == 0) return push(t_.b.view(x, {rows, n / rows}));
    push(t_.b.view(x, {n}));
  }

  void permute() {
    const V x = any();
    ir::Axes order;
    for (int d = 0; d < t_.b.rank(x); ++d) order.push_back(d);
    std::shuffle(order.begin(), order.end(), random_);
    push(t_.b.permute(x, order));
  }

  void slice() {
    const V x = any();
    if (t_.b.rank(x) == 0) return;
    const int d = below(t_.b.rank(x));
    const int size = static_cast<int>(t_.b.sizes(x)[d]), start = below(size);
    push(t_.b.slice(x, d, Dim(start), Dim(size), 1 + below(2)));
  }

  void shape() {
    const V x = any();
    const int rank = t_.b.rank(x);
    if (rank == 0) return;
    const int d = below(rank);
    switch (below(3)) {
      case 0:
        return push(t_.b.flip(x, ir::Axes{d}));
      case 1:
        return push(t_.b.cat(std::vector<V>{x, t_.b.sin(x), x}, d));
      default: {
        std::vector<Dim> padding(static_cast<size_t>(2 * rank), 0);
        padding[static_cast<size_t>(2 * d)] = below(3);
        padding[static_cast<size_t>(2 * d + 1)] = below(3);
        push(t_.b.pad(x, padding, 0.5));
      }
    }
  }

  void select() {
    const V x = any();
    if (t_.b.rank(x) == 0) return;
    const int d = below(t_.b.rank(x));
    if (t_.b.sizes(x)[d] > 3) push(t_.b.index_select(x, d, rows_));
  }

  void matmul() {
    const V x = any();
    if (t_.b.rank(x) != 2) return;
    const double scale = 1.0 / static_cast<double>(int64_t{t_.b.sizes(x)[0]});
    push(t_.b.mul(t_.b.mm(t_.b.permute(x, {1, 0}), x), scale));
  }

  void scatter() {
    const V x = any();
    if (t_.b.rank(x) == 0) return;
    const int d = below(t_.b.rank(x));
    const int64_t size = t_.b.sizes(x)[d];
    const V part = t_.b.sin(t_.b.slice(x, d, Dim(size / 2), Dim(size)));
    push(t_.b.slice_scatter(x, part, d, 0, size - size / 2, 1));
    if (size > 3) push(t_.b.index_add(x, d, rows_, t_.b.index_select(x, d, rows_)));
  }

  /// Of an input: of what is computed, roundings would decide.
  void position() {
    const V x = values_[static_cast<size_t>(below(3))];
    const ir::Axis last = t_.b.rank(x) - 1;
    const Op op = pick(std::vector<Op>{Op::argmax, Op::argmin});
    push(t_.b.convert(t_.b.reduce(op, x, std::array{last}, below(2) == 0), t_.b.dtype(x)));
  }

  /// Rows that are gathered, weighted and added where others are.
  void move_rows() {
    const V x = any(), weights = any();
    if (t_.b.rank(x) == 0 || t_.b.sizes(x)[0] < 3) return;
    V moved = t_.b.index_select(x, 0, many_rows_);
    if (t_.b.rank(weights) > 0 && t_.b.sizes(weights) == t_.b.sizes(x))
      moved = t_.b.mul(moved, like(t_.b.index_select(weights, 0, many_rows_), moved));
    push(below(2) == 0 ? moved : t_.b.index_add(x, 0, many_rows_, t_.b.mul(moved, 1.0 / 41)));
  }

  std::mt19937 random_;
  TestGraph t_;
  std::vector<V> values_;
  V rows_, many_rows_;
  bool has_halves_ = false;
  int inputs_ = 0;  // that may still be the target of an output
};

/// Lets every mutation go straight into its input.
inline LowerOptions direct_writes(const ir::Graph& g) {
  LowerOptions options;
  for (size_t o = 0; o < g.outputs().size(); ++o)
    if (g.outputs()[o].target >= 0) options.write_into_input.push_back(static_cast<int>(o));
  return options;
}

}  // namespace tandem::codegen

#endif  // TANDEM_TESTS_UNIT_CODEGEN_RANDOM_LOWERING_H
