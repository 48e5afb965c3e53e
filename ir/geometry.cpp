// Strides of views. One function per view op, in a table.
#include "ir/geometry.h"

#include <algorithm>

#include "ir/base/error.h"
#include "ir/strides.h"

namespace tandem::ir {
namespace {

struct ViewContext {
  ir::Op op;
  const Shape& sizes;
  const Strides& strides;
  std::span<const ir::AttrValue> attrs;
  const Shape& result;

  template <class T>
  const T& attr(ir::Attr name) const {
    return std::get<T>(attrs[ir::attr_index(op, name)]);
  }
  int dim(ir::Attr name = ir::Attr::dim) const { return static_cast<int>(attr<int64_t>(name)); }
  const ir::Axes& axes() const { return attr<ir::Axes>(ir::Attr::dims); }
};

ViewGeometry view(const ViewContext& c) {
  if (auto strides = strides_as(c.sizes, c.strides, c.result)) return {*strides, 0};
  ir::fail(ir::Errc::Shape, "view: the strides need a copy; expected sizes that " +
                                to_string(c.sizes) + " with strides " + to_string(c.strides) +
                                " can be seen as, got " + to_string(c.result) +
                                " (use reshape, which copies)");
}

ViewGeometry permute(const ViewContext& c) {
  Strides strides;
  for (ir::Axis d : c.axes()) strides.push_back(c.strides[static_cast<int>(d)]);
  return {strides, 0};
}

ViewGeometry expand(const ViewContext& c) {
  Strides strides = Strides::filled(c.result.rank(), 0);
  const int added = c.result.rank() - c.sizes.rank();
  for (int d = 0; d < c.sizes.rank(); ++d)
    if (c.sizes[d] == c.result[d + added]) strides[d + added] = c.strides[d];
  return {strides, 0};
}

ViewGeometry slice(const ViewContext& c) {
  const int d = c.dim();
  Strides strides = c.strides;
  const Dim offset = c.attr<Dim>(ir::Attr::start) * strides[d];
  strides[d] = ir::checked_mul(strides[d], c.attr<Dim>(ir::Attr::step), "slice: stride");
  return {strides, c.result[d] == 0 ? Dim(0) : offset};
}

ViewGeometry diagonal(const ViewContext& c) {
  const int d0 = c.dim(ir::Attr::dim0), d1 = c.dim(ir::Attr::dim1);
  const Dim number = c.attr<Dim>(ir::Attr::offset);
  Strides strides = c.strides;
  const Dim step = strides[d0] + strides[d1];
  const Dim offset = number >= 0 ? number * strides[d1] : Dim(0) - number * strides[d0];
  strides.erase(std::max(d0, d1));
  strides.erase(std::min(d0, d1));
  strides.push_back(step);
  return {strides, c.result.back() == 0 ? Dim(0) : offset};
}

ViewGeometry as_strided(const ViewContext& c) {
  if (!is_contiguous(c.sizes, c.strides))
    ir::fail(ir::Errc::Argument,
             "as_strided: operand is not contiguous; expected a contiguous tensor, got strides " +
                 to_string(c.strides) + " of " + to_string(c.sizes));
  return {Strides(c.attr<Dims>(ir::Attr::strides)), c.attr<Dim>(ir::Attr::offset)};
}

ViewGeometry select(const ViewContext& c) {
  const int d = c.dim();
  Strides strides = c.strides;
  const Dim offset = c.attr<Dim>(ir::Attr::index) * strides[d];
  strides.erase(d);
  return {strides, offset};
}

ViewGeometry squeeze(const ViewContext& c) {
  Strides strides = c.strides;
  const auto& dims = c.axes();
  for (size_t i = dims.size(); i-- > 0;) {
    const int d = static_cast<int>(dims[i]);
    if (c.sizes[d] == 1) strides.erase(d);
  }
  return {strides, 0};
}

ViewGeometry unsqueeze(const ViewContext& c) {
  const int d = c.dim();
  Strides strides = c.strides;
  strides.insert(d, d < c.sizes.rank() ? c.sizes[d] * c.strides[d] : Dim(1));
  return {strides, 0};
}

ViewGeometry transpose(const ViewContext& c) {
  Strides strides = c.strides;
  std::swap(strides[c.dim(ir::Attr::dim0)], strides[c.dim(ir::Attr::dim1)]);
  return {strides, 0};
}

ViewGeometry unfold(const ViewContext& c) {
  Strides strides = c.strides;
  const Dim inside = strides[c.dim()];
  strides[c.dim()] = ir::checked_mul(inside, c.attr<Dim>(ir::Attr::step), "unfold: stride");
  strides.push_back(inside);
  return {strides, 0};
}

// A last size that shrinks joins elements, which must be neighbours.
ViewGeometry view_dtype(const ViewContext& c) {
  Strides strides = c.strides;
  if (c.sizes.empty() || ir::numel(c.sizes) == 0 || c.sizes.back() == c.result.back())
    return {ir::numel(c.sizes) == 0 ? ir::contiguous_strides(c.result) : strides, 0};
  const Dim from = c.sizes.back(), to = c.result.back();
  const bool joins = to < from;
  const Dim ratio = joins ? from / to : to / from;
  bool fits = strides.back() == 1 || from == 1;
  strides.erase(strides.rank() - 1);
  for (Dim& s : strides) {
    fits = fits && (!joins || s % ratio == 0);
    s = joins ? s / ratio : s * ratio;
  }
  strides.push_back(1);
  if (!fits)
    ir::fail(ir::Errc::Shape,
             "view_dtype: elements of another size need a last dimension of stride 1 and strides "
             "that are whole numbers of them; expected a contiguous tensor, got strides " +
                 to_string(c.strides) + " of " + to_string(c.sizes));
  return {strides, 0};
}

ViewGeometry alias(const ViewContext& c) { return {c.strides, 0}; }
ViewGeometry detach(const ViewContext& c) { return alias(c); }

using Rule = ViewGeometry (*)(const ViewContext&);

// A view op without a rule does not compile.
#define RULE_View(name) &name
#define RULE_Pointwise(name) nullptr
#define RULE_Reduction(name) nullptr
#define RULE_Scan(name) nullptr
#define RULE_Linalg(name) nullptr
#define RULE_Contraction(name) nullptr
#define RULE_Shape(name) nullptr
#define RULE_Factory(name) nullptr
#define RULE_Index(name) nullptr
#define RULE_Random(name) nullptr
#define RULE_Control(name) nullptr
#define RULE_External(name) nullptr
constexpr Rule kRules[] = {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) RULE_##class_(name),
#include "ir/ops.def"
};

}  // namespace

