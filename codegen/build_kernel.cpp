// Emits a group: unit and row loops from the schedule; in each row the passes, with row values
// between them and element values inside them.
#include "codegen/build_kernel.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "codegen/costs.h"
#include "codegen/passes.h"
#include "codegen/schedule.h"
#include "ir/error.h"

namespace tandem::codegen {
namespace {

using ir::Op;

double cost_per_element(const Program& p, const Group& g, const std::vector<bool>& is_stored) {
  double cost = 0;
  for (int n : g.nodes) {
    const Node& node = p.nodes[static_cast<size_t>(n)];
    if (is_row_node(node, g.domain)) continue;
    cost += node_cost(node);
    if (is_stored[static_cast<size_t>(node.dest.root)]) cost += kMemoryCost;
    for (const View& v : node.operands) {
      const Value& value = p.values[static_cast<size_t>(v.root)];
      if (value.formula()) continue;
      cost += value.numel * 2 > g.domain.total ? kMemoryCost / 2 : kLoadCost / 2;
    }
  }
  return cost;
}

class Emitter {
 public:
  Emitter(const Program& p, const Group& g, const std::vector<bool>& is_stored)
      : p_(p), g_(g), is_stored_(is_stored), w_(p) {
    cost_ = cost_per_element(p, g, is_stored);
    s_ = make_schedule(g.domain, cost_, w_);
    passes_ = make_passes(p, g, s_.dims.cols, is_stored);
    values_.assign(g.nodes.size(), -1);
    locals_.assign(g.nodes.size(), -1);
    for (size_t i = 0; i < g.nodes.size(); ++i)
      if (node(i).whole && node(i).kind != Node::Kind::ColPartial &&
          node(i).kind != Node::Kind::RowPartial)
        position_[node(i).dest.root] = i;
  }

  LaunchDraft run() {
    declare_locals();
    clear_column_sums();
    for (int l : s_.rows) w_.begin(l);
    for (size_t pass = 0; pass < passes_.passes.size(); ++pass) {
      for (int i : passes_.passes[pass].rows) row_node(static_cast<size_t>(i));
      run_pass(static_cast<int>(pass));
    }
    for (size_t l = s_.rows.size(); l-- > 0;) w_.end(s_.rows[l]);
    store_column_sums();
    const double elements = static_cast<double>(g_.domain.total) / static_cast<double>(s_.units);
    return w_.take(kernel_name(), static_cast<int64_t>(kThreadCost / (elements * cost_ + 50)) + 1);
  }

 private:
  using Key = std::pair<int, std::pair<int64_t, std::vector<int64_t>>>;

  const Node& node(size_t i) const { return p_.nodes[static_cast<size_t>(g_.nodes[i])]; }
  bool is_row(size_t i) const { return is_row_node(node(i), g_.domain); }
  bool is_stored(const Node& n) const {
    return !n.whole || is_stored_[static_cast<size_t>(n.dest.root)];
  }
  size_t row_dims() const { return s_.dims.row_dims; }

  std::string kernel_name() const {
    std::string name;
    for (int n : g_.nodes) {
      const std::string& part = p_.nodes[static_cast<size_t>(n)].name;
      if (name.size() + part.size() > 40) return name + "_and_more";
      name += (name.empty() ? "" : "_") + part;
    }
    return name;
  }

  // --- loops over the columns of a row
  struct ColumnLoops {
    std::vector<int> open;  // outermost first; the last is the vector loop
  };

  /// Declares fresh loops over the columns and points the column dims at them.
  ColumnLoops column_loops() {
    ColumnLoops out;
    for (size_t d = row_dims(); d < s_.dims.count(); ++d) {
      const int64_t size = s_.dims.sizes[d];
      const bool innermost = d + 1 == s_.dims.count();
      if (size == 1) continue;
      const auto kind = innermost ? Loop::Kind::Vector : Loop::Kind::Serial;
      const bool chunked = innermost && s_.chunk_loop >= 0;
      const int l =
          chunked ? w_.loop(kind, s_.col_chunk, s_.chunk_loop, size) : w_.loop(kind, size);
      s_.loops[d] = {{l, 1}};
      if (chunked) s_.loops[d] = {{s_.chunk_loop, s_.col_chunk}, {l, 1}};
      out.open.push_back(l);
    }
    return out;
  }

