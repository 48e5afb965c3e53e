#include "tests/support/op_samples.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "ir/base/error.h"
#include "ir/shape/shape_rules.h"

namespace tandem::testing {
namespace {

using ir::AttrValue;
using ir::Axes;
using ir::Buffer;
using ir::Dim;
using ir::Dims;
using ir::DType;
using ir::Number;
using ir::Op;
using ir::Shape;
using ir::Type;
using Attrs = std::vector<AttrValue>;

/// Magnitudes of an op's floating operands, and whether they have both signs.
struct Domain {
  double low = 0.2, high = 0.9;
  bool is_signed = true;
};

const std::map<Op, Domain> kDomains = {
    {Op::log, {0.2, 3, false}},          {Op::log2, {0.2, 3, false}},
    {Op::log10, {0.2, 3, false}},        {Op::log1p, {0.2, 3, false}},
    {Op::sqrt, {0.2, 3, false}},         {Op::rsqrt, {0.2, 3, false}},
    {Op::logit, {0.2, 0.8, false}},      {Op::acosh, {1.3, 3, false}},
    {Op::pow, {0.3, 2, false}},          {Op::xlogy, {0.3, 2, false}},
    {Op::exp, {0.1, 4, true}},           {Op::sin, {0.1, 9, true}},
    {Op::cos, {0.1, 9, true}},           {Op::tanh, {0.1, 4, true}},
    {Op::erf, {0.1, 3, true}},           {Op::relu6, {0.3, 5.5, true}},
    {Op::hardsigmoid, {0.3, 2.5, true}}, {Op::hardswish, {0.3, 2.5, true}},
    {Op::lgamma, {0.3, 12, false}},      {Op::digamma, {0.3, 12, false}},
    {Op::polygamma, {0.3, 12, false}},   {Op::zeta, {1.3, 4, false}},
    {Op::ndtri, {0.02, 0.98, false}},    {Op::log_ndtr, {0.1, 5, true}},
    {Op::erfcx, {0.1, 1.5, true}},       {Op::i0, {0.1, 3, true}},
    {Op::i0e, {0.1, 12, true}},          {Op::i1, {0.1, 3, true}},
    {Op::i1e, {0.1, 12, true}},          {Op::entr, {0.2, 3, false}},
    {Op::xlog1py, {0.3, 2, false}},      {Op::igamma, {0.3, 12, false}},
    {Op::igammac, {0.3, 12, false}},
};

Domain domain_of(Op op) {
  const auto found = kDomains.find(op);
  return found == kDomains.end() ? Domain() : found->second;
}

/// Integers of these ops' operands are small and positive: divisors, exponents, shift counts.
bool wants_positive_integers(Op op) {
  static constexpr Op kOps[] = {Op::floor_divide, Op::div_floor,  Op::remainder,  Op::fmod,
                                Op::pow,          Op::shift_left, Op::shift_right};
  return std::ranges::find(kOps, op) != std::end(kOps);
}

// --- buffers

Buffer values(Op op, const Type& type, uint64_t seed) {
  std::mt19937_64 random(seed * 977 + 5);
  const Domain domain = domain_of(op);
  Buffer buffer(type);
  for (int64_t i = 0; i < buffer.numel(); ++i) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    const double sign = domain.is_signed && random() % 2 ? -1 : 1;
    const auto integer = static_cast<int64_t>(u * 5);
    if (ir::is_floating(type.dtype))
      buffer.set(i, sign * (domain.low + u * (domain.high - domain.low)));
    else if (type.dtype == DType::Bool)
      buffer.set(i, static_cast<int64_t>(random() % 2));
    else
      buffer.set(i, wants_positive_integers(op) ? 1 + integer : 2 * integer - 4);
  }
  return buffer;
}

/// Positions below `count`, in no order, with repetitions.
Buffer positions(const Shape& sizes, int64_t count, DType dtype = DType::I64) {
  Buffer buffer(Type{dtype, sizes});
  for (int64_t i = 0; i < buffer.numel(); ++i)
    buffer.set(i, count ? (i * 7 + 3) % count : int64_t{0});
  return buffer;
}

Buffer rng() {
  Buffer buffer(Type{DType::I64, {2}});
  buffer.set(0, 7);
  buffer.set(1, 11);
  return buffer;
}

// --- forms: operand sizes and attributes

struct Form {
  std::vector<Shape> shapes;
  Attrs attrs;
};
using Forms = std::vector<Form>;

Forms pointwise_forms(Op op, int64_t n) {
  const size_t count = ir::info(op).operands.size();
  const std::vector<Shape> lines(count, Shape{n}), planes(count, Shape{3, n});
  const std::map<Op, std::vector<Attrs>> attributes = {
      {Op::leaky_relu, {{0.3}}},
      {Op::elu, {{0.7}}},
      {Op::celu, {{0.7}}},
      {Op::gelu, {{std::string("none")}, {std::string("tanh")}}},
      {Op::softplus, {{2.0, 20.0}}},
      {Op::addcmul, {{Number(1.5)}, {Number(2)}}},
      {Op::addcdiv, {{Number(1.5)}}},
      {Op::fill, {{Number(0.5)}, {Number(2)}}},
      {Op::polygamma, {{int64_t{1}}, {int64_t{4}}}},
      {Op::tril, {{Dim(1)}, {Dim(-1)}}},
      {Op::triu, {{Dim(1)}, {Dim(-1)}}},
      {Op::bitcast, {{DType::I32}, {DType::F32}, {DType::I64}, {DType::F64}, {DType::U8}}},
      {Op::convert, {{DType::F64}, {DType::F32}, {DType::I64}, {DType::I32}, {DType::Bool}}},
  };
  const auto found = attributes.find(op);
  Forms forms;
  for (const Attrs& attrs : found == attributes.end() ? std::vector<Attrs>{{}} : found->second) {
    forms.push_back({lines, attrs});
    forms.push_back({planes, attrs});
  }
  return forms;
}

Forms reduction_forms(Op op, int64_t n) {
  const auto has = [&](ir::Attr attr) { return ir::has_attr(op, attr); };
  if (op == Op::native_layer_norm) {
    const Attrs attrs{int64_t{1}, 1e-5};
    return {{{{3, n}}, attrs}, {{{3, n}, {n}}, attrs}, {{{3, n}, {n}, {n}}, attrs}};
  }
  if (op == Op::native_group_norm) {
    const Attrs attrs{int64_t{2}, 1e-5};
    return {{{{3, 4, n}}, attrs}, {{{3, 4, n}, {4}}, attrs}, {{{3, 4, n}, {4}, {4}}, attrs}};
  }
  Forms forms;
  const auto add = [&](const Shape& shape, Dim dim) {
    for (bool keepdim : {false, true}) {
      if (!has(ir::Attr::dims)) return forms.push_back({{shape}, {int64_t{dim}}});
      Attrs attrs{Axes{dim}};
      if (has(ir::Attr::correction)) attrs.emplace_back(1.0);
      attrs.emplace_back(keepdim);
      if (has(ir::Attr::order)) attrs.emplace_back(Dims{});
      forms.push_back({{shape}, attrs});
    }
  };
  add({n}, 0);
  add({3, n}, 1);
  add({n, 3}, 0);
  return forms;
}

/// Of `n` elements in one dimension, or of a few in two.
Forms window_forms(Op op, int64_t n) {
  const Dim few = std::min<int64_t>(n, 7);
  const Dims one{1}, two{2}, three{3}, none{0};
  const auto half = Dims{(n + 1) / 2};  // windows of three, two apart, padded by one
  switch (op) {
    case Op::convolution:
      return {{{{2, 4, n}, {6, 2, 3}, {6}}, {two, one, one, false, none, int64_t{2}}},
              {{{1, 2, few, 3}, {2, 3, 2, 2}},
               {Dims{2, 2}, Dims{0, 1}, Dims{1, 1}, true, Dims{1, 0}, int64_t{1}}}};
    case Op::convolution_weight:
      return {{{{2, 4, n}, {2, 2, n}}, {three, one, one, one, int64_t{2}}}};
    case Op::window_sum:
      return {{{{2, 3, n}}, {half, three, two, one}},
              {{{1, 2, 3, n}}, {Dims{2, 3}, Dims{}, Dims{1, 1}, Dims{0, 0}}}};
    case Op::window_spread:
      return {{{{2, 3, half[0]}}, {Dims{n}, three, two, one}},
              {{{1, 2, 2, 3}}, {Dims{3, n}, Dims{}, Dims{1, 1}, Dims{0, 0}}}};
    case Op::max_pool:
      return {{{{2, 3, n}}, {half, three, two, one, one}}};
    default:
      return {};
  }
}

Forms scan_forms(Op op, int64_t n) {
  const size_t count = ir::info(op).operands.size();
  Forms forms;
  const auto add = [&](const Shape& shape, int64_t dim) {
    Attrs attrs;
    if (ir::has_attr(op, ir::Attr::dim)) attrs.emplace_back(dim);
    if (ir::has_attr(op, ir::Attr::length))
      attrs.emplace_back(Dim(shape[static_cast<int>(dim)] / 2));
    if (ir::has_attr(op, ir::Attr::index))
      attrs.emplace_back(Dim(shape[static_cast<int>(dim)] / 2));
    if (ir::has_attr(op, ir::Attr::descending)) attrs.emplace_back(dim == 0);
    if (ir::has_attr(op, ir::Attr::ignore_nan)) attrs.emplace_back(dim == 0);
    forms.push_back({std::vector<Shape>(count, shape), attrs});
  };
  add({n}, 0);
  add({3, n}, 1);
  add({n, 2}, 0);
  return forms;
}

/// Two heads of queries beside one of keys and values.
Forms flash_attention_forms(Op op, int64_t n) {
  const Dim t = std::min<int64_t>(n, 67), s = std::min<int64_t>(n, 70), ones = 1;
  const Shape query{2, 2, t, 4}, key{2, 1, s, 4}, value{2, 1, s, 3}, mask{ones, 2, t, s};
  const Shape result{2, 2, t, 3}, sums{2, 2, t};
  if (op == Op::flash_attention)
    return {{{query, key, value}, {0.5, false}},
            {{query, key, value}, {0.5, true}},
            {{query, key, value, mask}, {0.5, false}}};
  return {{{result, query, key, value, result, sums}, {0.5, false}},
          {{result, query, key, value, result, sums}, {0.5, true}},
          {{result, query, key, value, result, sums, mask}, {0.5, false}}};
}

Forms contraction_forms(Op op, int64_t n) {
  if (op == Op::flash_attention || op == Op::flash_attention_backward)
    return flash_attention_forms(op, n);
  if (Forms forms = window_forms(op, n); !forms.empty()) return forms;
  const Attrs algorithm{std::string()};
  if (op == Op::mm) return {{{{3, n}, {n, 5}}, algorithm}, {{{n, 3}, {3, 5}}, algorithm}};
  if (op == Op::bmm) return {{{{2, 3, n}, {2, n, 4}}, algorithm}};
  if (op == Op::addmm) return {{{{n, 5}, {n, 3}, {3, 5}}, algorithm}};
  const int64_t t = std::min<int64_t>(n, 67);
  const std::vector<Shape> qkv{{1, 2, t, 4}, {1, 2, t, 4}, {1, 2, t, 4}};
  if (t == 0) return {};
  return {{qkv, {0.5, false}}, {qkv, {0.5, true}}};
}

Forms view_forms(Op op, int64_t n) {
  const int64_t d0 = 0, d1 = 1;
  const Dim half = n / 2, last = n - 1;
  switch (op) {
    case Op::view:
      return {{{{2, n}}, {Dims{2 * n}}}};
    case Op::permute:
      return {{{{2, n, 3}}, {Axes{2, 0, 1}}}};
    case Op::expand:
      return {{{{n}}, {Dims{3, n}}}, {{{n, 1}}, {Dims{n, 4}}}};
    case Op::slice:
      return {{{{2, n}}, {d1, half, Dim(n), Dim(2)}}};
    case Op::diagonal:
      return {{{{3, n}}, {Dim(0), d0, d1}}};
    case Op::as_strided:
      return n >= 7 ? Forms{{{{n}}, {Dims{2, 3}, Dims{3, 1}, Dim(1)}}} : Forms{};
    case Op::select:
      return n ? Forms{{{{2, n}}, {d1, last}}} : Forms{};
    case Op::squeeze:
      return {{{{n, 1}}, {Axes{1}}}};
    case Op::unsqueeze:
      return {{{{n}}, {d0}}};
    case Op::transpose:
      return {{{{3, n}}, {d0, d1}}};
    case Op::unfold:
      return {{{{3, n}}, {d1, half, Dim(2)}},
              {{{n, 2}}, {d0, Dim(std::min<int64_t>(n, 2)), Dim(3)}}};
    case Op::view_dtype:
      return {{{{2, n}}, {DType::I32}}, {{{3, 8 * n}}, {DType::I64}}, {{{n}}, {DType::U8}}};
    default:
      return {{{{n}}, {}}};
  }
}

/// The view that `op` is the copying form of.
std::optional<Op> copied_view(Op op) {
  const std::string_view name = ir::name(op);
  return name.ends_with("_copy") ? ir::op_named(name.substr(0, name.size() - 5)) : std::nullopt;
}

Forms shape_forms(Op op, int64_t n) {
  if (const auto view = copied_view(op)) return view_forms(*view, n);
  const int64_t d0 = 0, d1 = 1;
  const Dim half = n / 2;
  switch (op) {
    case Op::slice_scatter:
      return {{{{2, n}, {2, n - n / 2}}, {d1, half, Dim(n), Dim(1)}}};
    case Op::diagonal_scatter:
      return {{{{3, n}, {std::min<int64_t>(3, n)}}, {Dim(0), d0, d1}}};
    case Op::as_strided_scatter:
      return n >= 7 ? Forms{{{{n}, {2, 3}}, {Dims{2, 3}, Dims{3, 1}, Dim(1)}}} : Forms{};
    case Op::select_scatter:
      return n ? Forms{{{{2, n}, {2}}, {d1, half}}} : Forms{};
    case Op::cat:
      return {{{{2, n}, {2, 3}}, {d1}}, {{{n, 2}, {1, 2}, {n, 2}}, {d0}}};
    case Op::pad:
      return {{{{2, n}}, {Dims{1, 0, 2, 1}, Number(2)}}};
    case Op::flip:
      return {{{{2, n}}, {Axes{0, 1}}}, {{{n}}, {Axes{0}}}};
    default:
      return {};
  }
}

Forms forms_of(Op op, int64_t n) {
  switch (ir::info(op).cls) {
    case ir::OpClass::Pointwise:
      return pointwise_forms(op, n);
    case ir::OpClass::Reduction:
      return reduction_forms(op, n);
    case ir::OpClass::Scan:
      return scan_forms(op, n);
    case ir::OpClass::Contraction:
      return contraction_forms(op, n);
    case ir::OpClass::View:
      return view_forms(op, n);
    case ir::OpClass::Shape:
      return shape_forms(op, n);
    default:
      return {};
  }
}

bool is_condition(Op op, size_t operand) {
  return (op == Op::where && operand == 0) || (op == Op::masked_fill && operand == 1);
}

OpSample sample_of(Op op, const Form& form, DType dtype) {
  OpSample sample{{}, form.attrs};
  for (size_t i = 0; i < form.shapes.size(); ++i)
    sample.operands.push_back(
        values(op, {is_condition(op, i) ? DType::Bool : dtype, form.shapes[i]}, i + 1));
  return sample;
}

// --- ops whose operands are not alike

std::vector<OpSample> factory_samples(Op op, int64_t n) {
  std::vector<OpSample> samples;
  for (DType dtype : {DType::F32, DType::F64, DType::I64}) {
    const Attrs full{Dims{n}, dtype, Number(3)}, iota{Dims{n}, dtype, Number(2), Number(3)};
    samples.push_back({{}, op == Op::full ? full : iota});
  }
  return samples;
}

/// [2, n] places in rows of n + 2, none twice: where several elements fall on one place, the
/// gradient is ATen's and not the derivative.
Buffer places_apart(int64_t n) {
  Buffer places({DType::I64, {2, n}});
  for (int64_t i = 0; i < 2 * n; ++i) places.set(i, static_cast<double>(n + 1 - i % n));
  return places;
}

std::vector<OpSample> index_samples(Op op, int64_t n) {
  const int64_t d0 = 0, d1 = 1;
  std::vector<OpSample> samples;
  if (n == 0) return samples;
  for (DType dtype : {DType::F32, DType::F64, DType::I64}) {
    const Buffer line = values(op, {dtype, {n}}, 1), rows = values(op, {dtype, {2, 9}}, 2),
                 table = values(op, {dtype, {n, 3}}, 3);
    const Buffer list = positions({n}, 9), some = positions({5}, n, DType::I32);
    if (op == Op::index_select) samples.push_back({{rows, list}, {d1}});
    if (op == Op::index_select) samples.push_back({{line, some}, {d0}});
    if (op == Op::gather) samples.push_back({{rows, positions({2, n}, 9)}, {d1}});
    if (op == Op::index_add)
      samples.push_back({{rows, list, values(op, {dtype, {2, n}}, 4)}, {d1}});
    if (op == Op::scatter)
      samples.push_back(
          {{values(op, {dtype, {2, n + 2}}, 2), places_apart(n), values(op, {dtype, {2, n}}, 4)},
           {d1}});
    if (op == Op::scatter_add || op == Op::scatter_prod || op == Op::scatter_amax ||
        op == Op::scatter_amin)
      samples.push_back({{rows, positions({2, n}, 9), values(op, {dtype, {2, n}}, 4)}, {d1}});
    if (op == Op::embedding && dtype != DType::I64)
      samples.push_back({{table, positions({2, 4}, n)}, {}});
  }
  return samples;
}

std::vector<OpSample> random_samples(Op op, int64_t n) {
  if (op == Op::random_bits)
    return {{{rng()}, {Dims{n}, DType::I32, Dim(2)}}, {{rng()}, {Dims{n}, DType::I64, Dim(0)}}};
  std::vector<OpSample> samples;
  for (DType dtype : {DType::F32, DType::F64}) {
    const Attrs draw{Dims{n}, dtype, Dim(2)};
    if (op == Op::dropout)
      samples.push_back({{values(op, {dtype, {n}}, 1), rng()}, {0.4, Dim(2)}});
    else
      samples.push_back({{rng()}, draw});
  }
  return samples;
}

/// Ascending rows, some numbers twice, and values to search for.
std::vector<OpSample> search_samples(int64_t n) {
  std::vector<OpSample> samples;
  for (DType dtype : {DType::F32, DType::F64, DType::I64}) {
    const Buffer values = testing::values(Op::searchsorted, {dtype, {2, 5}}, 3);
    for (const Shape& sizes : {Shape{n}, Shape{2, n}}) {
      Buffer sorted({dtype, sizes});
      for (int64_t i = 0; i < sorted.numel(); ++i) sorted.set(i, 0.2 * (i % n / 2) - 1);
      samples.push_back({{sorted, values}, {sizes.rank() == 1}});
    }
  }
  return samples;
}

std::vector<OpSample> cross_entropy_samples(int64_t n) {
  std::vector<OpSample> samples;
  for (DType dtype : {DType::F32, DType::F64})
    for (const char* reduction : {"none", "mean", "sum"})
      samples.push_back({{values(Op::cross_entropy, {dtype, {n, 5}}, 1), positions({n}, 5)},
                         {int64_t{-100}, 0.1, std::string(reduction)}});
  return samples;
}

/// Matrices whose singular values, 2, 3, ... and a little, are not close to each other.
Buffer matrices(DType dtype, const Shape& sizes, uint64_t seed, bool symmetric) {
  Buffer a = values(Op::add, {dtype, sizes}, seed);
  const int64_t n = sizes.back(), m = sizes[sizes.rank() - 2];
  for (int64_t i = 0; i < a.numel(); ++i) {
    const int64_t r = i / n % m, c = i % n;
    const int64_t from = symmetric && c < r ? i - r * n - c + c * n + r : i;
    const double little = from == i ? 0.1 * std::tanh(a.at(i).to_double()) : a.at(from).to_double();
    a.set(i, little + (r == c ? 2 + static_cast<double>(r) : 0));
  }
  return a;
}

/// self, its factors without exchanges, and the pivots.
std::vector<Buffer> factored(DType dtype, int64_t n) {
  const Buffer lu = matrices(dtype, {2, n, n}, 1, false);
  Buffer self({dtype, {2, n, n}}), pivots({DType::I32, {2, n}});
  for (int64_t i = 0; i < self.numel(); ++i) {
    const int64_t first = i / (n * n) * n * n, r = i / n % n, c = i % n;
    double sum = 0;
    for (int64_t k = 0; k <= std::min(r, c); ++k)
      sum += (k == r ? 1 : lu.at(first + r * n + k).to_double()) *
             lu.at(first + k * n + c).to_double();
    self.set(i, sum);
  }
  for (int64_t i = 0; i < pivots.numel(); ++i) pivots.set(i, i % n + 1);
  return {self, lu, pivots};
}

/// Factors with exchanges, that are not self's.
std::vector<Buffer> with_foreign_factors(DType dtype, int64_t n) {
  Buffer pivots({DType::I32, {2, n}});
  for (int64_t i = 0; i < pivots.numel(); ++i) pivots.set(i, i % n + 1 + (n - 1 - i % n) / 2);
  return {matrices(dtype, {2, n, n}, 1, false), matrices(dtype, {2, n, n}, 2, false), pivots};
}

void add_linalg_samples(Op op, DType dtype, int64_t n, std::vector<OpSample>& samples) {
  const auto matrix = [&](const Shape& sizes) { return matrices(dtype, sizes, 1, false); };
  const Buffer symmetric = matrices(dtype, {2, n, n}, 1, true), right = matrix({2, n, 3}),
               lopsided = matrix({2, n, n});  // of which the lower triangle counts
  switch (op) {
    case Op::cholesky:
      return samples.push_back({{symmetric}, {true}}), samples.push_back({{symmetric}, {false}}),
             samples.push_back({{lopsided}, {true}});
    case Op::eigh:
      return samples.push_back({{symmetric}, {}}), samples.push_back({{lopsided}, {}});
    case Op::matrix_exp:
      return samples.push_back(
          {{matrices(dtype, {2, std::min<int64_t>(n, 3), std::min<int64_t>(n, 3)}, 1, false)}, {}});
    case Op::triangular_solve:
      return samples.push_back({{matrix({2, n, n}), right}, {true, false}}),
             samples.push_back({{matrix({2, n, n}), right}, {false, true}});
    case Op::lu_solve:
      for (const bool transposed : {false, true})
        for (std::vector<Buffer> operands : {factored(dtype, n), with_foreign_factors(dtype, n)}) {
          operands.push_back(right);
          samples.push_back({operands, {transposed}});
        }
      return;
    case Op::lu_permutation:
      return samples.push_back({{factored(dtype, n)[2]}, {Dim(n + 1)}});
    case Op::pinv:
    case Op::truncated_pinv: {
      Buffer tolerance({dtype, {2}});
      return samples.push_back({{matrix({2, n, 4}), tolerance, tolerance}, {false}}),
             samples.push_back({{lopsided, tolerance, tolerance}, {true}});
    }
    case Op::geqrf:
      for (const Shape& sizes : {Shape{2, n, n}, Shape{n, 4}, Shape{3, n}})
        samples.push_back({{matrix(sizes)}, {}});
      return;
    default:  // lu_factor, qr, svd
      for (const Shape& sizes : {Shape{2, n, n}, Shape{n, 4}, Shape{3, n}})
        samples.push_back({{matrix(sizes)}, {false}});
  }
}

/// Small ones: their definitions take the third power of the size.
std::vector<OpSample> linalg_samples(Op op, int64_t n) {
  std::vector<OpSample> samples;
  for (const DType dtype : {DType::F32, DType::F64})
    add_linalg_samples(op, dtype, std::min<int64_t>(n, 9), samples);
  return samples;
}

/// self, and matrices of i8.
std::vector<OpSample> int8_samples(Op op, int64_t n) {
  const auto of = [&](DType dtype, const Shape& sizes, uint64_t seed) {
    return values(op, {dtype, sizes}, seed);
  };
  if (op == Op::int_mm)
    return {{{of(DType::I8, {3, n}, 1), of(DType::I8, {n, 5}, 2)}, {}},
            {{of(DType::I8, {n, 3}, 3), of(DType::I8, {3, 17}, 4)}, {}}};
  std::vector<OpSample> samples;
  for (const DType dtype : {DType::F32, DType::F64}) {
    samples.push_back({{of(dtype, {3, n}, 1), of(DType::I8, {5, n}, 2), of(dtype, {5}, 3)}, {}});
    samples.push_back({{of(dtype, {n, 4}, 4), of(DType::I8, {18, 4}, 5), of(dtype, {18}, 6)}, {}});
  }
  return samples;
}

bool is_of_int8(Op op) {
  return op == Op::weight_int8pack_mm || op == Op::dynamic_int8pack_mm || op == Op::int_mm;
}

bool fits(Op op, const OpSample& sample) {
  std::vector<Type> types;
  for (const Buffer& operand : sample.operands) types.push_back(operand.type());
  try {
    ir::infer_types(op, types, sample.attrs);
  } catch (const ir::Error&) {
    return false;
  }
  return true;
}

}  // namespace

