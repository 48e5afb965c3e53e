#include "runtime/tape/gradient_sum.h"

#include <algorithm>

#include "runtime/ops/call.h"

namespace tandem::runtime {
namespace {

constexpr size_t kMostParts = 32;  // that are brought together: one kernel reads them

V zeros(Call& c, const Tensor& like, Shape sizes, int dim, Dim length) {
  sizes[dim] = length;
  return c.b.full(sizes, like.dtype(), 0);
}

/// All parts in one tensor, zeros between them. (Adding 0 turns -0 into 0, as the zeros of others
/// would.)
Tensor joined(const std::vector<PartGradient>& parts) {
  Call c(current_location(), "cat");
  const auto& [first, part] = parts[0];
  std::vector<V> pieces;
  Dim at = 0;
  const auto fill_to = [&](Dim end) {
    if (end > at) pieces.push_back(zeros(c, first, part.whole, part.dim, end - at));
  };
  for (const PartGradient& p : parts) {
    fill_to(p.part.start);
    pieces.push_back(c.in(p.value));
    at = p.end();
  }
  fill_to(part.whole[part.dim]);
  const V whole = c.b.cat(pieces, part.dim);
  return c.out(ir::is_floating(first.dtype()) ? c.b.add(whole, 0) : whole);
}

/// The one part there is between zeros.
Tensor padded(const PartGradient& p) {
  Call c(current_location(), "pad");
  const V v = c.in(p.value);
  ir::Dims padding(2 * static_cast<size_t>(p.part.whole.rank()));
  padding[2 * static_cast<size_t>(p.part.dim)] = p.part.start;
  padding[2 * static_cast<size_t>(p.part.dim) + 1] = p.part.whole[p.part.dim] - p.end();
  return c.out(c.b.pad(v, padding, 0));
}

}  // namespace

void GradientSum::add(Tensor gradient) {
  add_parts();
  sum_ = sum_.defined() ? add_tensors(sum_, gradient) : std::move(gradient);
}

void GradientSum::add(PartGradient gradient) {
  const auto place = std::ranges::upper_bound(parts_, gradient.part.start, {},
                                              [](const PartGradient& p) { return p.part.start; });
  const bool is_free = (place == parts_.begin() || place[-1].end() <= gradient.part.start) &&
                       (place == parts_.end() || gradient.end() <= place->part.start);
  const bool fits = parts_.empty() || (is_free && parts_.size() < kMostParts &&
                                       parts_[0].part.dim == gradient.part.dim);
  if (fits) {
    parts_.insert(place, std::move(gradient));
  } else {
    add_parts();
    parts_.push_back(std::move(gradient));
  }
}

void GradientSum::add_parts() {
  if (parts_.empty()) return;
  const std::vector<PartGradient> parts = std::move(parts_);
  parts_.clear();
  const Tensor all = parts.size() == 1 ? padded(parts[0]) : joined(parts);
  sum_ = sum_.defined() ? add_tensors(sum_, all) : all;
}

Tensor GradientSum::take() {
  add_parts();
  return std::move(sum_);
}

}  // namespace tandem::runtime