  void open(const ColumnLoops& c) {
    for (int l : c.open) w_.begin(l);
  }
  void close(const ColumnLoops& c) {
    for (size_t i = c.open.size(); i-- > 0;) w_.end(c.open[i]);
  }

  /// The position in a local row buffer.
  Affine local_index() const {
    std::vector<DimLoops> loops(s_.loops.begin() + static_cast<ptrdiff_t>(row_dims()),
                                s_.loops.end());
    std::vector<int64_t> strides(loops.size(), 1);
    for (size_t d = loops.size(); d-- > 0;) {
      if (d + 1 < loops.size()) strides[d] = strides[d + 1] * s_.dims.sizes[row_dims() + d + 1];
      std::erase_if(loops[d], [&](const Affine::Term& t) { return t.loop == s_.chunk_loop; });
    }
    return affine(0, strides, loops);
  }

  // --- operands
  Affine element_index(const View& v) const {
    return affine(v.offset, strides_over(v, s_.dims, 0, s_.dims.count()), s_.loops);
  }
  Affine row_index(const View& v) const {
    std::vector<DimLoops> loops(s_.loops.begin(),
                                s_.loops.begin() + static_cast<ptrdiff_t>(row_dims()));
    return affine(v.offset, strides_over(v, s_.dims, 0, row_dims()), loops);
  }
  Affine index(const View& v, bool row) const { return row ? row_index(v) : element_index(v); }

  /// Whether all elements of a row are the same one.
  bool same_along_row(const View& v) const {
    const auto strides = strides_over(v, s_.dims, 0, s_.dims.count());
    return std::all_of(strides.begin() + static_cast<ptrdiff_t>(row_dims()), strides.end(),
                       [](int64_t s) { return s == 0; });
  }

  static Key key(const View& v, const Affine& index) {
    std::vector<int64_t> terms;
    for (const auto& t : index.terms) terms.push_back(t.loop), terms.push_back(t.stride);
    return {v.root, {index.offset, std::move(terms)}};
  }

  /// The value of an operand that comes from memory or is a formula, at the current loops.
  int outside(const View& v, Affine at, std::map<Key, int>& known) {
    const Value& value = p_.values[static_cast<size_t>(v.root)];
    const Key k = key(v, at);
    if (const auto found = known.find(k); found != known.end()) return found->second;
    const int i = value.kind == Value::Kind::Full   ? w_.constant(value.first, value.dtype)
                  : value.kind == Value::Kind::Iota ? w_.iota(value, std::move(at))
                                                    : w_.load(v.root, std::move(at));
    return known[k] = i;
  }

  int operand(const View& v, bool row) {
    if (const auto inner = position_.find(v.root); inner != position_.end())
      return values_[inner->second];
    if (row) return outside(v, row_index(v), row_known_);
    Affine at = element_index(v);
    if (const auto found = row_known_.find(key(v, at)); found != row_known_.end())
      return found->second;
    return outside(v, std::move(at), known_);
  }

  /// What a pass reads once per row is read before its loop.
  void load_row_operands(const Passes::Pass& pass) {
    for (int i : pass.compute)
      for (const View& v : node(static_cast<size_t>(i)).operands)
        if (!position_.contains(v.root) && same_along_row(v))
          outside(v, element_index(v), row_known_);
  }

  // --- nodes
  int compute(size_t i, bool row) {
    const Node& n = node(i);
    std::vector<int> args;
    for (const View& v : n.operands) args.push_back(operand(v, row));
    switch (n.kind) {
      case Node::Kind::Gather:
        return w_.load_at(n.table.root, index(n.table, row),
                          {args[0], n.gather_stride, n.gather_extent}, n.check);
      case Node::Kind::Random: {
        const View linear = whole(-1, n.domain);
        return w_.random_bits(n.dtype, args[0], args[1], n.random_offset, index(linear, row));
      }
      default:
        break;
    }
    if (n.op == Op::clone) return args[0];
    return w_.compute(n.op, std::move(args), n.dtype, n.check);
  }

  void row_node(size_t i) {
    values_[i] = compute(i, true);
    if (is_stored(node(i))) w_.store(node(i).dest.root, row_index(node(i).dest), values_[i]);
  }

