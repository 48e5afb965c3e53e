// Rules of index ops: reading at an index and adding at an index are each other's transposes.
#include "autodiff/rules.h"

namespace tandem::autodiff {
namespace {

int dim(Args a) { return static_cast<int>(a.attr<int64_t>(Attr::dim)); }
V zeros(Args a) { return a.b.zeros_like(a.x(0)); }

/// `g` [index sizes] with zeros up to `sizes`: what of src lies beyond the index was not added.
V padded_to(Builder& b, V g, const Shape& sizes) {
  std::vector<Dim> padding;
  for (int d = 0; d < sizes.rank(); ++d) {
    padding.push_back(0);
    padding.push_back(sizes[d] - b.sizes(g)[d]);
  }
  return b.pad(g, padding, 0);
}

/// What of the gradient belongs to the src of a scatter.
V read_scattered(Args a) { return padded_to(a.b, a.b.gather(a.g, dim(a), a.x(1)), a.sizes(2)); }

}  // namespace

const VjpRule vjp_index_select = rule(wrt<kOther>([](Args a) {  //
                                        return a.b.index_add(zeros(a), dim(a), a.x(1), a.g);
                                      }),
                                      NoGradient{});
const VjpRule vjp_gather = rule(wrt<kOther>([](Args a) {  //
                                  return a.b.scatter_add(zeros(a), dim(a), a.x(1), a.g);
                                }),
                                NoGradient{});
const VjpRule vjp_index_add = rule(wrt<kNothing>([](Args a) { return a.g; }), NoGradient{},
                                   wrt<kOther>([](Args a) {  //
                                     return a.b.index_select(a.g, dim(a), a.x(1));
                                   }));
const VjpRule vjp_scatter_add = rule(wrt<kNothing>([](Args a) { return a.g; }), NoGradient{},
                                     wrt<kOther>([](Args a) { return read_scattered(a); }));
// As ATen: of several elements for one place each gets the place's gradient.
const VjpRule vjp_scatter =
    rule(wrt<kOther>([](Args a) {
           const V none = a.b.full(a.b.sizes(a.x(1)), a.b.dtype(a.g), 0);
           return a.b.scatter(a.g, dim(a), a.x(1), none);
         }),
         NoGradient{}, wrt<kOther>([](Args a) { return read_scattered(a); }));
// weight [v, d], indices [...]: rows of g [..., d] add up at their indices
const VjpRule vjp_embedding = rule(wrt<kOther>([](Args a) {
                                     const Dim count = a.b.numel(a.x(1)), width = a.sizes()[1];
                                     const V indices = a.b.reshape(a.x(1), {count});
                                     const V rows = a.b.reshape(a.g, {count, width});
                                     return a.b.index_add(zeros(a), 0, indices, rows);
                                   }),
                                   NoGradient{});

}  // namespace tandem::autodiff
