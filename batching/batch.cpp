// The table of rules, in the order of ops.def, and what the kinds mean.
#include "batching/batch.h"

#include "batching/rules.h"
#include "ir/base/error.h"

namespace tandem::batching {
namespace {

const BatchRule* const kRules[] = {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) &batch_##name,
#include "ir/ops.def"
};

ValueList aligned_operands(const BatchContext& context) {
  BatchContext c = context;
  const Examples e(c);
  ValueList operands;
  for (size_t i = 0; i < e.count(); ++i) operands.push_back(e.spread(i));
  return operands;
}

ValueList folded_results(BatchContext& c) {
  const Examples e(c);
  ValueList operands;
  for (size_t i = 0; i < e.count(); ++i) operands.push_back(e.folded(i));
  ValueList results = c.b.emit_all(c.op, operands, c.attrs);
  for (V& v : results) v = e.unfolded(v);
  return results;
}

}  // namespace

Shape with_examples(Dim size, std::span<const Dim> sizes) {
  Shape all{size};
  for (const Dim d : sizes) all.push_back(d);
  return all;
}

std::vector<ir::AttrValue> with_attr(const BatchContext& c, Attr name, ir::AttrValue value) {
  std::vector<ir::AttrValue> attrs(c.attrs.begin(), c.attrs.end());
  attrs[static_cast<size_t>(ir::attr_index(c.op, name))] = std::move(value);
  return attrs;
}

std::vector<ir::AttrValue> moved_attrs(const BatchContext& c) {
  std::vector<ir::AttrValue> attrs(c.attrs.begin(), c.attrs.end());
  for (const Attr name : {Attr::dim, Attr::dim0, Attr::dim1})
    if (ir::has_attr(c.op, name))
      ++std::get<int64_t>(attrs[static_cast<size_t>(ir::attr_index(c.op, name))]);
  if (ir::has_attr(c.op, Attr::dims))
    for (Axis& d : std::get<Axes>(attrs[static_cast<size_t>(ir::attr_index(c.op, Attr::dims))]))
      d = d + 1;
  return attrs;
}

Shape Examples::sizes(Value x) const {
  const Shape all = b.sizes(x.v);
  return x.batched ? Shape(std::span(all.begin() + 1, all.end())) : all;
}

V Examples::spread(Value x) const {
  if (x.batched) return x.v;
  const Shape one = b.sizes(x.v);
  return b.expand(x.v, with_examples(c.size, one));
}

V Examples::folded(Value x) const {
  Shape sizes = this->sizes(x);
  sizes[0] = sizes[0] * c.size;
  return b.reshape(spread(x), sizes);
}

V Examples::unfolded(V v) const {
  const Shape all = b.sizes(v);
  Shape sizes{c.size, c.size == 0 ? Dim(0) : all[0] / c.size};
  for (int d = 1; d < all.rank(); ++d) sizes.push_back(all[d]);
  return b.reshape(v, sizes);
}

const BatchRule& batch_rule(Op op) { return *kRules[static_cast<size_t>(op)]; }

ValueList apply_batch(const BatchContext& context) {
  const BatchRule& rule = batch_rule(context.op);
  BatchContext c = context;
  switch (rule.kind) {
    case BatchRule::Kind::Aligned:
      return c.b.emit_all(c.op, aligned_operands(c), moved_attrs(c));
    case BatchRule::Kind::Folded:
      return folded_results(c);
    case BatchRule::Kind::Formula:
      return rule.formula(c);
    default:
      break;
  }
  TANDEM_CHECK(false, std::string(ir::name(c.op)) + " has no batching rule of its own");
  return {};
}

void apply_batch_in_place(const BatchContext& c) {
  if (batch_rule(c.op).kind == BatchRule::Kind::Aligned)
    return c.b.emit_in_place(c.op, aligned_operands(c), moved_attrs(c));
  const V written[] = {c.operands[0], apply_batch(c)[0]};
  c.b.emit_in_place(Op::copy, written);
}

}  // namespace tandem::batching