  void element_node(size_t i, int pass) {
    const Node& n = node(i);
    values_[i] = compute(i, false);
    if (passes_.ready[i] != pass) return;
    if (is_stored(n)) w_.store(n.dest.root, element_index(n.dest), values_[i]);
    if (passes_.kept[i] && locals_[i] >= 0) w_.store_local(locals_[i], local_index(), values_[i]);
  }

  void reload(size_t i) {
    values_[i] = locals_[i] >= 0 ? w_.load_local(locals_[i], local_index())
                                 : w_.load(node(i).dest.root, element_index(node(i).dest));
  }

  // --- reductions
  void declare_locals() {
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = node(i);
      if (n.kind == Node::Kind::ColPartial)
        locals_[i] = w_.local(n.reduction.dtype, s_.col_chunk);
      else if (passes_.kept[i] && !is_stored(n))
        locals_[i] = w_.local(n.dtype, s_.col_chunk);
    }
  }

  template <class F>
  void for_each_column_sum(F f) {
    bool any = false;
    for (size_t i = 0; i < g_.nodes.size(); ++i) any |= node(i).kind == Node::Kind::ColPartial;
    if (!any) return;
    const ColumnLoops columns = column_loops();
    open(columns);
    for (size_t i = 0; i < g_.nodes.size(); ++i)
      if (node(i).kind == Node::Kind::ColPartial) f(i);
    close(columns);
  }

  void clear_column_sums() {
    for_each_column_sum([&](size_t i) {
      const Reduction& r = node(i).reduction;
      w_.store_local(locals_[i], local_index(),
                     w_.constant(identity_of(r.combine, r.dtype), r.dtype));
    });
  }

  void add_to_column_sum(size_t i) {
    const Reduction& r = node(i).reduction;
    const int sum = w_.load_local(locals_[i], local_index());
    const int x = operand(node(i).operands[0], false);
    w_.store_local(locals_[i], local_index(),
                   w_.compute(combining_op(r.combine), {sum, x}, r.dtype));
  }

  /// dest [outer, blocks, inner] at the unit's block.
  void store_column_sums() {
    for_each_column_sum([&](size_t i) {
      const Node& n = node(i);
      const size_t n_dim = row_dims() - 1;
      std::vector<int64_t> strides(s_.dims.count(), 1);
      std::vector<DimLoops> loops = s_.loops;
      loops[n_dim].clear();
      if (s_.block_loop >= 0) loops[n_dim] = {{s_.block_loop, 1}};
      for (size_t d = s_.dims.count() - 1; d-- > 0;) {
        const bool blocks = d + 1 == n_dim;
        strides[d] = strides[d + 1] * (blocks ? n.reduction.blocks() : s_.dims.sizes[d + 1]);
      }
      w_.store(n.dest.root, affine(0, strides, loops), w_.load_local(locals_[i], local_index()));
    });
  }

  int declare_accumulator(const Node& n, int loop) {
    const Reduction& r = n.reduction;
    const bool one_block = n.kind == Node::Kind::RowPartial || r.blocks() == 1;
    return w_.accumulator({r.combine, r.dtype, loop, r.lanes, one_block ? 0 : r.block});
  }

  void finish_row_reduction(size_t i, int accumulator) {
    const Node& n = node(i);
    values_[i] = w_.reduced(accumulator, n.dtype);
    if (!is_stored(n)) return;
    if (n.kind == Node::Kind::RowReduce)
      return w_.store(n.dest.root, row_index(n.dest), values_[i]);
    std::vector<int64_t> strides(s_.dims.count(), 1);
    std::vector<DimLoops> loops = s_.loops;
    loops.back() = {{s_.block_loop, 1}};
    for (size_t d = s_.dims.count() - 1; d-- > 0;)
      strides[d] =
          strides[d + 1] * (d + 2 == s_.dims.count() ? n.reduction.blocks() : s_.dims.sizes[d + 1]);
    w_.store(n.dest.root, affine(0, strides, loops), values_[i]);
  }

