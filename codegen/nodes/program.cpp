// From equations to nodes: views become strides, reductions become partials and their combination,
// shape ops become copies into regions.
#include "codegen/nodes/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <tuple>

#include "codegen/kernels/scatter.h"
#include "codegen/products/contraction.h"
#include "codegen/products/heads.h"
#include "ir/base/error.h"
#include "ir/build/free_view.h"
#include "ir/reduction_order.h"
#include "ir/strides.h"

namespace tandem::codegen {
namespace {

using ir::Attr;
using ir::Dim;
using ir::DType;
using ir::EquationId;
using ir::Graph;
using ir::Number;
using ir::Op;
using ir::Shape;
using ir::ValueId;

/// More partials than this are combined by a loop, not by an expression.
constexpr int64_t kMaxTree = 64;
/// With fewer runs than this, a run of several blocks is shared out among threads by blocks.
constexpr int64_t kManyRuns = 16;

/// Whether the view's memory steps unevenly somewhere inside its innermost `inner * n` elements but
/// not at `inner`.
bool uneven_inside(const View& v, int64_t n, int64_t inner) {
  int64_t suffix = 1;
  const auto runs = collapsed(v);
  for (auto r = runs.rbegin(); r != runs.rend(); ++r) {
    if (suffix > inner && suffix < inner * n) return true;
    suffix *= r->size;
  }
  return false;
}

class Maker {
 public:
  explicit Maker(const Graph& graph) : g_(graph), views_(graph) {
    p_.values.reserve(graph.num_values());
    p_.nodes.reserve(graph.num_equations());
  }

  Program run() {
    for (size_t i = 0; i < g_.inputs().size(); ++i) input(static_cast<int>(i));
    for (size_t i = 0; i < g_.num_equations(); ++i) equation(g_.equation_id(i));
    for (size_t o = 0; o < g_.outputs().size(); ++o) output(static_cast<int>(o));
    remove_dead_nodes();
    return std::move(p_);
  }

 private:
  using Rule = void (Maker::*)(EquationId);

  // --- values and nodes
  int add(Value v) {
    p_.values.push_back(std::move(v));
    return static_cast<int>(p_.values.size()) - 1;
  }

  View computed(DType dtype, const Shape& sizes) {
    const int64_t n = ir::numel(sizes);
    return whole(add({.kind = Value::Kind::Computed, .dtype = dtype, .numel = n}), sizes);
  }

  View filled(const Number& number, DType dtype, const Shape& sizes) {
    const int64_t bits =
        number.is_float() ? std::bit_cast<int64_t>(number.to_double()) : number.to_int();
    const auto [at, fresh] = fills_.try_emplace(std::tuple(dtype, number.kind(), bits),
                                                static_cast<int>(p_.values.size()));
    if (fresh) add({.kind = Value::Kind::Full, .dtype = dtype, .numel = 1, .first = number});
    return {at->second, 0, sizes, Shape::filled(sizes.rank(), 0)};
  }

  DType dtype(const View& v) const { return p_.values[static_cast<size_t>(v.root)].dtype; }

  /// Appends a node that writes node.dest; returns its number, or -1 if there is nothing to write.
  int push(Node n) {
    if (n.dest.numel() == 0) return -1;
    if (n.name.empty()) n.name = std::string(ir::name(n.op));
    const int id = static_cast<int>(p_.nodes.size());
    p_.values[static_cast<size_t>(n.dest.root)].writers.push_back(id);
    p_.nodes.push_back(std::move(n));
    return id;
  }

  View pointwise(Op op, std::vector<View> operands, DType type, const Shape& sizes) {
    const View dest = computed(type, sizes);
    push({.op = op, .dtype = type, .domain = sizes, .operands = std::move(operands), .dest = dest});
    return dest;
  }

  View copied(const View& v) { return pointwise(Op::clone, {v}, dtype(v), v.sizes); }

  View converted(const View& v, DType to) {
    return dtype(v) == to ? v : pointwise(Op::convert, {v}, to, v.sizes);
  }

  bool is_full(const View& v) const {
    return p_.values[static_cast<size_t>(v.root)].kind == Value::Kind::Full;
  }

  /// Copies `v` into `dest`, a part of a value; in an order that suits reading.
  int write_region(View v, View dest, int after = -1) {
    const ir::Dims order = ir::memory_order(is_full(v) ? dest.strides : v.strides);
    v = permuted(v, order);
    dest = permuted(dest, order);
    return push({.op = Op::clone,
                 .dtype = dtype(v),
                 .domain = v.sizes,
                 .operands = {v},
                 .dest = dest,
                 .whole = false,
                 .after = after,
                 .name = "copy"});
  }

  static bool is_needed(const Node& n, const std::vector<bool>& needed) {
    bool any = n.only_checks;
    n.for_each_written([&](int root) { any = any || needed[static_cast<size_t>(root)]; });
    return any;
  }

