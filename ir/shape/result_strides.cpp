// How ATen lays out fresh results: TensorIterator's order of dimensions for pointwise ops, the
// operand's own layout for copies, row-major memory for the rest.
#include <algorithm>
#include <array>

#include "ir/geometry.h"
#include "ir/strides.h"

namespace tandem::ir {
namespace {

/// Which of two dimensions lies further in: -1 the first, 1 the second, 0 if no operand tells. A
/// broadcast dimension says nothing, and of equal strides the shorter dimension lies further in.
int compare(std::span<const Extent> operands, const Shape& sizes, int first, int second) {
  for (const Extent& e : operands) {
    if (e.sizes.rank() != sizes.rank()) continue;
    const Dim a = e.strides[first], b = e.strides[second];
    if (a == 0 || b == 0) continue;
    if (a != b) return a < b ? -1 : 1;
    if (sizes[first] > sizes[second]) return 1;
  }
  return 0;
}

/// The dimensions from the innermost on. An insertion sort, as TensorIterator's: where comparisons
/// are ambiguous the result depends on the algorithm.
Axes inside_out(std::span<const Extent> operands, const Shape& sizes) {
  Axes order;
  for (int d = sizes.rank(); d-- > 0;) order.push_back(d);
  for (size_t i = 1; i < order.size(); ++i) {
    size_t at = i;
    for (size_t j = i; j-- > 0;) {
      const int comparison =
          compare(operands, sizes, static_cast<int>(order[j]), static_cast<int>(order[at]));
      if (comparison < 0) break;
      if (comparison > 0) std::swap(order[j], order[at]), at = j;
    }
  }
  return order;
}

/// Strides of memory without gaps whose dimensions are `order`, innermost first.
Strides packed(const Axes& order, const Shape& sizes) {
  Strides strides = Strides::filled(sizes.rank(), 1);
  Dim next = 1;
  for (Axis wide : order) {
    const int d = static_cast<int>(wide);
    strides[d] = next;
    next *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

// --- channels last

/// Of images, from the innermost on: channels, then width, height, depth, images.
Axes channels_last_order(int rank) {
  Axes order{1};
  for (int d = rank - 1; d > 1; --d) order.push_back(d);
  order.push_back(0);
  return order;
}

bool is_channels_last(const Extent& e) {
  if (e.sizes.rank() != 4) return false;
  Dim expected = 1;
  for (Axis wide : channels_last_order(4)) {
    const int d = static_cast<int>(wide);
    if (e.sizes[d] != 1 && e.strides[d] != expected) return false;
    if (e.sizes[d] != 1) expected *= e.sizes[d];
  }
  return true;
}

/// Whether ATen takes the layout for that of images with their channels last
/// (suggest_memory_format).
bool looks_channels_last(const Extent& e) {
  if (e.sizes.rank() != 4 && e.sizes.rank() != 5) return false;
  if (e.strides[1] == 0) return false;
  Dim least = 0;
  for (Axis wide : channels_last_order(e.sizes.rank())) {
    const int d = static_cast<int>(wide);
    if (e.sizes[d] == 0 || e.strides[d] < least) return false;
    if (d == 0 && least == e.strides[1]) return false;
    least = e.strides[d] * e.sizes[d];
  }
  return true;
}

// --- rules

using Operands = std::span<const Extent>;

Strides row_major(Operands, const Shape& result) { return contiguous_strides(result); }

/// Whether no operand was broadcast.
bool has_all(const Extent& e, const Shape& result) {
  return e.sizes == result && std::ranges::none_of(e.strides, [](Dim s) { return s == 0; });
}

Strides pointwise(Operands operands, const Shape& result) {
  const auto all = [&](auto holds) { return std::ranges::all_of(operands, holds); };
  if (all([&](const Extent& e) { return e.sizes == result && is_contiguous(e.sizes, e.strides); }))
    return contiguous_strides(result);
  if (all([&](const Extent& e) { return has_all(e, result); })) {
    if (all(is_channels_last)) return packed(channels_last_order(4), result);
    const Extent& last = operands.back();
    if (is_dense(last.sizes, last.strides) &&
        all([&](const Extent& e) { return e.strides == last.strides; }))
      return last.strides;
  }
  return packed(inside_out(operands, result), result);
}

Strides preserving(Operands operands, const Shape&) { return preserved_strides(operands[0]); }

Strides of_first(Operands operands, const Shape& result) {
  return pointwise(operands.first(1), result);
}

Strides of_images(Operands operands, const Shape& result) {
  return std::ranges::all_of(operands, looks_channels_last)
             ? packed(channels_last_order(result.rank()), result)
             : contiguous_strides(result);
}

using Rule = Strides (*)(Operands, const Shape&);

struct Exception {
  Op op;
  Rule rule;
};
constexpr Exception kExceptions[] = {
    {Op::clone, row_major},
    {Op::masked_fill, row_major},
    {Op::tril, row_major},
    {Op::triu, row_major},
    {Op::convert, preserving},
    {Op::nan_to_num, preserving},
    {Op::fill, preserving},
    {Op::flip, preserving},
    {Op::slice_scatter, preserving},
    {Op::select_scatter, preserving},
    {Op::diagonal_scatter, preserving},
    {Op::dropout, of_first},
    {Op::pad, of_images},
    {Op::cat, of_images},
};

#define RULE_Pointwise pointwise
#define RULE_Reduction row_major
#define RULE_Scan row_major
#define RULE_Linalg row_major
#define RULE_Contraction row_major
#define RULE_View nullptr
#define RULE_Shape row_major
#define RULE_Factory row_major
#define RULE_Index row_major
#define RULE_Random row_major
#define RULE_Control row_major
#define RULE_External row_major
constexpr auto kRules = [] {
  std::array rules = {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) Rule{RULE_##class_},
#include "ir/ops.def"
  };
  for (const Exception& e : kExceptions) rules[static_cast<size_t>(e.op)] = e.rule;
  return rules;
}();

}  // namespace

Strides preserved_strides(const Extent& like) {
  if (is_contiguous(like.sizes, like.strides) || is_dense(like.sizes, like.strides))
    return like.strides;
  return packed(inside_out({&like, 1}, like.sizes), like.sizes);
}

Strides result_strides(Op op, std::span<const Extent> operands, const Shape& result) {
  return kRules[static_cast<size_t>(op)](operands, result);
}

}  // namespace tandem::ir
