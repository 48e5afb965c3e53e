// Random Functional programs on small matrices: pointwise, contractions, views, reductions,
// composites and dropout.
#ifndef TANDEM_TESTS_SUPPORT_RANDOM_RANDOM_MATRICES_H
#define TANDEM_TESTS_SUPPORT_RANDOM_RANDOM_MATRICES_H

#include <random>

#include "tests/support/graph_testing.h"

namespace tandem::graph_testing {

using ir::Builder;
using ir::Dim;
using ir::DType;
using ir::Graph;
using ir::Op;
using ir::ValueId;

inline constexpr int kSide = 4;

/// Writes random equations on [4, 4] matrices.
class RandomMatrixProgram {
 public:
  RandomMatrixProgram(Builder& b, Values inputs, ValueId rng, uint32_t seed)
      : b_(b), values_(std::move(inputs)), rng_(rng), gen_(seed) {}

  Values run() {
    for (int i = 0; i < 15; ++i) values_.push_back(step());
    return {values_.back(), values_[values_.size() - 2], b_.sum(pick())};
  }

 private:
  ValueId pick() { return values_[gen_() % values_.size()]; }

  ValueId step() {
    switch (gen_() % 8) {
      case 0:
      case 1:
        return unary();
      case 2:
      case 3:
        return binary();
      case 4:
        return gen_() % 2 == 0 ? b_.mm(pick(), pick()) : over_heads();
      case 5:
        return view();
      case 6:
        return reduced();
      default:
        return random();
    }
  }

  /// [4, 4] as [batch, time, heads, width], each two, in one batch of heads.
  ValueId heads() {
    const ValueId x = b_.permute(b_.view(pick(), {2, 2, 2, 2}), {0, 2, 1, 3});
    const ValueId merged = b_.view(x, {4, 2, 2});
    return gen_() % 2 == 0 ? merged : b_.permute(merged, {0, 2, 1});
  }

  ValueId over_heads() {
    ValueId y = b_.bmm(heads(), heads());
    if (gen_() % 3 == 0) y = b_.bmm(y, heads());
    return b_.view(b_.permute(b_.view(y, {2, 2, 2, 2}), {0, 2, 1, 3}), {kSide, kSide});
  }

  ValueId unary() {
    constexpr Op kOps[] = {Op::tanh,     Op::relu, Op::sin,  Op::sigmoid, Op::silu, Op::neg,
                           Op::softsign, Op::elu,  Op::gelu, Op::abs,     Op::clone};
    const Op op = kOps[gen_() % std::size(kOps)];
    std::vector<ir::AttrValue> attrs;
    if (op == Op::elu) attrs = {1.0};
    if (op == Op::gelu) attrs = {std::string("none")};
    return b_.emit(op, {pick()}, attrs);
  }

  ValueId binary() {
    constexpr Op kOps[] = {Op::add, Op::sub, Op::mul, Op::maximum, Op::logaddexp};
    const ValueId y =
        gen_() % 3 == 0 ? b_.full({}, DType::F32, static_cast<double>(gen_() % 3)) : pick();
    return b_.pointwise(kOps[gen_() % std::size(kOps)], {pick(), y});
  }

  ValueId view() {
    const ValueId x = pick();
    switch (gen_() % 5) {
      case 0:
        return b_.t(x);
      case 1:
        return b_.view(b_.view(x, {2, 8}), {kSide, kSide});
      case 2:
        return b_.expand(b_.slice(x, 0, 1, 2), {kSide, kSide});
      case 3:
        return b_.slice_scatter(x, b_.slice(pick(), 1, 0, 2), 1, 1, 3, 1);
      default:
        return b_.expand(b_.unsqueeze(b_.select(x, 1, 2), 1), {kSide, kSide});
    }
  }

  ValueId reduced() {
    const ValueId x = pick();
    const Dim dim = static_cast<int64_t>(gen_() % 2);
    switch (gen_() % 5) {
      case 0:
        return b_.softmax(x, static_cast<int>(dim));
      case 1:
        return b_.log_softmax(x, static_cast<int>(dim));
      case 2:
        return b_.layer_norm(x, {}, {}, 1, 1e-5);
      case 3:
        return b_.expand(b_.amax(x, {dim}, true), {kSide, kSide});
      default:
        return b_.expand(b_.mean(x, {dim}, true), {kSide, kSide});
    }
  }

  ValueId random() {
    const Dim offset = draws_;
    draws_ += kSide * kSide / 4;
    return b_.emit(Op::dropout, {pick(), rng_}, {0.25, offset});
  }

  Builder& b_;
  Values values_;
  ValueId rng_;
  std::mt19937 gen_;
  int64_t draws_ = 0;
};

/// A Functional graph of 15 random steps on [4, 4] matrices.
inline Graph random_functional(uint32_t seed) {
  const ir::Type x{DType::F32, {kSide, kSide}};
  return make_graph(
      {x, x, x, {DType::I64, {2}}},
      [&](Builder& b, const Values& v) {
        return RandomMatrixProgram(b, {v[0], v[1], v[2]}, v[3], seed).run();
      },
      ir::Level::Functional, 3);
}

}  // namespace tandem::graph_testing

#endif  // TANDEM_TESTS_SUPPORT_RANDOM_RANDOM_MATRICES_H
