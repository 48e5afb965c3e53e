// Matrix products, convolutions, windows, attention.
#include "autodiff/forward/rules.h"
#include "autodiff/product_terms.h"

namespace tandem::autodiff {

const JvpRule jvp_mm = multilinear(kSelf | kOther);
const JvpRule jvp_bmm = multilinear(kSelf | kOther);
const JvpRule jvp_addmm = formula([](Along a) {
  return through_operands(
      a, [](Term t) { return t; }, [&](Term t) { return mm(t, a.x(2)); },
      [&](Term t) { return mm(a.x(1), t); });
});

namespace {

/// The bias's along the channels of the result.
Term spread_bias(const Along& a, Term t) {
  Shape channels = Shape::filled(a.b.rank(a.y), 1);
  channels[1] = a.b.numel(t);
  const Shape sizes = a.b.sizes(a.y);
  return {&a.b, a.b.expand(a.b.reshape(t, channels), sizes)};
}

}  // namespace
const JvpRule jvp_convolution = formula([](Along a) {
  const auto of = [&](V x, V w) {
    return Term{&a.b, a.b.emit(Op::convolution, {x, w}, a.c.attrs)};
  };
  return through_operands(
      a, [&](Term t) { return of(t, a.x(1)); }, [&](Term t) { return of(a.x(0), t); },
      [&](Term t) { return spread_bias(a, t); });
});
const JvpRule jvp_convolution_weight = multilinear(kSelf | kOther);
const JvpRule jvp_window_sum = linear(kSelf);
const JvpRule jvp_window_spread = linear(kSelf);
const JvpRule jvp_max_pool = formula([](Along a) {
  const auto planes = [&](V images) { return a.b.flatten(images, 2, -1); };
  const V chosen = a.b.gather(planes(a.t()), 2, planes(a.result(1)));
  return results(a.b.reshape(chosen, a.b.sizes(a.y)), V());
});

namespace {

/// Of the masked scores.
std::optional<Term> score_tangent(const Along& a) {
  const Term q = wide(batched(a, a.x(0))), k = wide(batched(a, a.x(1)));
  const double scale = a.attr<double>(Attr::scale);
  const auto moved = [&](Term t) { return wide(batched(a, t)); };
  return through_operands(
      a, [&](Term t) { return bmm(moved(t), bt(k)) * scale; },
      [&](Term t) { return bmm(q, bt(moved(t))) * scale; }, NoPart{},
      [&](Term t) { return moved(t); });
}

}  // namespace
// y = p v, p = softmax(q k^T scale + mask): p (ds - sum(p ds)) v + p dv
const JvpRule jvp_scaled_dot_product_attention = formula([](Along a) {
  Builder& b = a.b;
  const Term p = attention_probabilities(a);
  std::optional<Term> sum;
  if (a.moves(0) || a.moves(1) || a.moves(3)) {
    const Term wide_p = wide(p), ps = wide_p * *score_tangent(a);
    const Term of_p = ps - wide_p * Term{&b, b.sum(ps, {Dim(2)}, true)};
    sum = bmm(narrow(a, of_p), batched(a, a.x(2)));
  }
  if (a.moves(2)) {
    const Term of_values = bmm(p, batched(a, a.t(2)));
    sum = sum ? *sum + of_values : of_values;
  }
  return V(b.reshape(*sum, b.sizes(a.y)));
});

const JvpRule jvp_weight_int8pack_mm = kNoTangent;
const JvpRule jvp_dynamic_int8pack_mm = kNoTangent;
const JvpRule jvp_int_mm = kNoTangent;

}  // namespace tandem::autodiff