std::vector<OpSample> op_samples(Op op, int64_t length) {
  const ir::OpClass cls = ir::info(op).cls;
  if (cls == ir::OpClass::Factory) return factory_samples(op, length);
  if (cls == ir::OpClass::Index) return index_samples(op, length);
  if (cls == ir::OpClass::Random) return random_samples(op, length);
  if (cls == ir::OpClass::Linalg) return linalg_samples(op, length);
  if (op == Op::cross_entropy) return cross_entropy_samples(length);
  if (op == Op::searchsorted) return search_samples(length);
  if (is_of_int8(op)) return int8_samples(op, length);
  std::vector<OpSample> samples;
  for (const Form& form : forms_of(op, length))
    for (DType dtype : {DType::F32, DType::F64, DType::I64, DType::I32, DType::Bool})
      if (OpSample sample = sample_of(op, form, dtype); fits(op, sample))
        samples.push_back(std::move(sample));
  return samples;
}

void add_special_values(OpSample& sample, uint64_t seed) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kValues[] = {0.0,   -0.0, kInf, -kInf, std::numeric_limits<double>::quiet_NaN(),
                                1.0,   -1.0, 80.0, -80.0, 1e30,
                                -1e30, 1e-30};
  std::mt19937_64 random(seed);
  for (Buffer& operand : sample.operands)
    for (int64_t i = 0; ir::is_floating(operand.dtype()) && i < operand.numel(); ++i)
      if (random() % 2) operand.set(i, kValues[random() % std::size(kValues)]);
}

}  // namespace tandem::testing
