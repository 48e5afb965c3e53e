// One or more equations of every differentiable op, on small f64 operands away from kinks.
#ifndef TANDEM_TESTS_UNIT_AUTODIFF_SAMPLES_H
#define TANDEM_TESTS_UNIT_AUTODIFF_SAMPLES_H

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ir/buffer.h"
#include "ir/graph.h"
#include "tests/support/program.h"

namespace tandem::test {

struct Sample {
  ir::Op op;
  std::vector<ir::Buffer> operands;
  std::vector<ir::AttrValue> attrs;
  bool twice = true;  // whether second derivatives are checked
};

using ir::Axes;
using ir::Buffer;
using ir::Dim;
using ir::Dims;
using ir::DType;
using ir::Number;
using ir::Op;
using ir::Shape;

/// Random values with magnitudes in [low, high] and, unless `positive`, both signs.
inline Buffer random(const Shape& sizes, uint64_t seed, double low, double high, bool positive) {
  Numbers numbers(seed);
  Buffer buffer(ir::Type{DType::F64, sizes});
  for (int64_t i = 0; i < buffer.numel(); ++i) {
    const double sign = !positive && numbers.uniform(-1, 1) < 0 ? -1 : 1;
    buffer.set(i, sign * numbers.uniform(low, high));
  }
  return buffer;
}
inline Buffer floats(const Shape& sizes, uint64_t seed = 1) {
  return random(sizes, seed, 0.2, 0.9, false);
}
inline Buffer positive(const Shape& sizes, uint64_t seed = 1, double low = 0.2, double high = 0.9) {
  return random(sizes, seed, low, high, true);
}
inline Buffer indices(const Shape& sizes, const std::vector<double>& values) {
  return filled({DType::I64, sizes}, values);
}
inline Buffer mask(const Shape& sizes) {
  Buffer buffer(ir::Type{DType::Bool, sizes});
  for (int64_t i = 0; i < buffer.numel(); ++i) buffer.set(i, i % 3 != 1);
  return buffer;
}
inline Buffer rng() { return filled({DType::I64, {2}}, {7, 11}); }

inline void add_pointwise(std::vector<Sample>& all) {
  const Shape s{2, 3};
  for (Op op :
       {Op::neg,     Op::abs,        Op::exp,      Op::exp2,        Op::expm1,     Op::sin,
        Op::cos,     Op::tan,        Op::asin,     Op::acos,        Op::atan,      Op::sinh,
        Op::cosh,    Op::tanh,       Op::asinh,    Op::atanh,       Op::erf,       Op::erfc,
        Op::sigmoid, Op::reciprocal, Op::clone,    Op::relu,        Op::relu6,     Op::selu,
        Op::silu,    Op::mish,       Op::softsign, Op::hardsigmoid, Op::hardswish, Op::log_sigmoid,
        Op::square,  Op::frac,       Op::sign,     Op::floor,       Op::ceil,      Op::round,
        Op::trunc})
    all.push_back({op, {floats(s)}, {}});
  for (Op op : {Op::log, Op::log2, Op::log10, Op::log1p, Op::sqrt, Op::rsqrt, Op::logit})
    all.push_back({op, {positive(s)}, {}});
  all.push_back({Op::acosh, {positive(s, 1, 1.3, 2.0)}, {}});
  all.push_back({Op::relu6, {positive(s, 1, 6.5, 7.0)}, {}});
  for (Op op : {Op::hardsigmoid, Op::hardswish}) all.push_back({op, {positive(s, 1, 3.5, 4)}, {}});
  for (Op op : {Op::leaky_relu, Op::elu, Op::celu}) all.push_back({op, {floats(s)}, {0.3}});
  for (Op op : {Op::lgamma, Op::digamma, Op::entr})
    all.push_back({op, {positive(s, 1, 0.6, 4)}, {}});
  for (double low : {-0.9, -1.9}) all.push_back({Op::lgamma, {positive(s, 1, low, low + 0.8)}, {}});
  for (Op op : {Op::erfinv, Op::erfcx, Op::log_ndtr, Op::i0, Op::i0e, Op::i1, Op::i1e})
    all.push_back({op, {floats(s)}, {}});
  all.push_back({Op::ndtri, {positive(s, 1, 0.05, 0.95)}, {}});
  for (int64_t degree : {1, 2, 5})
    all.push_back({Op::polygamma, {positive(s, 1, 0.8, 3)}, {degree}});
  for (const Op op : {Op::igamma, Op::igammac})
    all.push_back({op, {positive(s, 1, 1.5, 3), positive(s, 2, 0.6, 2)}, {}});
  all.push_back({Op::zeta, {positive(s, 1, 1.5, 3), positive(s, 2, 0.6, 2)}, {}});
  for (const char* approximate : {"none", "tanh"})
    all.push_back({Op::gelu, {floats(s)}, {std::string(approximate)}});
  all.push_back({Op::softplus, {floats(s)}, {2.0, 20.0}});
  all.push_back({Op::softplus, {positive(s)}, {2.0, 0.1}});
  for (Op op : {Op::add, Op::sub, Op::mul, Op::div, Op::atan2, Op::maximum, Op::minimum, Op::hypot,
                Op::copysign, Op::logaddexp, Op::logaddexp2, Op::nextafter, Op::clamp_min,
                Op::clamp_max, Op::remainder, Op::fmod, Op::div_floor})
    all.push_back({op, {floats(s, 1), floats(s, 2)}, {}});
  for (Op op : {Op::pow, Op::xlogy, Op::xlog1py})
    all.push_back({op, {positive(s, 1), positive(s, 2, 1.2, 3.1)}, {}});
  all.push_back({Op::fma, {floats(s, 1), floats(s, 2), floats(s, 3)}, {}});
  all.push_back({Op::lerp, {floats(s, 1), floats(s, 2), floats(s, 3)}, {}});
  for (Op op : {Op::addcmul, Op::addcdiv})
    all.push_back({op, {floats(s, 1), floats(s, 2), floats(s, 3)}, {Number(1.5)}});
  all.push_back({Op::hardtanh,
                 {floats({2, 4}), filled({DType::F64, {2, 4}}, {-.5, -.4, -.3, .1, 0, -1, .95, 1}),
                  filled({DType::F64, {2, 4}}, {.5, .4, .3, .15, .1, 1, 2, -1})},
                 {}});
  all.push_back({Op::clamp,
                 {floats({2, 4}), filled({DType::F64, {2, 4}}, {-.5, -.4, -.3, .1, 0, -1, .95, 1}),
                  filled({DType::F64, {2, 4}}, {.5, .4, .3, .15, .1, 1, 2, -1})},
                 {}});
  all.push_back({Op::where, {mask(s), floats(s, 1), floats(s, 2)}, {}});
  all.push_back({Op::masked_fill, {floats(s, 1), mask(s), floats(s, 2)}, {}});
  all.push_back({Op::convert, {floats(s)}, {DType::F64}});
  all.push_back({Op::copy, {floats(s, 1), floats(s, 2)}, {}});
  all.push_back({Op::fill, {floats(s)}, {Number(0.5)}});
  for (Op op : {Op::tril, Op::triu}) all.push_back({op, {floats({2, 3, 4})}, {Dim(1)}});
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  all.push_back({Op::nan_to_num, {floats(s, 1), floats(s, 2), floats(s, 3), floats(s, 4)}, {}});
  Buffer odd = filled({DType::F64, s}, {nan, inf, -inf, 0.5, 1, 2});
  all.push_back({Op::nan_to_num, {odd, floats(s, 2), floats(s, 3), floats(s, 4)}, {}});
}

/// Matrices with separate singular values, with symmetric and positive ones among them.
inline Buffer matrices(const Shape& sizes, uint64_t seed = 1, bool symmetric = false) {
  Buffer a = floats(sizes, seed);
  const int64_t n = sizes.back(), m = sizes[sizes.rank() - 2];
  for (int64_t i = 0; i < a.numel(); ++i) {
    const int64_t r = i / n % m, c = i % n, mirrored = i - r * n - c + c * n + r;
    if (symmetric && c > r) a.set(i, a.at(mirrored));
  }
  for (int64_t i = 0; i < a.numel(); ++i)
    if (i / n % m == i % n) a.set(i, a.at(i).to_double() + 3 + 2 * static_cast<double>(i % n));
  return a;
}

inline void add_linalg(std::vector<Sample>& all) {
  const Shape square{2, 3, 3};
  all.push_back({Op::cholesky, {matrices({2, 3, 3}, 1, true)}, {true}});
  for (const Shape& s : {Shape{2, 3, 3}, Shape{4, 2}, Shape{2, 4}}) {
    all.push_back({Op::lu_factor, {matrices(s)}, {false}});
    all.push_back({Op::qr, {matrices(s)}, {false}});
    all.push_back({Op::svd, {matrices(s)}, {false}});
    const Shape batch = s.rank() == 3 ? Shape{2} : Shape{};
    const auto each = [&](double value) { return filled({DType::F64, batch}, {value, value}); };
    all.push_back({Op::pinv, {matrices(s), each(0), each(1e-9)}, {false}});
    for (const double atol : {0.0, 4.0, 100.0})  // below, between and above the singular values
      all.push_back({Op::truncated_pinv, {matrices(s), each(atol), each(0)}, {false}});
  }
  all.push_back(
      {Op::truncated_pinv,
       {matrices({3, 3}, 1, true), filled({DType::F64, {}}, {4}), filled({DType::F64, {}}, {0})},
       {true}});
  for (bool upper : {false, true})
    for (bool unit : {false, true})
      all.push_back({Op::triangular_solve, {matrices(square), floats({2, 3, 2})}, {upper, unit}});
  // L = [1 0; 2 1], U = [3 1; 0 -2]
  for (bool transposed : {false, true})
    all.push_back(
        {Op::lu_solve,
         {filled({DType::F64, {2, 2}}, {3, 1, 6, 0}), filled({DType::F64, {2, 2}}, {3, 1, 2, -2}),
          filled({DType::I32, {2}}, {1, 2}), floats({2, 3})},
         {transposed}});
  all.push_back({Op::qr, {matrices(square)}, {true}});
  all.push_back({Op::eigh, {matrices(square, 1, true)}, {}});
  all.push_back({Op::matrix_exp, {floats(square)}, {}});
}

inline void add_reductions(std::vector<Sample>& all) {
  const Shape s{2, 3, 4};
  for (const Axes& dims : {Axes{1}, Axes{0, 2}})
    for (bool keepdim : {false, true}) {
      for (Op op : {Op::sum, Op::prod, Op::amax, Op::amin})
        all.push_back({op, {floats(s)}, {dims, keepdim, Dims{}}});
      for (Op op : {Op::mean, Op::logsumexp}) all.push_back({op, {floats(s)}, {dims, keepdim}});
      for (Op op : {Op::var, Op::std, Op::var_mean, Op::std_mean})
        all.push_back({op, {floats(s)}, {dims, 1.0, keepdim}});
      all.push_back({Op::aminmax, {floats(s)}, {dims, keepdim}});
      if (dims.size() == 1)
        for (Op op : {Op::max_with_indices, Op::min_with_indices})
          all.push_back({op, {floats(s)}, {dims, keepdim}});
    }
  for (Op op : {Op::softmax, Op::log_softmax}) all.push_back({op, {floats(s)}, {int64_t{1}}});
  // One zero, and two: prod's gradient cannot divide.
  all.push_back(
      {Op::prod, {filled({DType::F64, {2, 3}}, {.5, 0, 2, 0, 3, 0})}, {Axes{1}, false, Dims{}}});
  for (int64_t dim : {0, 1, 2}) {
    for (Op op : {Op::cumsum, Op::cumprod, Op::logcumsumexp})
      all.push_back({op, {floats(s)}, {dim}});
    all.push_back({Op::linear_scan, {floats(s), floats(s, 2)}, {dim}});
  }
  all.push_back({Op::cumprod, {filled({DType::F64, {2, 3}}, {.5, 0, 2, 0, 3, 0})}, {int64_t{1}}});
  const std::vector<ir::AttrValue> norm{int64_t{2}, 1e-5};
  all.push_back({Op::native_layer_norm, {floats(s)}, norm});
  all.push_back({Op::native_layer_norm, {floats(s), floats({3, 4}, 2)}, norm});
  all.push_back({Op::native_layer_norm, {floats(s), floats({3, 4}, 2), floats({3, 4}, 3)}, norm});
  for (int64_t groups : {1, 2, 4}) {
    const std::vector<ir::AttrValue> attrs{groups, 1e-5};
    for (const Shape& images : {Shape{2, 4, 3, 2}, Shape{3, 4}, Shape{1, 4, 5}}) {
      all.push_back({Op::native_group_norm, {floats(images)}, attrs});
      all.push_back({Op::native_group_norm, {floats(images), floats({4}, 2)}, attrs});
      all.push_back(
          {Op::native_group_norm, {floats(images), floats({4}, 2), floats({4}, 3)}, attrs});
    }
  }
  for (const char* reduction : {"none", "mean", "sum"})
    for (double smoothing : {0.0, 0.1})
      all.push_back({Op::cross_entropy,
                     {floats({4, 3}), indices({4}, {2, 0, -100, 1})},
                     {int64_t{-100}, smoothing, std::string(reduction)}});
}

inline void add_contractions(std::vector<Sample>& all) {
  for (const bool transposed : {false, true})
    all.push_back({Op::convolution,
                   {floats({1, 2, 3, 4}, 1), floats({2, 1, 2, 2}, 2), floats({2}, 3)},
                   {Dims{2, 1}, Dims{1, 0}, Dims{1, 2}, transposed, Dims{transposed ? 1 : 0, 0},
                    int64_t{2}}});
  all.push_back({Op::convolution_weight,
                 {floats({1, 2, 5}, 1), floats({1, 3, 2}, 2)},
                 {Dims{2}, Dims{2}, Dims{0}, Dims{1}, int64_t{1}}});
  for (Op op : {Op::window_sum, Op::window_spread}) {
    const bool sum = op == Op::window_sum;
    all.push_back(
        {op, {floats({1, 2, sum ? 5 : 3})}, {Dims{sum ? 3 : 5}, Dims{2}, Dims{2}, Dims{1}}});
    all.push_back(
        {op, {floats({1, 1, sum ? 5 : 3})}, {Dims{sum ? 3 : 5}, Dims{}, Dims{1}, Dims{0}}});
  }
  all.push_back({Op::max_pool, {floats({1, 2, 5})}, {Dims{3}, Dims{3}, Dims{2}, Dims{1}, Dims{1}}});
  all.push_back({Op::max_pool,
                 {floats({2, 1, 4, 5})},
                 {Dims{2, 2}, Dims{2, 2}, Dims{1, 2}, Dims{0, 0}, Dims{2, 1}}});
  all.push_back({Op::mm, {floats({2, 3}, 1), floats({3, 4}, 2)}, {std::string()}});
  all.push_back({Op::bmm, {floats({2, 2, 3}, 1), floats({2, 3, 4}, 2)}, {std::string()}});
  all.push_back(
      {Op::addmm, {floats({2, 4}, 1), floats({2, 3}, 2), floats({3, 4}, 3)}, {std::string()}});
  const std::vector<Buffer> qkv{floats({2, 1, 3, 2}, 1), floats({2, 1, 4, 2}, 2),
                                floats({2, 1, 4, 3}, 3)};
  for (bool causal : {false, true})
    all.push_back({Op::scaled_dot_product_attention, qkv, {0.7, causal}});
  for (const Buffer& m : {mask({2, 1, 3, 4}), floats({2, 1, 3, 4}, 4)}) {
    std::vector<Buffer> operands = qkv;
    operands.push_back(m);
    all.push_back({Op::scaled_dot_product_attention, operands, {0.7, false}});
  }
}

inline void add_flash_attention(std::vector<Sample>& all) {
  const std::vector<Buffer> qkv{floats({2, 4, 3, 2}, 1), floats({2, 2, 4, 2}, 2),
                                floats({2, 2, 4, 3}, 3)};
  std::vector<Buffer> saved{floats({2, 4, 3, 3}, 4), floats({2, 4, 3}, 5)};
  const auto add = [&](std::vector<Buffer> masks, bool causal) {
    std::vector<Buffer> operands = qkv;
    operands.insert(operands.end(), masks.begin(), masks.end());
    all.push_back({Op::flash_attention, operands, {0.7, causal}});
    operands = {floats({2, 4, 3, 3}, 6)};
    operands.insert(operands.end(), qkv.begin(), qkv.end());
    operands.insert(operands.end(), saved.begin(), saved.end());
    operands.insert(operands.end(), masks.begin(), masks.end());
    all.push_back({Op::flash_attention_backward, operands, {0.7, causal}});
  };
  add({}, false);
  add({}, true);
  add({mask({1, 1, 3, 4})}, false);
  add({floats({2, 1, 1, 4}, 7)}, false);
}

inline void add_shapes(std::vector<Sample>& all) {
  const Shape s{2, 3, 4};
  const int64_t d0 = 0, d1 = 1, d2 = 2;
  all.push_back({Op::view, {floats(s)}, {Dims{6, 4}}});
  all.push_back({Op::permute, {floats(s)}, {Axes{2, 0, 1}}});
  all.push_back({Op::expand, {floats({3, 1})}, {Dims{2, 3, 4}}});
  for (Dim step : {1, 2}) all.push_back({Op::slice, {floats(s)}, {d2, Dim(1), Dim(4), step}});
  all.push_back({Op::diagonal, {floats(s)}, {Dim(1), d1, d2}});
  all.push_back({Op::as_strided, {floats(s)}, {Dims{3, 2}, Dims{2, 7}, Dim(1)}});
  all.push_back({Op::as_strided, {floats(s)}, {Dims{3, 4}, Dims{1, 2}, Dim(2)}});  // overlaps
  all.push_back({Op::unfold, {floats(s)}, {int64_t{1}, Dim(2), Dim(1)}});          // overlaps
  all.push_back({Op::unfold, {floats(s)}, {int64_t{2}, Dim(1), Dim(2)}});
  all.push_back({Op::select, {floats(s)}, {d1, Dim(2)}});
  all.push_back({Op::squeeze, {floats({2, 1, 3})}, {Axes{1}}});
  all.push_back({Op::unsqueeze, {floats(s)}, {d1}});
  all.push_back({Op::transpose, {floats(s)}, {d0, d2}});
  all.push_back({Op::alias, {floats(s)}, {}});
  for (size_t i = 0, n = all.size(); i < n; ++i)
    if (ir::is_view(all[i].op))
      all.push_back({ir::copy_form(all[i].op), all[i].operands, all[i].attrs});
  for (Dim step : {1, 2})
    all.push_back({Op::slice_scatter,
                   {floats(s, 1), floats({2, 3, step == 1 ? 3 : 2}, 2)},
                   {d2, Dim(1), Dim(4), step}});
  all.push_back({Op::diagonal_scatter, {floats(s, 1), floats({2, 3}, 2)}, {Dim(1), d1, d2}});
  all.push_back({Op::as_strided_scatter,
                 {floats(s, 1), floats({3, 2}, 2)},
                 {Dims{3, 2}, Dims{2, 7}, Dim(1)}});
  all.push_back({Op::select_scatter, {floats(s, 1), floats({2, 4}, 2)}, {d1, Dim(2)}});
  all.push_back({Op::cat, {floats({2, 3}, 1), floats({2, 1}, 2), floats({2, 2}, 3)}, {d1}});
  all.push_back({Op::pad, {floats({2, 3})}, {Dims{1, 0, 2, 1}, Number(0.5)}});
  all.push_back({Op::flip, {floats(s)}, {Axes{0, 2}}});
}

inline void add_indexing(std::vector<Sample>& all) {
  const int64_t d0 = 0, d1 = 1;
  const Buffer list = indices({4}, {2, 0, 2, 1}), table = indices({2, 4}, {2, 0, 2, 1, 0, 0, 1, 2});
  all.push_back({Op::index_select, {floats({2, 3}), list}, {d1}});
  all.push_back({Op::gather, {floats({2, 3}), table}, {d1}});
  all.push_back({Op::index_add, {floats({2, 3}, 1), list, floats({2, 4}, 2)}, {d1}});
  all.push_back({Op::scatter_add, {floats({2, 3}, 1), table, floats({2, 4}, 2)}, {d1}});
  all.push_back({Op::scatter_add, {floats({2, 3}, 1), table, floats({3, 5}, 2)}, {d1}});
  for (const Op op : {Op::scatter_prod, Op::scatter_amax, Op::scatter_amin})
    all.push_back({op, {floats({2, 3}, 1), table, floats({3, 5}, 2)}, {d1}});
  const Buffer apart = indices({2, 3}, {2, 0, 1, 1, 2, 0});  // no place twice
  all.push_back({Op::scatter, {floats({2, 3}, 1), apart, floats({2, 3}, 2)}, {d1}});
  all.push_back({Op::scatter, {floats({2, 3}, 1), apart, floats({3, 5}, 2)}, {d1}});
  all.push_back({Op::gather, {floats({3, 3}), indices({1, 2}, {2, 1})}, {d0}});
  all.push_back({Op::embedding, {floats({3, 2}), table}, {}});
  all.push_back({Op::dropout, {floats({3, 4}), rng()}, {0.4, Dim(2)}});
}

inline std::vector<Sample> samples() {
  std::vector<Sample> all;
  add_pointwise(all);
  add_reductions(all);
  add_linalg(all);
  add_contractions(all);
  add_flash_attention(all);
  add_shapes(all);
  add_indexing(all);
  return all;
}

}  // namespace tandem::test

#endif  // TANDEM_TESTS_UNIT_AUTODIFF_SAMPLES_H
