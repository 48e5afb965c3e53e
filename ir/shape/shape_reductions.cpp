// Shape rules of reductions, normalisations, losses and contractions.
#include <fmt/format.h>

#include <algorithm>

#include "ir/shape/shape_rule_functions.h"

namespace tandem::ir::shape_rule {
namespace {

/// Sizes without `dims` (or with 1 there).
Shape reduced_sizes(const ShapeContext& c) {
  const auto& dims = c.attr<Axes>(Attr::dims);
  const Shape& sizes = c.operands[0].sizes;
  require_dims(c, dims, sizes.rank());
  if (dims.empty()) reject(c, Errc::Argument, "no dims to reduce", "at least one dimension", "[]");
  Shape out;
  for (int d = 0; d < sizes.rank(); ++d) {
    if (!std::ranges::count(dims, Axis{d}))
      out.push_back(sizes[d]);
    else if (c.attr<bool>(Attr::keepdim))
      out.push_back(1);
  }
  return out;
}

void require_nonempty(const ShapeContext& c) {
  for (Axis d : c.attr<Axes>(Attr::dims))
    if (c.operands[0].sizes[static_cast<int>(d)] == 0)
      reject(c, Errc::Shape, fmt::format("dimension {} is empty", d),
             "at least one element to reduce", to_string(c.operands[0].sizes));
}

void require_reduction(const ShapeContext& c) {
  const auto& text = c.attr<std::string>(Attr::reduction);
  if (text != "none" && text != "mean" && text != "sum")
    reject(c, Errc::Argument, "unknown reduction", "none, mean or sum", text);
}

/// Contractions take numbers of one dtype.
void require_numbers(const ShapeContext& c) {
  require_same_dtype(c);
  if (c.operands[0].dtype == DType::Bool)
    reject(c, Errc::DType, "not defined for bool", "integers or floating operands", "bool");
}

void require_product(const ShapeContext& c, const Shape& a, const Shape& b, int rank,
                     std::string_view expected) {
  if (a.rank() != rank || b.rank() != rank)
    reject(c, Errc::Shape, "wrong number of dimensions", expected, all_sizes(c));
  if (a[rank - 1] != b[rank - 2])
    reject(c, Errc::Shape, "inner sizes differ", expected, all_sizes(c));
}

Shape leading(const Shape& sizes) { return {std::span(sizes.begin(), sizes.size() - 2)}; }

}  // namespace

Type reduce_sum(const ShapeContext& c) {
  const DType dtype = c.operands[0].dtype;
  return {is_integral(dtype) ? DType::I64 : dtype, reduced_sizes(c)};
}

Type reduce_extremum(const ShapeContext& c) {
  const Shape sizes = reduced_sizes(c);
  require_nonempty(c);
  return {c.operands[0].dtype, sizes};
}

Type reduce_index(const ShapeContext& c) {
  const auto& dims = c.attr<Axes>(Attr::dims);
  const Shape sizes = reduced_sizes(c);
  if (dims.size() != 1)
    reject(c, Errc::Argument, "wrong number of dims", "one dimension", to_string(dims));
  require_nonempty(c);
  return {DType::I64, sizes};
}

std::array<Type, 2> reduce_value_index(const ShapeContext& c) {
  const Type index = reduce_index(c);
  return {Type{c.operands[0].dtype, index.sizes}, index};
}

std::array<Type, 2> reduce_extrema(const ShapeContext& c) {
  const Type type = reduce_extremum(c);
  return {type, type};
}

Type reduce_bool(const ShapeContext& c) {
  if (c.operands[0].dtype != DType::Bool)
    reject(c, Errc::DType, "self is not bool", "bool", name(c.operands[0].dtype));
  return {DType::Bool, reduced_sizes(c)};
}

Type reduce_float(const ShapeContext& c) {
  require_floating(c);
  return {c.operands[0].dtype, reduced_sizes(c)};
}

std::array<Type, 2> reduce_floats(const ShapeContext& c) {
  const Type type = reduce_float(c);
  return {type, type};
}

Type dim_float(const ShapeContext& c) {
  require_floating(c);
  require_dim(c, c.attr<int64_t>(Attr::dim), c.operands[0].rank());
  return c.operands[0];
}

std::array<Type, 3> norm(const ShapeContext& c) {
  require_floating(c);
  require_same_dtype(c);
  const Shape& sizes = c.operands[0].sizes;
  const int64_t count = c.attr<int64_t>(Attr::normalized_dims);
  if (count < 1 || count > sizes.rank())
    reject(c, Errc::Argument, "wrong number of normalized dimensions",
           fmt::format("1 to {}", sizes.rank()), std::to_string(count));
  const Shape inner(std::span(sizes.end() - count, sizes.end()));
  for (const Type& parameter : c.operands.subspan(1))
    if (parameter.sizes != inner)
      reject(c, Errc::Shape, "weight or bias does not fit self's trailing sizes", to_string(inner),
             all_sizes(c));
  Shape kept = sizes;
  for (int d = sizes.rank() - static_cast<int>(count); d < sizes.rank(); ++d) kept[d] = 1;
  const DType dtype = c.operands[0].dtype;
  const Type statistic{size_of(dtype) < 4 ? DType::F32 : dtype, kept};
  return {c.operands[0], statistic, statistic};
}

std::array<Type, 3> group_norm(const ShapeContext& c) {
  require_floating(c);
  require_same_dtype(c);
  const Type& self = c.operands[0];
  if (self.rank() < 2) reject(c, Errc::Shape, "no channels", "[n, channels, ...]", all_sizes(c));
  const int64_t groups = c.attr<int64_t>(Attr::groups);
  const Dim channels = self.sizes[1];
  if (groups < 1 || channels % groups != 0)
    reject(c, Errc::Argument, "num_groups does not fit",
           fmt::format("a divisor of {} channels", int64_t{channels}), std::to_string(groups));
  for (const Type& parameter : c.operands.subspan(1))
    if (parameter.sizes != Shape{channels})
      reject(c, Errc::Shape, "weight or bias does not fit the channels", to_string(Shape{channels}),
             all_sizes(c));
  const Type statistic{size_of(self.dtype) < 4 ? DType::F32 : self.dtype, {self.sizes[0], groups}};
  return {self, statistic, statistic};
}

Type cross_entropy(const ShapeContext& c) {
  require_floating(c);
  require_reduction(c);
  const Type &self = c.operands[0], &target = c.operands[1];
  if (target.dtype != DType::I64)
    reject(c, Errc::DType, "target is not i64", "class numbers in i64", name(target.dtype));
  if (self.rank() != 2 || target.rank() != 1 || self.sizes[0] != target.sizes[0])
    reject(c, Errc::Shape, "sizes do not fit", "self [n, c] and target [n]", all_sizes(c));
  const double smoothing = c.attr<double>(Attr::label_smoothing);
  if (!(smoothing >= 0 && smoothing <= 1))
    reject(c, Errc::Argument, "label_smoothing out of range", "0 to 1",
           fmt::format("{}", smoothing));
  const bool keeps_rows = c.attr<std::string>(Attr::reduction) == "none";
  return {self.dtype, keeps_rows ? target.sizes : Shape()};
}

Type mm(const ShapeContext& c) {
  require_numbers(c);
  const Shape &a = c.operands[0].sizes, &b = c.operands[1].sizes;
  require_product(c, a, b, 2, "self [n, k] and mat2 [k, m]");
  return {c.operands[0].dtype, {a[0], b[1]}};
}

Type bmm(const ShapeContext& c) {
  require_numbers(c);
  const Shape &a = c.operands[0].sizes, &b = c.operands[1].sizes;
  static constexpr std::string_view kExpected = "self [b, n, k] and mat2 [b, k, m]";
  require_product(c, a, b, 3, kExpected);
  if (a[0] != b[0]) reject(c, Errc::Shape, "batch sizes differ", kExpected, all_sizes(c));
  return {c.operands[0].dtype, {a[0], a[1], b[2]}};
}

Type addmm(const ShapeContext& c) {
  require_numbers(c);
  const Shape &self = c.operands[0].sizes, &a = c.operands[1].sizes, &b = c.operands[2].sizes;
  static constexpr std::string_view kExpected = "self [n, m], mat1 [n, k] and mat2 [k, m]";
  require_product(c, a, b, 2, kExpected);
  if (self != Shape{a[0], b[1]})
    reject(c, Errc::Shape, "self does not fit the product", kExpected, all_sizes(c));
  return c.operands[0];
}

Type attention(const ShapeContext& c) {
  require_floating(c);
  require_same_dtype({c.op, c.operands.first(3), c.attrs});
  static constexpr std::string_view kExpected =
      "query [..., t, d], key [..., s, d], value [..., s, e] and mask [..., t, s]";
  const auto refuse = [&] { reject(c, Errc::Shape, "sizes do not fit", kExpected, all_sizes(c)); };
  const Shape &q = c.operands[0].sizes, &k = c.operands[1].sizes, &v = c.operands[2].sizes;
  const int rank = q.rank();
  if (rank < 2 || k.rank() != rank || v.rank() != rank) refuse();
  if (leading(q) != leading(k) || leading(q) != leading(v)) refuse();
  if (q[rank - 1] != k[rank - 1] || k[rank - 2] != v[rank - 2]) refuse();
  Shape scores = q, result = q;
  scores[rank - 1] = k[rank - 2];
  result[rank - 1] = v[rank - 1];
  if (c.operands.size() == 4) {
    const Type& mask = c.operands[3];
    if (mask.sizes != scores) refuse();
    if (mask.dtype != DType::Bool && mask.dtype != c.operands[0].dtype)
      reject(c, Errc::DType, "mask has the wrong dtype", "bool or query's dtype", name(mask.dtype));
    if (c.attr<bool>(Attr::is_causal))
      reject(c, Errc::Argument, "both a mask and is_causal are given", "one of them", "both");
  }
  return {c.operands[0].dtype, result};
}

}  // namespace tandem::ir::shape_rule