  void remove_dead_nodes() {
    std::vector<bool> needed(p_.values.size());
    for (const ProgramOutput& o : p_.outputs)
      if (o.value >= 0) needed[static_cast<size_t>(o.value)] = true;
    for (size_t i = p_.nodes.size(); i-- > 0;) {
      const Node& n = p_.nodes[i];
      if (!is_needed(n, needed)) continue;
      for (const View& v : n.operands) needed[static_cast<size_t>(v.root)] = true;
      if (n.table.root >= 0) needed[static_cast<size_t>(n.table.root)] = true;
    }
    std::vector<int> number(p_.nodes.size(), -1);
    for (Value& v : p_.values) v.writers.clear();
    size_t kept = 0;
    for (size_t i = 0; i < p_.nodes.size(); ++i) {
      if (!is_needed(p_.nodes[i], needed)) continue;
      number[i] = static_cast<int>(kept);
      p_.nodes[i].for_each_written(
          [&](int root) { p_.values[static_cast<size_t>(root)].writers.push_back(number[i]); });
      if (kept != i) p_.nodes[kept] = std::move(p_.nodes[i]);
      Node& n = p_.nodes[kept++];
      if (n.after >= 0) n.after = number[static_cast<size_t>(n.after)];
    }
    p_.nodes.resize(kept);
  }

  // --- the graph
  const View& operand(EquationId e, int i) const { return views_[g_.operand(e, i)]; }
  /// Whether the result of `e` was computed before, as what a product gives.
  bool is_known(EquationId e) const { return views_[g_.result(e)].root >= 0; }
  void set(EquationId e, const View& v) { views_[g_.result(e)] = v; }
  const ir::Type& result_type(EquationId e) const { return g_.type(g_.result(e)); }
  int64_t size_attr(EquationId e, Attr a) const { return g_.attr<Dim>(e, a); }
  int dim_attr(EquationId e, Attr a) const { return static_cast<int>(g_.attr<int64_t>(e, a)); }
  const ir::Dims& dims_attr(EquationId e, Attr a) const { return g_.attr<ir::Dims>(e, a); }

  void input(int i) {
    const ir::Input& in = g_.inputs()[static_cast<size_t>(i)];
    const ir::Type& t = g_.type(in.value);
    if (t.is_token) return;
    const int64_t n = ir::numel(t.sizes);
    const int root = add({.kind = Value::Kind::Input, .dtype = t.dtype, .numel = n, .index = i});
    views_[in.value] = {root, 0, t.sizes, in.strides};
  }

  void equation(EquationId e) {
    const Rule rule = rule_of(g_.op(e));
    TANDEM_CHECK(rule != nullptr, "lowering has no rule for " + std::string(ir::name(g_.op(e))));
    (this->*rule)(e);
  }

  static Rule rule_of(Op op);

  std::string check_text(EquationId e) const {
    const auto at = g_.location(e);
    const bool is_known = at && !at->function.empty();
    const std::string_view op = is_known ? at->function : ir::name(g_.op(e));
    return at ? fmt::format("{} ({}:{})", op, at->file, at->line) : std::string(op);
  }

  void on_pointwise(EquationId e) {
    if (is_known(e)) return;
    std::vector<View> operands;
    operands.reserve(g_.operands(e).size());
    for (ValueId v : g_.operands(e)) operands.push_back(views_[v]);
    const ir::Type& t = result_type(e);
    const View dest = computed(t.dtype, t.sizes);
    push({.op = g_.op(e),
          .dtype = t.dtype,
          .domain = t.sizes,
          .operands = std::move(operands),
          .dest = dest,
          .check = ir::info(g_.op(e)).may_fail ? check_text(e) : std::string()});
    set(e, dest);
  }

  void on_identity(EquationId e) { set(e, operand(e, 0)); }

  // --- views
  View reshape(const View& v, const Shape& sizes) {
    if (auto r = reshaped(v, sizes)) return *r;
    return *reshaped(copied(v), sizes);
  }

  /// A view or permute.
  void on_view(EquationId e) {
    if (is_known(e)) return;
    const View& from = operand(e, 0);
    const auto split = splits_.find(g_.operand(e, 0).index);
    const Shown to =
        shown(g_, e, {from, split == splits_.end() ? std::nullopt : std::optional(split->second)});
    if (to.split) splits_[g_.result(e).index] = *to.split;
    set(e, to.view ? *to.view : *reshaped(copied(from), result_type(e).sizes));
  }
  void on_expand(EquationId e) { set(e, expanded(operand(e, 0), result_type(e).sizes)); }
  void on_slice(EquationId e) {
    set(e, sliced(operand(e, 0), dim_attr(e, Attr::dim), size_attr(e, Attr::start),
                  size_attr(e, Attr::end), size_attr(e, Attr::step)));
  }
  void on_diagonal(EquationId e) {
    set(e, diagonal(operand(e, 0), size_attr(e, Attr::offset), dim_attr(e, Attr::dim0),
                    dim_attr(e, Attr::dim1)));
  }
  void on_flip(EquationId e) { set(e, flipped(operand(e, 0), dims_attr(e, Attr::dims))); }

  void on_as_strided(EquationId e) {
    View v = operand(e, 0);
    const auto runs = collapsed(v);
    if (runs.size() > 1 || (runs.size() == 1 && runs[0].stride != 1)) v = copied(v);
    set(e, {v.root, v.offset + size_attr(e, Attr::offset), result_type(e).sizes,
            Shape(dims_attr(e, Attr::strides))});
  }