ViewGeometry view_geometry(ir::Op op, const Shape& sizes, const Strides& strides,
                           std::span<const ir::AttrValue> attrs, const Shape& result) {
  const Rule rule = kRules[static_cast<size_t>(op)];
  TANDEM_CHECK(rule != nullptr, "not a view");
  return rule({op, sizes, strides, attrs, result});
}

ViewGeometry placed_view(ir::Op op, const ir::Type& type, const Strides& strides, Dim offset,
                         std::span<const ir::AttrValue> attrs, const ir::Type& result) {
  ViewGeometry g = view_geometry(op, type.sizes, strides, attrs, result.sizes);
  const int64_t from = ir::size_of(type.dtype), to = ir::size_of(result.dtype);
  if (offset * from % to != 0)
    ir::fail(ir::Errc::Shape,
             "view_dtype: the first element does not lie at a whole number of elements of the new "
             "size; expected a storage offset that is a multiple of " +
                 std::to_string(to / from) + ", got " + std::to_string(int64_t{offset}));
  g.offset += offset * from / to;
  return g;
}

int memory_of(const Graph& graph, int input) {
  while (const auto& alias = graph.inputs()[static_cast<size_t>(input)].alias_of)
    input = alias->input;
  return input;
}

bool is_overwritten(const Graph& graph, int input) {
  const int memory = memory_of(graph, input);
  return std::ranges::any_of(graph.outputs(), [&](const Output& out) {
    return out.role == Role::MutatedInput && memory_of(graph, out.target) == memory;
  });
}

bool writes_part(ir::Op op) {
  switch (op) {
    case Op::slice_scatter:
    case Op::diagonal_scatter:
    case Op::index_add:
    case Op::scatter:
    case Op::scatter_add:
    case Op::scatter_prod:
    case Op::scatter_amax:
    case Op::scatter_amin:
      return true;
    default:
      return false;
  }
}

// Groups of neighbouring dims that are contiguous among themselves are cut into the wanted sizes,
// from the last dimension on; a wanted size that would span two groups needs a copy.
std::optional<Strides> strides_as(const Shape& sizes, const Strides& strides, const Shape& wanted) {
  if (ir::numel(sizes) == 0) return ir::contiguous_strides(wanted);
  Strides result = Strides::filled(wanted.rank(), 1);
  int w = wanted.rank() - 1;
  int64_t group = 1, taken = 1;
  int64_t unit = sizes.empty() ? 1 : int64_t{strides.back()};
  for (int d = sizes.rank() - 1; d >= 0; --d) {
    group *= int64_t{sizes[d]};
    const bool ends = d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != Dim(group) * Dim(unit));
    if (!ends) continue;
    while (w >= 0 && (taken < group || wanted[w] == 1)) {
      result[w] = taken * unit;
      taken *= int64_t{wanted[w--]};
    }
    if (taken != group) return std::nullopt;
    if (d > 0) {
      unit = strides[d - 1];
      group = taken = 1;
    }
  }
  for (; w >= 0; --w) result[w] = taken * unit;
  return result;
}

bool is_contiguous(const Shape& sizes, const Strides& strides) {
  Dim expected = 1;
  bool contiguous = true;
  for (int d = sizes.rank() - 1; d >= 0; --d) {
    if (sizes[d] == 0) return true;
    contiguous = contiguous && (sizes[d] == 1 || strides[d] == expected);
    expected *= sizes[d];
  }
  return contiguous;
}

}  // namespace tandem::ir
