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
namespace {

/// A scatter by `op`, and what of it lies at src's elements.
Term scattered(Args a, Op op, V self, V src) {
  return {&a.b, a.b.scatter_into(op, self, dim(a), a.x(1), src)};
}
Term read(Args a, V places) { return {&a.b, a.b.gather(places, dim(a), a.x(1))}; }

/// src as far as the index goes.
Term read_src(Args a) {
  V src = a.x(2);
  const Shape sizes = a.sizes(1);
  for (int d = 0; d < sizes.rank(); ++d)
    if (sizes[d] != a.sizes(2)[d]) src = a.b.slice(src, d, Dim(0), sizes[d]);
  return {&a.b, src};
}

/// A product without its zeros, how many these are, and their sum: what they would give if they
/// were not zero, so that a place with two of them has second derivatives.
struct Products {
  explicit Products(Args a) : src(read_src(a)), self(a.x(0)) {
    const Term self_zero = equal(self, 0), src_zero = equal(src, 0);
    rest = scattered(a, Op::scatter_prod, where(self_zero, 1, self), where(src_zero, 1, src));
    const auto number = [&](Term mask) { return Term{&a.b, a.b.convert(mask, ir::DType::I64)}; };
    zeros = scattered(a, Op::scatter_add, number(self_zero), number(src_zero));
    sum = scattered(a, Op::scatter_add, where(self_zero, self, 0), where(src_zero, src, 0));
  }
  /// The product of all but `x`, from what lies at its place.
  static Term without(Term x, Term rest, Term zeros, Term sum) {
    const Term is_zero = equal(x, 0);
    const Term of_zero = where(equal(zeros, 1), rest, where(equal(zeros, 2), rest * (sum - x), 0));
    const Term others = rest / where(is_zero, 1, x);
    const Term of_other = where(equal(zeros, 0), others, where(equal(zeros, 1), others * sum, 0));
    return where(is_zero, of_zero, of_other);
  }

  Term src, self, rest, zeros, sum;
};

/// g in equal parts to all elements that are the place's extremum: `x`'s own part.
struct Extrema {
  explicit Extrema(Args a) : src(read_src(a)) {
    const auto number = [&](Term mask) { return Term{&a.b, a.b.convert(mask, a.b.dtype(a.g))}; };
    of_self = number(equal(a.x(0), a.y));
    of_src = number(equal(src, read(a, a.y)));
    part = a.g / scattered(a, Op::scatter_add, of_self, of_src);
  }
  Term src, of_self, of_src, part;
};

V src_gradient(Args a, V g) { return padded_to(a.b, g, a.sizes(2)); }

constexpr auto kExtremum = rule(wrt < kSelf | kOther | kThird | kResult > ([](Args a) {
                                                                  const Extrema e(a);
                                                                  return e.of_self * e.part;
                                                                }),
                                NoGradient{}, wrt<kSelf | kOther | kThird | kResult>([](Args a) {
                                  const Extrema e(a);
                                  return src_gradient(a, e.of_src * read(a, e.part));
                                }));

}  // namespace

const VjpRule vjp_scatter_prod =
    rule(wrt < kSelf | kOther | kThird > ([](Args a) {
                                  const Products p(a);
                                  return a.g * Products::without(p.self, p.rest, p.zeros, p.sum);
                                }),
         NoGradient{}, wrt<kSelf | kOther | kThird>([](Args a) {
           const Products p(a);
           const Term others =
               Products::without(p.src, read(a, p.rest), read(a, p.zeros), read(a, p.sum));
           return src_gradient(a, read(a, a.g) * others);
         }));
const VjpRule vjp_scatter_amax = kExtremum;
const VjpRule vjp_scatter_amin = kExtremum;
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