  // --- factories
  void on_full(EquationId e) {
    const ir::Type& t = result_type(e);
    set(e, filled(g_.attr<Number>(e, Attr::value), t.dtype, t.sizes));
  }

  void on_iota(EquationId e) {
    const ir::Type& t = result_type(e);
    set(e, whole(add({.kind = Value::Kind::Iota,
                      .dtype = t.dtype,
                      .numel = ir::numel(t.sizes),
                      .first = g_.attr<Number>(e, Attr::first),
                      .increment = g_.attr<Number>(e, Attr::increment)}),
                 t.sizes));
  }

  void on_random_bits(EquationId e) {
    const ir::Type& t = result_type(e);
    const View& rng = operand(e, 0);
    const Shape scalar = Shape::filled(t.rank(), 0);
    const View key{rng.root, rng.offset, t.sizes, scalar};
    const View base{rng.root, rng.offset + rng.strides[0], t.sizes, scalar};
    const View dest = computed(t.dtype, t.sizes);
    push({.kind = Node::Kind::Random,
          .op = Op::random_bits,
          .dtype = t.dtype,
          .domain = t.sizes,
          .operands = {key, base},
          .dest = dest,
          .random_offset = size_attr(e, Attr::offset)});
    set(e, dest);
  }

  // --- index
  void gather(EquationId e, const View& index) {
    const ir::Type& t = result_type(e);
    const int dim = dim_attr(e, Attr::dim);
    View table = stored(operand(e, 0));
    Node n{.kind = Node::Kind::Gather, .op = Op::gather, .dtype = t.dtype, .domain = t.sizes};
    n.gather_stride = table.strides[dim];
    n.gather_extent = table.sizes[dim];
    table.sizes = t.sizes;
    table.strides[dim] = 0;
    n.table = table;
    n.operands = {converted(index, DType::I64)};
    n.dest = computed(t.dtype, t.sizes);
    n.check = check_text(e);
    set(e, n.dest);
    push(std::move(n));
  }

  /// Checks the index [k] of `e` where there is no element to read or write by it.
  void check_index(EquationId e, const View& index) {
    if (index.numel() == 0) return;
    const View positions = stored(converted(index, DType::I64));
    View table = positions;  // the first of them, for any index
    table.strides = Shape::filled(table.sizes.rank(), 0);
    push({.kind = Node::Kind::Gather,
          .op = Op::gather,
          .dtype = DType::I64,
          .domain = positions.sizes,
          .operands = {positions},
          .dest = computed(DType::I64, positions.sizes),
          .whole = false,
          .only_checks = true,
          .table = table,
          .gather_extent = g_.type(g_.operand(e, 0)).sizes[dim_attr(e, Attr::dim)],
          .check = check_text(e)});
  }

  void on_gather(EquationId e) { gather(e, operand(e, 1)); }

  /// The index [k] as a view over `sizes`, along `dim`.
  static View along(const View& index, int dim, const Shape& sizes) {
    View v{index.root, index.offset, sizes, Shape::filled(sizes.rank(), 0)};
    v.strides[dim] = index.strides[0];
    return v;
  }

  void on_index_select(EquationId e) {
    if (ir::numel(result_type(e).sizes) == 0) check_index(e, operand(e, 1));
    gather(e, along(operand(e, 1), dim_attr(e, Attr::dim), result_type(e).sizes));
  }

  /// Whether a scatter from `sizes` along `dim` reaches all of a destination's other dims.
  static bool covers(const Shape& sizes, const Shape& destination, int dim) {
    for (int d = 0; d < sizes.rank(); ++d)
      if (d != dim && sizes[d] != destination[d]) return false;
    return true;
  }

  /// Whether the one reader of `v` may go on in its memory: if that is `v`'s alone, and a library
  /// product or another scatter wrote it last. (Into other nodes a copy is fused.)
  bool can_take_over(ValueId v) {
    const EquationId e = g_.producer(v);
    if (!e.valid() || ir::info(g_.op(e)).cls == ir::OpClass::View) return false;
    if (uses_.empty()) uses_ = use_counts(g_);
    const View& view = views_[v];
    const Value& value = p_.values[static_cast<size_t>(view.root)];
    if (uses_[v.index] != 1 || value.numel != view.numel() || value.writers.empty()) return false;
    const Node::Kind last = p_.nodes[static_cast<size_t>(value.writers.back())].kind;
    return is_linear(view) && (last == Node::Kind::Matmul || last == Node::Kind::Scatter);
  }

  /// Operand 0 of scatter `e` where it may be written on: a copy, or itself. `after`: the node that
  /// wrote there last.
  View writable(EquationId e, int& after) {
    const View& initial = operand(e, 0);
    if (can_take_over(g_.operand(e, 0))) {
      const auto& writers = p_.values[static_cast<size_t>(initial.root)].writers;
      for (int n : writers) p_.nodes[static_cast<size_t>(n)].whole = false;
      after = writers.back();
      return initial;
    }
    const View dest = computed(result_type(e).dtype, result_type(e).sizes);
    after = write_region(initial, dest);
    return dest;
  }

