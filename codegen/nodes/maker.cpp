// Values and nodes, inputs and outputs of a program in the making, and the table of rules.
#include "codegen/nodes/maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <ranges>

#include "ir/base/error.h"
#include "ir/strides.h"

namespace tandem::codegen {
namespace {

using Rule = void (*)(Maker&, EquationId);

/// Null for what stands in no graph that is lowered: composites, and what is inlined.
template <Op op, ir::OpClass cls, ir::OpLevel level, unsigned traits>
constexpr Rule rule_of() {
  if constexpr (level == ir::OpLevel::Composite || (traits & ir::row::Inlined) != 0)
    return nullptr;
  else if constexpr (cls == ir::OpClass::Pointwise)
    return pointwise_nodes;
  else if constexpr (cls == ir::OpClass::Reduction)
    return reduction_nodes;
  else if constexpr (cls == ir::OpClass::Scan)
    return scan_nodes;
  else if constexpr (cls == ir::OpClass::Linalg)
    return linalg_nodes;
  else
    return nodes_of<op>;
}

using enum ir::row::Trait;
constexpr std::array<Rule, ir::kOpCount> kRules = {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  rule_of<Op::name, ir::OpClass::class_, ir::OpLevel::level, (traits)>(),
#include "ir/ops.def"
};

bool is_needed(const Node& n, const Table<RootId, bool>& needed) {
  bool any = n.only_checks || n.ordered;
  n.for_each_written([&](RootId r) { any = any || needed[r]; });
  return any;
}

/// By root: whether an output, or a node that is needed, reads it.
Table<RootId, bool> needed_roots(const Program& p) {
  Table<RootId, bool> needed(p.roots.size());
  for (const ProgramOutput& o : p.outputs)
    if (o.root.valid()) needed[o.root] = true;
  for (const Node& n : std::views::reverse(p.nodes)) {
    if (!is_needed(n, needed)) continue;
    for (const View& v : n.operands) needed[v.root] = true;
    if (n.table.root.valid()) needed[n.table.root] = true;
  }
  return needed;
}

bool same_steps(const Shape& sizes, const ir::Strides& a, const ir::Strides& b) {
  for (int d = 0; d < sizes.rank(); ++d)
    if (sizes[d] != 1 && a[d] != b[d]) return false;
  return true;
}

/// Results have memory of their own, and what is written may have been overwritten by then.
bool may_be_input(const ir::Graph& graph, int output, int input) {
  const ir::Output& out = graph.outputs()[static_cast<size_t>(output)];
  if (out.role == ir::Role::MutatedInput) return out.target == input;
  const auto& grads = graph.epilogue.grads;  // each is to be added to, in place
  const bool stays = std::ranges::find(grads, output, &ir::GradWrite::output) != grads.end();
  return out.role != ir::Role::Result && !stays;
}

/// Dimensions in the order in which to copy: that of what is read, but what is read again and again
/// (a broadcast row, a fill) in that of what is written.
ir::Axes copy_order(const View& from, const View& to, bool is_fill) {
  bool repeats = is_fill;
  for (int d = 0; d < from.sizes.rank(); ++d)
    repeats = repeats || (from.sizes[d] != 1 && from.strides[d] == 0);
  return ir::memory_order(repeats ? to.strides : from.strides);
}

/// Whether the root's own memory, in its own order, is the output's memory.
bool fills(const View& v, const ir::Strides& strides, const Root& root) {
  return same_steps(v.sizes, v.strides, strides) && shows_all(v, root);
}

}  // namespace

bool shows_all(const View& v, const Root& root) {
  return v.offset == 0 && v.numel() == root.numel &&
         ir::extent(v.sizes, v.strides) == root.numel + root.gaps &&
         !ir::self_overlaps(v.sizes, v.strides);
}

const Node* begun_as_copy(const Table<NodeId, Node>& nodes, const Root& root) {
  if (root.writers.empty()) return nullptr;
  const Node& first = nodes[root.writers[0]];
  return first.is_copy() ? &first : nullptr;
}

Maker::Maker(const Graph& graph) : g_(graph), views_(graph) {
  p_.roots.reserve(graph.num_values());
  p_.nodes.reserve(graph.num_equations());
}

Program Maker::run() {
  for (size_t i = 0; i < g_.inputs().size(); ++i) input(static_cast<int>(i));
  for (size_t i = 0; i < g_.num_equations(); ++i) {
    const EquationId e = g_.equation_id(i);
    const Rule rule = kRules[static_cast<size_t>(g_.op(e))];
    TANDEM_CHECK(rule != nullptr, "lowering has no rule for " + std::string(ir::name(g_.op(e))));
    late_ = is_late(e);
    rule(*this, e);
  }
  for (size_t o = 0; o < g_.outputs().size(); ++o) output(static_cast<int>(o));
  remove_dead_nodes();
  return std::move(p_);
}

// --- the graph

std::string Maker::check_text(EquationId e) const {
  const auto at = g_.location(e);
  const bool is_known = at && !at->function.empty();
  const std::string_view op = is_known ? at->function : ir::name(g_.op(e));
  return at ? fmt::format("{} ({}:{})", op, at->file, at->line) : std::string(op);
}

bool Maker::is_used_up(ValueId v) {
  const EquationId e = g_.producer(v);
  if (!e.valid() || ir::is_view(g_.op(e))) return false;
  if (uses_.empty()) uses_ = use_counts(g_);
  return uses_[v.index] == 1;
}

namespace {

/// What `v` is a view of.
ValueId behind_views(const Graph& g, ValueId v) {
  for (EquationId e = g.producer(v); e.valid() && ir::is_view(g.op(e)); e = g.producer(v))
    v = g.operand(e, 0);
  return v;
}

/// By value that is no view: the last equation that reads it or a view of it.
std::vector<uint32_t> last_readers(const Graph& g) {
  std::vector<uint32_t> last(g.num_values(), 0);
  for (uint32_t i = 0; i < g.num_equations(); ++i)
    if (!ir::is_view(g.op({i})))
      for (const ValueId v : g.operands({i})) last[behind_views(g, v).index] = i;
  for (const ir::Output& out : g.outputs())
    last[behind_views(g, out.value).index] = static_cast<uint32_t>(g.num_equations());
  return last;
}

}  // namespace

bool Maker::is_read_after(ValueId v, EquationId e) {
  if (last_readers_.empty()) last_readers_ = last_readers(g_);
  return last_readers_[behind_views(g_, v).index] > e.index;
}

const ResultPaths& Maker::paths() {
  if (!paths_) paths_.emplace(g_);
  return *paths_;
}

bool Maker::is_late(EquationId e) const {
  return e.valid() && g_.level == ir::Level::Forward && g_.equation(e).is_backward;
}

void Maker::input(int i) {
  const ir::Input& in = g_.inputs()[static_cast<size_t>(i)];
  const ir::Type& t = g_.type(in.value);
  if (t.is_token) return;
  const int64_t n = ir::numel(t.sizes);
  const RootId root = add({.kind = Root::Kind::Input, .dtype = t.dtype, .numel = n, .index = i});
  views_[in.value] = {root, 0, t.sizes, in.strides};
}

void Maker::output(int o) {
  const ir::Output& out = g_.outputs()[static_cast<size_t>(o)];
  p_.outputs.emplace_back();
  if (g_.type(out.value).is_token) return;
  const View& v = views_[out.value];
  Root& root = root_of(v);
  late_ = is_late(g_.producer(out.value));
  if (root.kind == Root::Kind::Input && may_be_input(g_, o, root.index) &&
      is_input(v, root.index, out.strides)) {
    p_.outputs.back().from_input = root.index;
  } else if (root.kind == Root::Kind::Computed && root.output < 0 && fills(v, out.strides, root)) {
    root.output = o;
    p_.outputs.back().root = v.root;
  } else {
    View dest = computed(root.dtype, v.sizes);
    dest.strides = out.strides;
    root_of(dest).output = o;
    p_.outputs.back().root = dest.root;
    write_region(v, dest);
  }
}

/// Whether `v` is all of input `i`, as an output of these strides would be laid out.
bool Maker::is_input(const View& v, int i, const ir::Strides& strides) const {
  const ir::Input& in = g_.inputs()[static_cast<size_t>(i)];
  if (v.offset != 0 || v.sizes != g_.type(in.value).sizes) return false;
  return same_steps(v.sizes, v.strides, in.strides) && same_steps(v.sizes, strides, in.strides);
}

// --- values

View Maker::computed(DType dtype, const Shape& sizes) {
  const int64_t n = ir::numel(sizes);
  return whole(add({.kind = Root::Kind::Computed, .dtype = dtype, .numel = n}), sizes);
}

View Maker::filled(const Number& number, DType dtype, const Shape& sizes) {
  const int64_t bits =
      number.is_float() ? std::bit_cast<int64_t>(number.to_double()) : number.to_int();
  const auto [at, made] =
      fills_.try_emplace(std::tuple(dtype, number.kind(), bits), p_.roots.next());
  if (made) add({.kind = Root::Kind::Full, .dtype = dtype, .numel = 1, .first = number});
  return {at->second, 0, sizes, ir::Strides::filled(sizes.rank(), 0)};
}

const View* Maker::split_of(ValueId v) const {
  const auto at = splits_.find(v.index);
  return at == splits_.end() ? nullptr : &at->second;
}

NodeId Maker::giver(ValueId token) const {
  const auto at = givers_.find(token.index);
  return at == givers_.end() ? NodeId() : at->second;
}

// --- nodes

NodeId Maker::push(Node n) {
  if (n.dest.numel() == 0) return {};
  if (n.name.empty()) n.name = std::string(ir::name(n.op));
  n.late = late_;
  const NodeId id = p_.nodes.next();
  root_of(n.dest).writers.push_back(id);
  p_.nodes.push_back(std::move(n));
  return id;
}

NodeId Maker::push_external(Node n) {
  n.late = late_;
  const NodeId id = p_.nodes.next();
  for (const View& v : n.results) root_of(v).writers.push_back(id);
  p_.nodes.push_back(std::move(n));
  return id;
}

View Maker::pointwise(Op op, std::vector<View> operands, DType type, const Shape& sizes) {
  const View dest = computed(type, sizes);
  push({.op = op, .dtype = type, .domain = sizes, .operands = std::move(operands), .dest = dest});
  return dest;
}

View Maker::taken_apart(const View& v) {
  const View copy = copied(v);
  node(root_of(copy).writers[0]).alone = true;
  return copy;
}

View Maker::converted(const View& v, DType to) {
  return dtype(v) == to ? v : pointwise(Op::convert, {v}, to, v.sizes);
}

View Maker::reshape(const View& v, const Shape& sizes) {
  if (auto r = reshaped(v, sizes)) return *r;
  return *reshaped(copied(v), sizes);
}

NodeId Maker::write_region(View v, View dest, NodeId after) {
  const ir::Axes order = copy_order(v, dest, is_full(v));
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

void Maker::remove_dead_nodes() {
  const Table<RootId, bool> needed = needed_roots(p_);
  Table<NodeId, NodeId> renamed(p_.nodes.size());
  for (Root& r : p_.roots) r.writers.clear();
  NodeId kept{0};
  for (NodeId old : p_.nodes.ids()) {
    if (!is_needed(p_.nodes[old], needed)) continue;
    renamed[old] = kept;
    p_.nodes[old].for_each_written([&](RootId r) { p_.roots[r].writers.push_back(kept); });
    if (kept != old) p_.nodes[kept] = std::move(p_.nodes[old]);
    Node& n = p_.nodes[kept];
    if (n.after.valid()) n.after = renamed[n.after];
    ++kept.index;
  }
  p_.nodes.resize(kept.index);
}

Program make_program(const Graph& graph) { return Maker(graph).run(); }

}  // namespace tandem::codegen
