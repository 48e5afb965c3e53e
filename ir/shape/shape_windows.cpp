// Shape rules of convolutions, and of sums and maxima over windows.
#include <fmt/format.h>

#include "ir/shape/shape_rule_functions.h"
#include "ir/windows.h"

namespace tandem::ir::shape_rule {
namespace {

constexpr std::string_view kImages =
    "images [n, channels, spatial...] of one to three spatial dimensions";

int spatial_rank(const ShapeContext& c) {
  const int rank = c.operands[0].rank();
  if (rank < 3 || rank > 5)
    reject(c, Errc::Shape, "wrong number of dimensions", kImages, all_sizes(c));
  return rank - 2;
}

void require_numbers(const ShapeContext& c) {
  require_same_dtype(c);
  const DType dtype = c.operands[0].dtype;
  if (!is_floating(dtype) && dtype != DType::I64)
    reject(c, Errc::DType, "wrong dtype", "floating operands, or i64", name(dtype));
}

/// One number of at least `least` for each spatial dimension.
void require_each(const ShapeContext& c, Attr attr, int64_t least) {
  const auto& numbers = c.attr<Dims>(attr);
  if (static_cast<int>(numbers.size()) != spatial_rank(c))
    reject(c, Errc::Argument, fmt::format("wrong number of numbers in {}", name(attr)),
           fmt::format("one, or {}", spatial_rank(c)), to_string(numbers));
  for (const Dim n : numbers)
    if (n < least)
      reject(c, Errc::Argument, fmt::format("{} out of range", name(attr)),
             fmt::format("numbers of at least {}", least), to_string(numbers));
}

void require_groups(const ShapeContext& c, Dim in, Dim out) {
  const int64_t groups = c.attr<int64_t>(Attr::groups);
  if (groups < 1 || in % groups != 0 || out % groups != 0)
    reject(c, Errc::Argument, "groups do not fit the channels",
           fmt::format("a divisor of {} and {}", int64_t{in}, int64_t{out}),
           std::to_string(groups));
}

/// The sizes of what a convolution gives.
Shape convolved(const ShapeContext& c, const Shape& self, const Shape& weight) {
  Shape out{self[0], weight[0]};
  for (int d = 0; d < self.rank() - 2; ++d) {
    const auto at = static_cast<size_t>(d);
    const Dim reach = (weight[d + 2] - 1) * c.attr<Dims>(Attr::dilation)[at] + 1;
    const Dim padded = self[d + 2] + 2 * c.attr<Dims>(Attr::padding)[at];
    if (weight[d + 2] < 1 || padded < reach)
      reject(c, Errc::Shape, "the kernel does not fit into the padded input",
             fmt::format("at least one element and at most {}", int64_t{padded}),
             fmt::format("{} (dilated) in dimension {}", int64_t{reach}, d + 2));
    out.push_back((padded - reach) / c.attr<Dims>(Attr::stride)[at] + 1);
  }
  return out;
}

Shape transposed_sizes(const ShapeContext& c, const Shape& self, const Shape& weight) {
  Shape out{self[0], weight[1] * c.attr<int64_t>(Attr::groups)};
  for (int d = 0; d < self.rank() - 2; ++d) {
    const auto at = static_cast<size_t>(d);
    const Dim size = (self[d + 2] - 1) * c.attr<Dims>(Attr::stride)[at] -
                     2 * c.attr<Dims>(Attr::padding)[at] +
                     (weight[d + 2] - 1) * c.attr<Dims>(Attr::dilation)[at] + 1 +
                     c.attr<Dims>(Attr::output_padding)[at];
    if (self[d + 2] < 1 || weight[d + 2] < 1 || size < 0)
      reject(c, Errc::Shape, "self and weight do not fit together",
             "sizes of at least 1, and no more padding than the result has",
             fmt::format("{}, and a result of {} in dimension {}", all_sizes(c), int64_t{size},
                         d + 2));
    out.push_back(size);
  }
  return out;
}

void require_bias(const ShapeContext& c, Dim channels) {
  if (c.operands.size() > 2 && c.operands[2].sizes != Shape{channels})
    reject(c, Errc::Shape, "bias does not fit the result's channels", to_string(Shape{channels}),
           to_string(c.operands[2].sizes));
}

void require_window_attrs(const ShapeContext& c) {
  const auto& window = c.attr<Dims>(Attr::window);
  require_each(c, Attr::sizes, 0);
  require_each(c, Attr::stride, 1);
  require_each(c, Attr::padding, 0);
  if (!window.empty()) require_each(c, Attr::window, 1);
}

Shape with_spatial(const Shape& images, const Dims& sizes) {
  Shape out{images[0], images[1]};
  for (const Dim size : sizes) out.push_back(size);
  return out;
}

/// Each window shows at least one element.
void require_elements(const ShapeContext& c, const Dims& dilation) {
  const Shape& self = c.operands[0].sizes;
  for (int d = 0; d < spatial_rank(c); ++d) {
    const auto at = static_cast<size_t>(d);
    const WindowLine line = window_line(c.attrs, c.op, at, self[d + 2], dilation[at]);
    for (int64_t i = 0; i < c.attr<Dims>(Attr::sizes)[at]; ++i)
      if (const WindowRange r = line.at(i); r.begin >= r.end)
        reject(c, Errc::Shape, "a window shows no element",
               "padding of at most half a window, and an input that is not empty",
               fmt::format("window {} of dimension {}", i, d + 2));
  }
}

}  // namespace

Type convolution(const ShapeContext& c) {
  require_numbers(c);
  const Shape &self = c.operands[0].sizes, &weight = c.operands[1].sizes;
  require_each(c, Attr::stride, 1);
  require_each(c, Attr::padding, 0);
  require_each(c, Attr::dilation, 1);
  require_each(c, Attr::output_padding, 0);
  const bool transposed = c.attr<bool>(Attr::transposed);
  const int64_t groups = c.attr<int64_t>(Attr::groups);
  if (weight.rank() != self.rank())
    reject(c, Errc::Shape, "weight has the wrong number of dimensions",
           fmt::format("{} as self", self.rank()), all_sizes(c));
  require_groups(c, self[1], weight[0]);
  const Dim in = transposed ? weight[0] : weight[1] * groups;
  if (self[1] != in)
    reject(c, Errc::Shape, "weight does not fit self's channels",
           fmt::format("self of {} channels in {} groups", int64_t{in}, groups), all_sizes(c));
  const Shape sizes = transposed ? transposed_sizes(c, self, weight) : convolved(c, self, weight);
  require_bias(c, sizes[1]);
  return {c.operands[0].dtype, sizes};
}

Type convolution_weight(const ShapeContext& c) {
  require_numbers(c);
  const Shape &self = c.operands[0].sizes, &grad = c.operands[1].sizes;
  require_each(c, Attr::sizes, 1);
  require_each(c, Attr::stride, 1);
  require_each(c, Attr::padding, 0);
  require_each(c, Attr::dilation, 1);
  if (grad.rank() != self.rank() || grad[0] != self[0])
    reject(c, Errc::Shape, "grad does not fit self", "as many images", all_sizes(c));
  require_groups(c, self[1], grad[1]);
  const Shape weight = with_spatial({grad[1], self[1]}, c.attr<Dims>(Attr::sizes));
  const Shape most = convolved(c, self, weight);
  for (int d = 2; d < self.rank(); ++d)
    if (grad[d] > most[d])
      reject(c, Errc::Shape, "grad does not fit self", to_string(most), all_sizes(c));
  const Shape images{grad[1], self[1] / c.attr<int64_t>(Attr::groups)};
  return {c.operands[0].dtype, with_spatial(images, c.attr<Dims>(Attr::sizes))};
}

Type window(const ShapeContext& c) {
  require_numbers(c);
  require_window_attrs(c);
  return {c.operands[0].dtype, with_spatial(c.operands[0].sizes, c.attr<Dims>(Attr::sizes))};
}

Type spread(const ShapeContext& c) { return window(c); }

std::array<Type, 2> max_pool(const ShapeContext& c) {
  require_numbers(c);
  require_window_attrs(c);
  require_each(c, Attr::dilation, 1);
  require_elements(c, c.attr<Dims>(Attr::dilation));
  const Shape sizes = with_spatial(c.operands[0].sizes, c.attr<Dims>(Attr::sizes));
  return {Type{c.operands[0].dtype, sizes}, Type{DType::I64, sizes}};
}

}  // namespace tandem::ir::shape_rule