  /// `op`: what becomes of a place and an element of src: their sum (scatter_add) or the element.
  void scatter_to(EquationId e, Op op, const View& index, View src) {
    const ir::Type& t = result_type(e);
    const int dim = dim_attr(e, Attr::dim);
    const View initial = operand(e, 0);
    for (int d = 0; d < src.sizes.rank(); ++d) src.sizes[d] = index.sizes[d];
    const bool fills = src.numel() != 0 && covers(src.sizes, t.sizes, dim) && is_full(initial) &&
                       scatters_rows(index, dim, src.sizes);
    int after = -1;
    const View dest = fills ? computed(t.dtype, t.sizes) : writable(e, after);
    if (src.numel() != 0) {
      std::vector<View> operands = {converted(index, DType::I64), src};
      if (fills) operands.push_back(initial);
      View over = dest;
      over.sizes = src.sizes;
      over.strides[dim] = 0;
      push({.kind = Node::Kind::Scatter,
            .op = op,
            .dtype = t.dtype,
            .domain = src.sizes,
            .operands = std::move(operands),
            .dest = dest,
            .whole = fills,
            .after = after,
            .table = over,
            .gather_stride = dest.strides[dim],
            .gather_extent = t.sizes[dim],
            .scatter_dim = dim,
            .check = check_text(e)});
    }
    set(e, dest);
  }

  void on_scatter_add(EquationId e) {
    scatter_to(e, Op::scatter_add, operand(e, 1), operand(e, 2));
  }
  void on_scatter(EquationId e) { scatter_to(e, Op::scatter, operand(e, 1), operand(e, 2)); }
  void on_index_add(EquationId e) {
    const View& src = operand(e, 2);
    if (src.numel() == 0) check_index(e, operand(e, 1));
    scatter_to(e, Op::scatter_add, along(operand(e, 1), dim_attr(e, Attr::dim), src.sizes), src);
  }

  // --- shape
  /// The result of concatenation `e`, of which products may write parts before the others are
  /// known.
  const View& joined(EquationId e) {
    if (!is_known(e)) set(e, fresh(e));
    return views_[g_.result(e)];
  }

  /// f(operand, its part of `joined`) for the operands of concatenation `e`.
  template <class F>
  void for_each_part(EquationId e, F f) {
    const View dest = joined(e);
    const int dim = dim_attr(e, Attr::dim);
    int64_t at = 0;
    for (ValueId operand : g_.operands(e)) {
      const Shape& sizes = g_.type(operand).sizes;
      if (sizes.rank() != dest.sizes.rank()) continue;  // ATen's legacy empty tensor
      f(operand, sliced(dest, dim, at, at + sizes[dim], 1));
      at += sizes[dim];
    }
  }

  void on_cat(EquationId e) {
    for_each_part(e, [&](ValueId operand, const View& part) {
      if (views_[operand] != part) write_region(views_[operand], part);
    });
  }

