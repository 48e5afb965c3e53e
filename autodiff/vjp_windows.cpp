// Rules of convolutions and windows. The gradients of a convolution are convolutions again: of x
// and w with y = x * w each is linear in the other two.
#include "autodiff/rules.h"

namespace tandem::autodiff {
namespace {

using ir::Dims;

/// The spatial sizes of `v`.
Dims spatial(const Builder& b, V v) {
  Dims out;
  for (int d = 2; d < b.rank(v); ++d) out.push_back(b.sizes(v)[d]);
  return out;
}

/// `v` cut to these spatial sizes: output_padding beyond the stride is as more of a result.
V cut_to(Builder& b, V v, const Dims& sizes) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int dim = static_cast<int>(d) + 2;
    if (b.sizes(v)[dim] > sizes[d]) v = b.slice(v, dim, 0, sizes[d]);
  }
  return v;
}

/// x * w, of these spatial sizes.
V convolved(Args a, V x, V w, const Dims& sizes) {
  const Dims none(sizes.size(), Dim(0));
  const V y = a.b.emit(Op::convolution, {x, w},
                       {a.attr<Dims>(Attr::stride), a.attr<Dims>(Attr::padding),
                        a.attr<Dims>(Attr::dilation), false, none, a.attr<int64_t>(Attr::groups)});
  return cut_to(a.b, y, sizes);
}

/// The gradient of x, of these spatial sizes, where y = x * w.
V convolved_back(Args a, V y, V w, const Dims& sizes) {
  const Dims made = spatial(a.b, y), kernel = spatial(a.b, w);
  Dims rest;
  for (size_t d = 0; d < sizes.size(); ++d)
    rest.push_back(sizes[d] - ((made[d] - 1) * a.attr<Dims>(Attr::stride)[d] -
                               2 * a.attr<Dims>(Attr::padding)[d] +
                               (kernel[d] - 1) * a.attr<Dims>(Attr::dilation)[d] + 1));
  return a.b.emit(Op::convolution, {y, w},
                  {a.attr<Dims>(Attr::stride), a.attr<Dims>(Attr::padding),
                   a.attr<Dims>(Attr::dilation), true, rest, a.attr<int64_t>(Attr::groups)});
}

V weight_of(Args a, V x, V y, const Dims& kernel) {
  return a.b.emit(Op::convolution_weight, {x, y},
                  {kernel, a.attr<Dims>(Attr::stride), a.attr<Dims>(Attr::padding),
                   a.attr<Dims>(Attr::dilation), a.attr<int64_t>(Attr::groups)});
}

bool transposed(Args a) { return a.attr<bool>(Attr::transposed); }

V windows(Args a, Op op) {
  return a.b.emit(op, {a.g},
                  {spatial(a.b, a.x()), a.attr<Dims>(Attr::window), a.attr<Dims>(Attr::stride),
                   a.attr<Dims>(Attr::padding)});
}

/// Images as [n, channels, elements].
V planes(Args a, V images) { return a.b.flatten(images, 2, -1); }

V gradient_of_self(Args a) {
  const Dims sizes = spatial(a.b, a.x(0));
  return transposed(a) ? convolved(a, a.g, a.x(1), sizes) : convolved_back(a, a.g, a.x(1), sizes);
}

V gradient_of_weight(Args a) {
  const Dims kernel = spatial(a.b, a.x(1));
  return transposed(a) ? weight_of(a, a.g, a.x(0), kernel) : weight_of(a, a.x(0), a.g, kernel);
}

V gradient_of_bias(Args a) {
  ir::Axes dims{0};
  for (int d = 2; d < a.b.rank(a.g); ++d) dims.push_back(d);
  return a.b.sum(a.g, dims);
}

/// (The bias may be left out.)
Gradients convolution(VjpContext& c) {
  const Args a(c);
  Gradients gradients(c.operands.size());
  if (c.needs(0)) gradients[0] = gradient_of_self(a);
  if (c.needs(1)) gradients[1] = gradient_of_weight(a);
  if (gradients.size() > 2 && c.needs(2)) gradients[2] = gradient_of_bias(a);
  return gradients;
}

Reads convolution_reads(std::span<const bool> needs) {
  return {(needs[0] ? kOther.operands : 0) | (needs[1] ? kSelf.operands : 0), 0};
}

}  // namespace

const VjpRule vjp_convolution{VjpRule::Kind::Differentiable, convolution, convolution_reads};
const VjpRule vjp_convolution_weight =
    rule(wrt<kOther>([](Args a) { return convolved_back(a, a.x(1), a.g, spatial(a.b, a.x(0))); }),
         wrt<kSelf>([](Args a) { return convolved(a, a.x(0), a.g, spatial(a.b, a.x(1))); }));
const VjpRule vjp_window_sum =
    rule(wrt<kNothing>([](Args a) { return windows(a, Op::window_spread); }));
const VjpRule vjp_window_spread =
    rule(wrt<kNothing>([](Args a) { return windows(a, Op::window_sum); }));
const VjpRule vjp_max_pool = rule(wrt<kSecondResult>([](Args a) {
  const V zeros = planes(a, a.b.zeros_like(a.x()));
  const V sums = a.b.scatter_add(zeros, 2, planes(a, a.result(1)), planes(a, a.g));
  return a.b.reshape(sums, a.sizes());
}));

}  // namespace tandem::autodiff