  // --- passes
  void run_pass(int number) {
    const Passes::Pass& pass = passes_.passes[static_cast<size_t>(number)];
    if (pass.compute.empty()) return;
    const ColumnLoops columns = column_loops();
    known_.clear();
    load_row_operands(pass);
    std::vector<std::pair<size_t, int>> accumulators;
    for (int i : pass.compute)
      if (is_row_reduction(static_cast<size_t>(i)))
        accumulators.push_back(
            {static_cast<size_t>(i),
             declare_accumulator(node(static_cast<size_t>(i)), columns.open.back())});
    open(columns);
    for (size_t r = pass.reload.size(); r-- > 0;) reload(static_cast<size_t>(pass.reload[r]));
    auto next = accumulators.begin();
    for (int wide : pass.compute) {
      const auto i = static_cast<size_t>(wide);
      if (is_row_reduction(i))
        w_.accumulate((next++)->second, {operand(node(i).operands[0], false)});
      else if (node(i).kind == Node::Kind::ColPartial)
        add_to_column_sum(i);
      else
        element_node(i, number);
    }
    close(columns);
    for (const auto& [i, accumulator] : accumulators) finish_row_reduction(i, accumulator);
  }

  bool is_row_reduction(size_t i) const {
    return node(i).kind == Node::Kind::RowReduce || node(i).kind == Node::Kind::RowPartial;
  }

  const Program& p_;
  const Group& g_;
  const std::vector<bool>& is_stored_;
  KernelWriter w_;
  double cost_ = 0;
  Schedule s_;
  Passes passes_;
  std::unordered_map<int, size_t> position_;  // value -> the node that computes it
  std::vector<int> values_;                   // per node: its latest instruction
  std::vector<int> locals_;                   // per node: its row buffer or column sums, or -1
  std::map<Key, int> row_known_, known_;      // loads of this row; of this pass
};

}  // namespace

LaunchDraft build_kernel(const Program& program, const Group& group,
                         const std::vector<bool>& is_stored) {
  return Emitter(program, group, is_stored).run();
}

LaunchDraft scatter_kernel(const Program& program, const Node& n) {
  KernelWriter w(program);
  const View &index = n.operands[0], &src = n.operands[1];
  const int rank = n.domain.rank();
  // threads share out the innermost dim that is not indexed, and the others outside it
  int inner = rank - 1;
  if (inner == n.scatter_dim) --inner;
  std::vector<DimLoops> loops(static_cast<size_t>(rank));
  constexpr int64_t kChunk = 64;
  int chunk_loop = -1;
  for (int d = 0; d < rank; ++d) {
    if (d == n.scatter_dim || n.domain[d] == 1) continue;
    if (d != inner) {
      loops[static_cast<size_t>(d)] = {{w.loop(Loop::Kind::Unit, n.domain[d]), 1}};
    } else if (n.domain[d] > kChunk) {
      chunk_loop = w.loop(Loop::Kind::Unit, (n.domain[d] + kChunk - 1) / kChunk);
    }
  }
  const int rows = w.loop(Loop::Kind::Serial, n.domain[n.scatter_dim]);
  loops[static_cast<size_t>(n.scatter_dim)] = {{rows, 1}};
  int vector = -1;
  if (inner >= 0 && n.domain[inner] > 1) {
    const int64_t size = n.domain[inner];
    vector = w.loop(Loop::Kind::Vector, std::min(size, kChunk), chunk_loop, size);
    auto& at = loops[static_cast<size_t>(inner)];
    if (chunk_loop >= 0) at.push_back({chunk_loop, kChunk});
    at.push_back({vector, 1});
  }
  const auto at = [&](const View& v) {
    return affine(v.offset, {v.strides.begin(), v.strides.end()}, loops);
  };
  const auto read = [&](const View& v) {
    const Value& from = program.values[static_cast<size_t>(v.root)];
    if (from.kind == Value::Kind::Full) return w.constant(from.first, from.dtype);
    return from.kind == Value::Kind::Iota ? w.iota(from, at(v)) : w.load(v.root, at(v));
  };
  w.begin(rows);
  if (vector >= 0) w.begin(vector);
  const int i = read(index);
  const Access::Indirect target{i, n.gather_stride, n.gather_extent};
  const auto stored = [&] {
    if (n.op == Op::scatter) return read(src);
    const int old = w.load_at(n.table.root, at(n.table), target, n.check);
    const int x = read(src);
    return w.compute(Op::add, {old, x}, n.dtype);
  };
  w.store_at(n.table.root, at(n.table), target, stored(), n.check);
  if (vector >= 0) w.end(vector);
  w.end(rows);
  return w.take(std::string(ir::name(n.op)), 1);
}

}  // namespace tandem::codegen