  void on_pad(EquationId e) {
    const ir::Type& t = result_type(e);
    const auto& padding = dims_attr(e, Attr::padding);
    const View& self = operand(e, 0);
    const Number& value = g_.attr<Number>(e, Attr::value);
    const View dest = computed(t.dtype, t.sizes);
    View inner = dest;  // shrinks dim by dim; what is cut off is filled
    for (int d = 0; d < t.rank(); ++d) {
      const int64_t before = padding[2 * static_cast<size_t>(d)], end = before + self.sizes[d];
      for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, before}, {end, t.sizes[d]}}) {
        if (from >= to) continue;
        const View part = sliced(inner, d, from, to, 1);
        write_region(filled(value, t.dtype, part.sizes), part);
      }
      inner = sliced(inner, d, before, end, 1);
    }
    write_region(self, inner);
    set(e, dest);
  }

  void scatter(EquationId e, const View& part) {
    const int copy = write_region(operand(e, 0), whole(part.root, result_type(e).sizes));
    write_region(operand(e, 1), part, copy);
    set(e, whole(part.root, result_type(e).sizes));
  }

  View fresh(EquationId e) { return computed(result_type(e).dtype, result_type(e).sizes); }

  void on_slice_scatter(EquationId e) {
    scatter(e, sliced(fresh(e), dim_attr(e, Attr::dim), size_attr(e, Attr::start),
                      size_attr(e, Attr::end), size_attr(e, Attr::step)));
  }
  void on_diagonal_scatter(EquationId e) {
    scatter(e, diagonal(fresh(e), size_attr(e, Attr::offset), dim_attr(e, Attr::dim0),
                        dim_attr(e, Attr::dim1)));
  }
  void on_as_strided_scatter(EquationId e) {
    scatter(e, {fresh(e).root, size_attr(e, Attr::offset), operand(e, 1).sizes,
                Shape(dims_attr(e, Attr::strides))});
  }

  void on_custom_operator(EquationId e) {
    Node n{.kind = Node::Kind::External, .op = Op::custom_operator};
    n.name = g_.attr<std::string>(e, Attr::operator_name);
    n.numbers = g_.attr<std::string>(e, Attr::arguments);
    for (ValueId operand : g_.operands(e)) {
      const View v = stored(views_[operand]);
      n.operands.push_back(is_linear(v) ? v : copied(v));
    }
    const int id = static_cast<int>(p_.nodes.size());
    for (ValueId result : g_.results(e)) {
      const ir::Type& t = g_.type(result);
      n.results.push_back(views_[result] = computed(t.dtype, t.sizes));
      p_.values[static_cast<size_t>(n.results.back().root)].writers.push_back(id);
    }
    n.dest = n.results[0];
    n.domain = n.dest.sizes;
    n.dtype = dtype(n.dest);
    p_.nodes.push_back(std::move(n));
  }

  // --- reductions
  void on_reduction(EquationId e) {
    const ir::Type& t = result_type(e);
    const Combine combine = combine_of(g_.op(e));
    const bool position = combine == Combine::ArgMax || combine == Combine::ArgMin;
    View x = operand(e, 0);
    if (!position) x = converted(x, t.dtype);
    const ir::Dims& dims = dims_attr(e, Attr::dims);
    const bool neighbours = dims.back() - dims[0] + 1 == static_cast<int64_t>(dims.size());
    Reduction r{.combine = combine, .dtype = dtype(x)};
    if (!neighbours) x = reduced_last(x, dims);
    split_sizes(r, x.sizes, neighbours ? dims[0] : Dim(x.sizes.rank() - dims.size()),
                neighbours ? dims.back() : Dim(x.sizes.rank() - 1));
    const ir::ReductionOrder order = ir::reduction_order(dims_attr(e, Attr::order), r.n);
    r.lanes = order.lanes;
    r.block = position ? std::max<int64_t>(r.n, 1) : order.block;
    if (r.n <= 1) return set(e, trivial(r, x, t));
    if (r.inner != 1 && (position || r.lanes != 1)) {
      x = reduced_last(x, dims);
      r.outer *= r.inner;
      r.inner = 1;
    }
    set(e, *reshaped(r.inner == 1 ? row_reduction(r, x, t) : column_reduction(r, x, t), t.sizes));
  }

  static void split_sizes(Reduction& r, const Shape& sizes, int64_t first, int64_t last) {
    for (int d = 0; d < sizes.rank(); ++d)
      (d < first ? r.outer : d <= last ? r.n : r.inner) *= int64_t{sizes[d]};
  }

  static View reduced_last(const View& x, const ir::Dims& dims) {
    std::vector<Dim> order;
    for (int d = 0; d < x.sizes.rank(); ++d)
      if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
    order.insert(order.end(), dims.begin(), dims.end());
    return permuted(x, order);
  }

  /// Over no or one element.
  View trivial(const Reduction& r, const View& x, const ir::Type& t) {
    const bool position = r.combine == Combine::ArgMax || r.combine == Combine::ArgMin;
    if (position) return filled(0, t.dtype, t.sizes);
    const Number identity = identity_of(r.combine, t.dtype);
    if (r.n == 0) return filled(identity, t.dtype, t.sizes);
    const View only = reshape(x, t.sizes);
    if (r.combine != Combine::Sum) return only;  // +0 + x differs from x where x is -0
    return pointwise(Op::add, {filled(identity, t.dtype, t.sizes), only}, t.dtype, t.sizes);
  }

  View reduce_node(Node::Kind kind, Reduction r, const View& x, DType type, const Shape& sizes) {
    const View dest = computed(type, sizes);
    const View operand = uneven_inside(x, r.n, r.inner) ? copied(x) : x;
    push({.kind = kind,
          .op = Op::sum,
          .dtype = type,
          .domain = x.sizes,
          .operands = {operand},
          .dest = dest,
          .name = "reduce",
          .reduction = r});
    return dest;
  }

  View row_reduction(Reduction r, const View& x, const ir::Type& t) {
    if (r.blocks() == 1 || r.outer >= kManyRuns)
      return reduce_node(Node::Kind::RowReduce, r, x, t.dtype, {r.outer});
    const View partial = reduce_node(Node::Kind::RowPartial, r, x, t.dtype, {r.outer, r.blocks()});
    return combine_row(r, partial, t.dtype);
  }

  /// [outer, blocks] -> [outer], by pairs of neighbours: blocks of one element.
  View combine_row(Reduction r, const View& partial, DType type) {
    r.outer = partial.sizes[0], r.n = partial.sizes[1], r.inner = 1;
    r.lanes = 1, r.block = 1;
    return reduce_node(Node::Kind::RowReduce, r, partial, type, {r.outer});
  }

  View column_reduction(const Reduction& r, const View& x, const ir::Type& t) {
    const View partial =
        reduce_node(Node::Kind::ColPartial, r, x, t.dtype, {r.outer, r.blocks(), r.inner});
    if (r.blocks() > kMaxTree) {
      const View last = permuted(partial, std::array<Dim, 3>{0, 2, 1});
      return combine_row(r, *reshaped(copied(last), {r.outer * r.inner, r.blocks()}), t.dtype);
    }
    std::vector<View> level;
    for (int64_t b = 0; b < r.blocks(); ++b) level.push_back(sliced(partial, 1, b, b + 1, 1));
    while (level.size() > 1) level = pairs(level, combining_op(r.combine), t.dtype);
    return level[0];
  }

  std::vector<View> pairs(const std::vector<View>& level, Op op, DType type) {
    std::vector<View> out;
    for (size_t i = 0; i + 1 < level.size(); i += 2)
      out.push_back(pointwise(op, {level[i], level[i + 1]}, type, level[i].sizes));
    if (level.size() % 2 == 1) out.push_back(level.back());
    return out;
  }

  // --- contractions
  static View batched(const View& v) {
    if (v.sizes.rank() == 3) return v;
    return {v.root, v.offset, {1, v.sizes[0], v.sizes[1]}, {0, v.strides[0], v.strides[1]}};
  }

  /// Whether `addend`, a matrix, is one contiguous row in memory that all rows share.
  bool is_bias(const View& addend) const {
    return addend.strides[0] == 0 && addend.strides[1] == 1 &&
           !p_.values[static_cast<size_t>(addend.root)].formula();
  }

  void library_contraction(EquationId e, std::vector<View> operands, const View& dest,
                           const View* addend) {
    const bool bias = addend && is_bias(*addend), accumulate = addend && !bias;
    if (bias) operands.push_back(*addend);
    const int copy = accumulate ? write_region(*addend, dest) : -1;
    push({.kind = Node::Kind::Matmul,
          .op = g_.op(e),
          .dtype = DType::F32,
          .domain = dest.sizes,
          .operands = std::move(operands),
          .dest = dest,
          .whole = !accumulate,
          .after = copy,
          .accumulate = accumulate});
  }

  /// The product of operands number `first` and `first + 1` of `e`.
  void contraction(EquationId e, int first, const View* addend) {
    const ir::Type& t = result_type(e);
    const View a = batched(operand(e, first)), b = batched(operand(e, first + 1));
    const int64_t k = a.sizes[2];
    const View dest = computed(t.dtype, t.sizes);
    set(e, dest);
    if (k == 0) {
      write_region(addend ? *addend : filled(0, t.dtype, t.sizes), dest);
    } else if (is_library_contraction(t.dtype, g_.attr<std::string>(e, Attr::algorithm))) {
      if (!addend && heads_product(e, dest)) return;
      library_contraction(e, {matrix(e, first), matrix(e, first + 1)}, dest, addend);
    } else {
      Node n{.kind = Node::Kind::TiledMatmul, .op = g_.op(e), .dtype = t.dtype, .domain = t.sizes};
      n.operands = {stored(a), stored(b.strides[2] == 1 ? b : copied(b))};
      if (addend) n.operands.push_back(stored(*addend));
      n.dest = dest;
      push(std::move(n));
    }
  }

  /// `from` as free view `e` shows it; contiguous where that is no strided view.
  Shown planned_view(EquationId e, const Shown& from) const {
    const Shape& sizes = result_type(e).sizes;
    if (g_.op(e) != Op::permute && g_.op(e) != Op::expand && g_.op(e) != Op::view)
      return {whole(from.view->root, sizes), {}};
    Shown to = shown(g_, e, from);
    if (!to.view) to.view = whole(from.view->root, sizes);
    return to;
  }

  /// The strides in which contractions read `v`, whatever the partition saved: what may be saved as
  /// itself counts as contiguous, though here it may be a part of something that was saved instead.
  Shown layout(ValueId v) const {
    ir::InlineVector<EquationId, 4> chain;
    for (EquationId e = g_.producer(v); e.valid() && ir::is_free_view(g_, e); e = g_.producer(v)) {
      chain.push_back(e);
      v = g_.operand(e, 0);
    }
    Shown out{g_.producer(v).valid() ? whole(-1, g_.type(v).sizes) : views_[v], {}};
    for (size_t i = chain.size(); i-- > 0;) out = planned_view(chain[i], out);
    return out;
  }

  static bool same_strides(const View& a, const View& b) {
    for (int d = 0; d < a.sizes.rank(); ++d)
      if (a.sizes[d] > 1 && a.strides[d] != b.strides[d]) return false;
    return true;
  }

  /// A copy of `v` with these strides, which are dense but for dims that repeat.
  View copied_to(View v, const ir::Strides& strides) {
    const Shape sizes = v.sizes;
    for (int d = 0; d < sizes.rank(); ++d)
      if (strides[d] == 0) v.sizes[d] = 1;
    View dest = computed(dtype(v), v.sizes);
    dest.strides = strides;
    write_region(v, dest);
    dest.sizes = sizes;
    return dest;
  }

  /// Operand `i` of a contraction as the library reads it. The bits of a product may depend on the
  /// strides of its operands, so these must not depend on what was saved.
  View matrix(EquationId e, int i) {
    const View v = batched(operand(e, i)), planned = batched(*layout(g_.operand(e, i)).view);
    if (!is_library_matrix(planned)) return copied(v);
    return same_strides(v, planned) ? stored(v) : copied_to(v, planned.strides);
  }
  /// An operand in memory.
  View stored(const View& v) {
    return p_.values[static_cast<size_t>(v.root)].formula() ? copied(v) : v;
  }

  // --- products of merged batches
  /// A product that reads and writes its matrices where they lie, if the operands are laid out so.
  bool heads_product(EquationId e, const View& dest) {
    const ValueId a = g_.operand(e, 0), b = g_.operand(e, 1);
    const auto planned = heads_layout(layout(a), layout(b));
    if (!planned) return false;
    Node n{.kind = Node::Kind::Matmul, .op = g_.op(e), .dtype = DType::F32, .stride_free = true};
    n.operands = {heads(a, planned->a), heads(b, planned->b)};
    n.domain = n.operands[0].sizes;
    n.domain[3] = n.operands[1].sizes[3];
    if (!place_result(e, n)) n.dest = *reshaped(dest, n.domain);
    push(std::move(n));
    return true;
  }

  /// Operand `v` of such a product.
  View heads(ValueId v, const View& planned) {
    const auto split = splits_.find(v.index);
    const bool is_split = split != splits_.end() && split->second.sizes == planned.sizes;
    const View now = is_split ? split->second : *reshaped(views_[v], planned.sizes);
    const bool formula = p_.values[static_cast<size_t>(now.root)].formula();
    return !formula && fits_layout(now, planned) ? now : copied_to(now, dense(planned));
  }

  /// Contiguous strides of such matrices, rows or columns first as `planned` has them.
  static ir::Strides dense(const View& planned) {
    const std::array<Dim, 4> transposed = {0, 1, 3, 2};
    if (planned.strides[3] == 1) return ir::contiguous_strides(planned.sizes);
    return permuted(whole(-1, permuted(planned, transposed).sizes), transposed).strides;
  }

  /// Lets product `n`, of equation `e`, write its result to where views and a concatenation would
  /// bring it, if no copy is needed then.
  bool place_result(EquationId e, Node& n) {
    if (!paths_) paths_.emplace(g_);
    const auto path = paths_->of(g_.result(e));
    if (!path) return false;
    const View end = end_of(*path);
    std::vector<View> views = {end};  // of the path's values, from its end
    for (size_t i = path->views.size(); i-- > 0;) {
      const auto from = before_view(path->views[i], views.back(), i == 0 ? n.domain : Shape());
      if (!from) return false;
      views.push_back(*from);
    }
    const auto dest = reshaped(views.back(), n.domain);
    if (!dest || dest->strides[3] != 1 || !is_library_matrix(*dest)) return false;
    for (size_t i = 0; i < path->views.size(); ++i)
      set(path->views[path->views.size() - 1 - i], views[i]);
    if (path->zero_add.valid()) set(path->zero_add, end);
    if (path->views.empty()) views_[path->end] = end;
    n.dest = *dest;
    n.whole = !path->cat.valid();
    n.plus_zero = path->zero_add.valid();
    return true;
  }

  /// Where the last value of a path is to lie.
  View end_of(const ResultPath& path) {
    const ir::Type& t = g_.type(path.end);
    if (!path.cat.valid()) return computed(t.dtype, t.sizes);
    const ValueId part = path.zero_add.valid() ? g_.result(path.zero_add) : path.end;
    View end;
    for_each_part(path.cat, [&](ValueId operand, const View& region) {
      if (operand == part) end = region;
    });
    return end;
  }

  /// The operand of view or permute `e` where its result lies in `to`; perhaps as `split` sizes.
  std::optional<View> before_view(EquationId e, const View& to, const Shape& split) const {
    const Shape& sizes = g_.type(g_.operand(e, 0)).sizes;
    if (g_.op(e) == Op::permute) {
      const ir::Dims& dims = dims_attr(e, Attr::dims);
      std::vector<Dim> back(dims.size());
      for (size_t d = 0; d < dims.size(); ++d) back[static_cast<size_t>(int64_t{dims[d]})] = Dim(d);
      return permuted(to, back);
    }
    if (auto from = reshaped(to, sizes)) return from;
    return split.rank() > 0 ? reshaped(to, split) : std::nullopt;
  }

  void on_mm(EquationId e) { contraction(e, 0, nullptr); }
  void on_addmm(EquationId e) {
    const View c = operand(e, 0);
    contraction(e, 1, &c);
  }

  // --- outputs
  /// Results have memory of their own, and what is written may have been overwritten by then.
  static bool may_be_input(const ir::Output& out, int input) {
    if (out.role == ir::Role::MutatedInput) return out.target == input;
    return out.role != ir::Role::Result;
  }

  void output(int o) {
    const ir::Output& out = g_.outputs()[static_cast<size_t>(o)];
    p_.outputs.emplace_back();
    if (g_.type(out.value).is_token) return;
    const View& v = views_[out.value];
    Value& root = p_.values[static_cast<size_t>(v.root)];
    if (root.kind == Value::Kind::Input && may_be_input(out, root.index) &&
        is_input(v, root.index, out.strides)) {
      p_.outputs.back().from_input = root.index;
    } else if (root.kind == Value::Kind::Computed && root.output < 0 &&
               fills(v, out.strides, root)) {
      root.output = o;
      p_.outputs.back().value = v.root;
    } else {
      View dest = computed(root.dtype, v.sizes);
      dest.strides = out.strides;
      p_.values[static_cast<size_t>(dest.root)].output = o;
      p_.outputs.back().value = dest.root;
      write_region(v, dest);
    }
  }

  /// Whether `v` is all of input `i`, as an output of these strides would be laid out.
  bool is_input(const View& v, int i, const ir::Strides& strides) const {
    const ir::Input& in = g_.inputs()[static_cast<size_t>(i)];
    if (v.offset != 0 || v.sizes != g_.type(in.value).sizes) return false;
    return same_steps(v.sizes, v.strides, in.strides) && same_steps(v.sizes, strides, in.strides);
  }

  /// Whether the root's own memory, in its own order, is the output's memory.
  static bool fills(const View& v, const ir::Strides& strides, const Value& root) {
    if (v.offset != 0 || v.numel() != root.numel) return false;
    if (!same_steps(v.sizes, v.strides, strides)) return false;
    // A permutation of a contiguous tensor: sorted by stride it is linear.
    return is_linear(permuted(v, ir::memory_order(v.strides)));
  }

  static bool same_steps(const Shape& sizes, const ir::Strides& a, const ir::Strides& b) {
    for (int d = 0; d < sizes.rank(); ++d)
      if (sizes[d] != 1 && a[d] != b[d]) return false;
    return true;
  }

  const Graph& g_;
  ir::ValueMap<View> views_;
  std::map<std::tuple<DType, Number::Kind, int64_t>, int> fills_;  // constants already made
  std::map<uint32_t, View> splits_;   // by value that is a copy: see Shown::split
  std::optional<ResultPaths> paths_;  // made when first needed
  std::vector<uint32_t> uses_;        // of each value; likewise
  Program p_;
};

