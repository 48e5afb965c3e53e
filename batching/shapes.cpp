// Views, and what rearranges or joins elements: the examples stay in front.
#include "batching/rules.h"

namespace tandem::batching {
namespace {

constexpr BatchRule kSized = formula([](Examples e) {
  const Dims& sizes = e.attr<Dims>(Attr::sizes);
  return e.emit({e[0].v}, with_attr(e.c, Attr::sizes, Dims(with_examples(e.c.size, sizes))));
});

constexpr BatchRule kPermuted = formula([](Examples e) {
  Axes order{0};
  for (const Axis d : e.attr<Axes>(Attr::dims)) order.push_back(d + 1);
  return e.emit({e[0].v}, {order});
});

/// New dimensions come between the examples and what there was.
constexpr BatchRule kExpanded = formula([](Examples e) {
  const Dims& sizes = e.attr<Dims>(Attr::sizes);
  V self = e[0].v;
  for (int d = e.rank(e[0]); d < static_cast<int>(sizes.size()); ++d) self = e.b.unsqueeze(self, 1);
  return e.emit({self}, {Dims(with_examples(e.c.size, sizes))});
});

/// Over examples that lie one behind the other.
std::vector<ir::AttrValue> strided_attrs(const Examples& e) {
  const Dim elements = ir::numel(e.sizes(e[0]));
  return {Dims(with_examples(e.c.size, e.attr<Dims>(Attr::sizes))),
          Dims(with_examples(elements, e.attr<Dims>(Attr::strides))), e.attr<Dim>(Attr::offset)};
}

constexpr BatchRule kStrided =
    formula([](Examples e) { return e.emit({e[0].v}, strided_attrs(e)); });
constexpr BatchRule kStridedCopy =
    formula([](Examples e) { return e.emit({e.b.clone(e[0].v)}, strided_attrs(e)); });

}  // namespace

const BatchRule batch_view = kSized;
const BatchRule batch_permute = kPermuted;
const BatchRule batch_expand = kExpanded;
const BatchRule batch_slice = kAligned;
const BatchRule batch_diagonal = kAligned;
const BatchRule batch_as_strided = kStrided;
const BatchRule batch_select = kAligned;
const BatchRule batch_squeeze = kAligned;
const BatchRule batch_unsqueeze = kAligned;
const BatchRule batch_transpose = kAligned;
const BatchRule batch_unfold = kAligned;
const BatchRule batch_view_dtype = kAligned;
const BatchRule batch_alias = kAligned;
const BatchRule batch_detach = kAligned;

const BatchRule batch_view_copy = kSized;
const BatchRule batch_permute_copy = kPermuted;
const BatchRule batch_expand_copy = kExpanded;
const BatchRule batch_slice_copy = kAligned;
const BatchRule batch_diagonal_copy = kAligned;
const BatchRule batch_as_strided_copy = kStridedCopy;
const BatchRule batch_select_copy = kAligned;
const BatchRule batch_squeeze_copy = kAligned;
const BatchRule batch_unsqueeze_copy = kAligned;
const BatchRule batch_transpose_copy = kAligned;
const BatchRule batch_unfold_copy = kAligned;
const BatchRule batch_view_dtype_copy = kAligned;
const BatchRule batch_alias_copy = kAligned;
const BatchRule batch_detach_copy = kAligned;

const BatchRule batch_slice_scatter = kAligned;
const BatchRule batch_diagonal_scatter = kAligned;
const BatchRule batch_as_strided_scatter = formula(
    [](Examples e) { return e.emit({e.b.clone(e.spread(0)), e.spread(1)}, strided_attrs(e)); });
const BatchRule batch_select_scatter = kAligned;

const BatchRule batch_cat = kAligned;
const BatchRule batch_pad = formula([](Examples e) {
  Dims padding{0, 0};
  for (const Dim d : e.attr<Dims>(Attr::padding)) padding.push_back(d);
  return e.emit({e[0].v}, with_attr(e.c, Attr::padding, padding));
});
const BatchRule batch_flip = kAligned;

}  // namespace tandem::batching