Maker::Rule Maker::rule_of(Op op) {
  static const std::array<Rule, ir::kOpCount> table = [] {
    std::array<Rule, ir::kOpCount> t{};
    const auto set = [&](Op o, Rule r) { t[static_cast<size_t>(o)] = r; };
    for (int i = 0; i < ir::kOpCount; ++i) {
      const auto o = static_cast<Op>(i);
      if (ir::is_composite(o)) continue;
      if (ir::is_pointwise(o)) set(o, &Maker::on_pointwise);
      if (ir::info(o).cls == ir::OpClass::Reduction) set(o, &Maker::on_reduction);
    }
    set(Op::clone, &Maker::on_identity);
    set(Op::stop_gradient, &Maker::on_identity);
    set(Op::view, &Maker::on_view);
    set(Op::permute, &Maker::on_view);
    set(Op::expand, &Maker::on_expand);
    set(Op::slice, &Maker::on_slice);
    set(Op::diagonal, &Maker::on_diagonal);
    set(Op::as_strided, &Maker::on_as_strided);
    set(Op::flip, &Maker::on_flip);
    set(Op::full, &Maker::on_full);
    set(Op::iota, &Maker::on_iota);
    set(Op::random_bits, &Maker::on_random_bits);
    set(Op::gather, &Maker::on_gather);
    set(Op::index_select, &Maker::on_index_select);
    set(Op::scatter_add, &Maker::on_scatter_add);
    set(Op::scatter, &Maker::on_scatter);
    set(Op::index_add, &Maker::on_index_add);
    set(Op::cat, &Maker::on_cat);
    set(Op::pad, &Maker::on_pad);
    set(Op::slice_scatter, &Maker::on_slice_scatter);
    set(Op::diagonal_scatter, &Maker::on_diagonal_scatter);
    set(Op::as_strided_scatter, &Maker::on_as_strided_scatter);
    set(Op::mm, &Maker::on_mm);
    set(Op::bmm, &Maker::on_mm);
    set(Op::addmm, &Maker::on_addmm);
    set(Op::custom_operator, &Maker::on_custom_operator);
    return t;
  }();
  return table[static_cast<size_t>(op)];
}

struct CombineRow {
  Op reduction, pair;
};
constexpr std::array<CombineRow, 8> kCombines = {{{Op::sum, Op::add},
                                                  {Op::prod, Op::mul},
                                                  {Op::amax, Op::maximum},
                                                  {Op::amin, Op::minimum},
                                                  {Op::any, Op::logical_or},
                                                  {Op::all, Op::logical_and},
                                                  {Op::argmax, Op::clone},
                                                  {Op::argmin, Op::clone}}};

Number extreme(DType dtype, bool low) {
  if (ir::is_floating(dtype)) {
    const double inf = std::numeric_limits<double>::infinity();
    return low ? -inf : inf;
  }
  if (dtype == DType::Bool) return !low;
  if (dtype == DType::U8) return low ? 0 : 255;
  const auto bits = static_cast<int>(ir::size_of(dtype)) * 8;
  const auto min = static_cast<int64_t>(~uint64_t{0} << (bits - 1));
  return low ? min : ~min;
}

}  // namespace

Combine combine_of(Op op) {
  for (size_t i = 0; i < kCombines.size(); ++i)
    if (kCombines[i].reduction == op) return static_cast<Combine>(i);
  TANDEM_CHECK(false, "not a reduction");
  return Combine::Sum;
}

Op combining_op(Combine combine) { return kCombines[static_cast<size_t>(combine)].pair; }

Number identity_of(Combine combine, DType dtype) {
  switch (combine) {
    case Combine::Prod:
      return ir::is_floating(dtype) ? Number(1.0) : Number(1);
    case Combine::Max:
      return extreme(dtype, true);
    case Combine::Min:
      return extreme(dtype, false);
    case Combine::All:
      return true;
    case Combine::Any:
      return false;
    default:
      return ir::is_floating(dtype) ? Number(0.0) : Number(0);
  }
}

Program make_program(const Graph& graph) { return Maker(graph).run(); }

}  // namespace tandem::codegen
