#include "codegen/kernels/group_writer.h"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>

#include "codegen/kernels/sweeps.h"
#include "codegen/kernels/tiles.h"
#include "codegen/loops/scalar_ops.h"
#include "ir/base/error.h"

namespace tandem::codegen {
namespace {

class GroupWriter {
 public:
  GroupWriter(const Program& p, const Group& g, const Table<RootId, bool>& is_stored, Schedule s,
              KernelWriter& w)
      : p_(p), g_(g), is_stored_(is_stored), w_(w), s_(std::move(s)) {
    sweeps_ = make_sweeps(p, g, s_.dims.cols, is_stored);
    values_.resize(g.nodes.size());
    locals_.resize(g.nodes.size());
    for (size_t i = 0; i < g.nodes.size(); ++i)
      if (node(i).whole && !is_partial(makes(node(i)))) position_[node(i).dest.root] = i;
  }

  void run() {
    if (is_transposition(p_, g_, s_.dims, s_.tile_dim)) return copy_tile();
    declare_locals();
    load_tiles();
    clear_column_sums();
    for (LoopId l : s_.rows) w_.begin(l);
    run_row();
    for (size_t l = s_.rows.size(); l-- > 0;) w_.end(s_.rows[l]);
    store_column_sums();
    store_tiles();
  }

  /// What is done inside the loops over units and rows.
  void run_row() {
    for (size_t sweep = 0; sweep < sweeps_.sweeps.size(); ++sweep) {
      for (int i : sweeps_.sweeps[sweep].rows) row_node(static_cast<size_t>(i));
      run_sweep(static_cast<int>(sweep));
    }
  }

 private:
  using Key = std::pair<RootId, std::pair<int64_t, std::vector<int64_t>>>;

  const Node& node(size_t i) const { return p_.nodes[g_.nodes[i]]; }
  bool is_row(size_t i) const { return is_row_node(node(i), g_.domain); }
  bool is_stored(const Node& n) const {
    return !n.only_checks && (!n.whole || is_stored_[n.dest.root]);
  }
  size_t row_dims() const { return s_.dims.row_dims; }

  // --- loops over the columns of a row
  struct ColumnLoops {
    std::vector<LoopId> open;  // outermost first; the last is the vector loop
  };

  /// Declares fresh loops over the columns and points the column dims at them: a loop for each, or
  /// one over whole rows for what steps evenly along them.
  ColumnLoops column_loops(bool even = false) {
    if (even && !s_.chunk_loop.valid()) return one_column_loop();
    ColumnLoops out;
    for (size_t d = row_dims(); d < s_.dims.count(); ++d) {
      const int64_t size = s_.dims.sizes[d];
      const bool innermost = d + 1 == s_.dims.count();
      if (size == 1) continue;
      const auto kind = innermost ? Loop::Kind::Vector : Loop::Kind::Serial;
      const bool chunked = innermost && s_.chunk_loop.valid();
      if (chunked) s_.loops[d] = {{s_.chunk_loop, s_.col_chunk}};
      if (chunked && s_.col_chunk == 1) continue;
      const LoopId l =
          chunked ? w_.loop(kind, s_.col_chunk, s_.chunk_loop, size) : w_.loop(kind, size);
      if (!chunked) s_.loops[d].clear();
      s_.loops[d].push_back({l, 1});
      out.open.push_back(l);
    }
    return out;
  }

  ColumnLoops one_column_loop() {
    std::fill(s_.loops.begin() + static_cast<ptrdiff_t>(row_dims()), s_.loops.end(), DimLoops{});
    if (s_.dims.cols == 1) return {};
    const LoopId l = w_.loop(Loop::Kind::Vector, s_.dims.cols);
    s_.loops.back() = {{l, 1}};
    return {{l}};
  }

  void open(const ColumnLoops& c) {
    for (LoopId l : c.open) w_.begin(l);
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
      ir::erase_if(loops[d], [&](const Affine::Term& t) { return t.loop == s_.chunk_loop; });
    }
    return affine(0, strides, loops);
  }

  // --- tiles: what lies across rows is transposed into or out of a local copy of the unit's tile
  std::vector<int64_t> strides(const View& v) const {
    return strides_over(v, s_.dims, 0, s_.dims.count());
  }
  bool is_across(const View& v) const {
    return s_.tile_dim >= 0 && row_dim_along(v, s_.dims) == s_.tile_dim;
  }
  bool is_read_across(const View& v) const {
    return is_across(v) && !position_.contains(v.root) && !p_.roots[v.root].formula();
  }

  /// Calls body(loops of the dims, index in a local tile) inside loops over the tile, of which the
  /// inner one, a vector loop, runs along the rows or the columns.
  template <class F>
  void over_tile(F body, bool inner_columns = false) {
    std::vector<DimLoops> loops = s_.loops;
    const auto tile = static_cast<size_t>(s_.tile_dim);
    const auto chunk_of = [](LoopId loop, int64_t extent) {
      return loop.valid() ? DimLoops{{loop, extent}} : DimLoops{};
    };
    loops[tile] = chunk_of(s_.tile_loop, s_.tile_rows);
    loops.back() = chunk_of(s_.chunk_loop, s_.col_chunk);
    const auto kind = [](bool inner) { return inner ? Loop::Kind::Vector : Loop::Kind::Serial; };
    const LoopId along =
        w_.loop(kind(!inner_columns), s_.tile_rows, s_.tile_loop, s_.dims.sizes[tile]);
    const LoopId across =
        w_.loop(kind(inner_columns), s_.col_chunk, s_.chunk_loop, s_.dims.sizes.back());
    loops[tile].push_back({along, 1});
    loops.back().push_back({across, 1});
    const LoopId outer = inner_columns ? along : across, inner = inner_columns ? across : along;
    w_.begin(outer);
    w_.begin(inner);
    body(loops, affine(0, {s_.col_chunk, 1}, {{{along, 1}}, {{across, 1}}}));
    w_.end(inner);
    w_.end(outer);
  }

  void copy_tile() {
    const View &from = node(0).operands[0], &to = node(0).dest;
    const auto copy = [&](const std::vector<DimLoops>& loops, const Affine&) {
      const InstrId x = w_.load(from.root, affine(from.offset, strides(from), loops));
      w_.store(to.root, affine(to.offset, strides(to), loops), x);
    };
    over_tile(copy, strides(from).back() == 1);
  }

  void load_tiles() {
    if (s_.tile_dim < 0) return;
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      if (is_row(i)) continue;
      node(i).for_each_operand([&](const View& v) {
        if (is_read_across(v)) load_tile(v);
      });
    }
  }

  void load_tile(const View& v) {
    const auto [at, fresh] = tiles_.try_emplace({v.root, {v.offset, strides(v)}});
    if (!fresh) return;
    const LocalId local = at->second = w_.local(w_.dtype(v.root), s_.tile_rows * s_.col_chunk);
    over_tile([&](const std::vector<DimLoops>& loops, const Affine& here) {
      w_.store_local(local, here, w_.load(v.root, affine(v.offset, strides(v), loops)));
    });
  }

  void store_tiles() {
    for (const auto& [i, local] : written_tiles_) {
      const View& to = node(i).dest;
      over_tile([&](const std::vector<DimLoops>& loops, const Affine& here) {
        w_.store(to.root, affine(to.offset, strides(to), loops), w_.load_local(local, here));
      });
    }
  }

  /// The position of the current element in a local tile.
  Affine tile_index() const {
    const LoopId row = s_.rows.back(), column = s_.loops.back().back().loop;
    return affine(0, {s_.col_chunk, 1}, {{{row, 1}}, {{column, 1}}});
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
    for (const auto& t : index.terms) terms.push_back(t.loop.index), terms.push_back(t.stride);
    return {v.root, {index.offset, std::move(terms)}};
  }

  /// The value of an operand that comes from memory or is a formula, at the current loops. `row`:
  /// of a row node, whose operands lie in no tile.
  InstrId outside(const View& v, Affine at, std::map<Key, InstrId>& known, bool row = false) {
    const Key k = key(v, at);
    if (const auto found = known.find(k); found != known.end()) return found->second;
    return known[k] = row ? w_.read(v.root, std::move(at)) : read(v, std::move(at));
  }

  InstrId read(const View& v, Affine at) {
    const auto tile = tiles_.empty() ? tiles_.end() : tiles_.find({v.root, {v.offset, strides(v)}});
    return tile == tiles_.end() ? w_.read(v.root, std::move(at))
                                : w_.load_local(tile->second, tile_index());
  }

  InstrId operand(const View& v, bool row) {
    if (const auto inner = position_.find(v.root); inner != position_.end())
      return values_[inner->second];
    if (row) return outside(v, row_index(v), row_known_, true);
    Affine at = element_index(v);
    if (const auto found = row_known_.find(key(v, at)); found != row_known_.end())
      return found->second;
    return outside(v, std::move(at), known_);
  }

  /// What a sweep reads once per row is read before its loop.
  void load_row_operands(const Sweeps::Sweep& sweep) {
    for (int i : sweep.compute)
      node(static_cast<size_t>(i)).for_each_operand([&](const View& v) {
        if (!position_.contains(v.root) && same_along_row(v))
          outside(v, element_index(v), row_known_);
      });
  }

  // --- nodes
  /// The parts [first, first + count) of a Fold.
  InstrId fold(const Node& n, int64_t first, int64_t count, bool row) {
    if (count == 1) return operand(n.part(first), row);
    const auto left = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count - 1)));
    const InstrId a = fold(n, first, left, row);
    return w_.compute(n.op, {a, fold(n, first + left, count - left, row)}, n.dtype);
  }

  InstrId compute(size_t i, bool row) {
    const Node& n = node(i);
    if (n.kind == Node::Kind::Fold) return fold(n, 0, n.parts, row);
    InstrArgs args;
    for (const View& v : n.operands) args.push_back(operand(v, row));
    switch (n.kind) {
      case Node::Kind::Gather:
        return w_.compute_node(n, std::move(args), index(n.table, row));
      case Node::Kind::Random: {
        const View linear = whole({}, n.domain);
        return w_.random_bits(n.dtype, args[0], args[1], n.random_offset, index(linear, row));
      }
      case Node::Kind::Pointwise:
        return w_.compute_node(n, std::move(args), {});
      case Node::Kind::Fold:
      case Node::Kind::RowReduce:
      case Node::Kind::RowPartial:
      case Node::Kind::ColPartial:
      case Node::Kind::Matmul:
      case Node::Kind::TiledMatmul:
      case Node::Kind::Scatter:
      case Node::Kind::External:
        break;
    }
    TANDEM_CHECK(false, "no node that gives an element for each one");
    return {};
  }

  void row_node(size_t i) {
    values_[i] = compute(i, true);
    if (is_stored(node(i))) w_.store(node(i).dest.root, row_index(node(i).dest), values_[i]);
  }

  void element_node(size_t i, int sweep) {
    const Node& n = node(i);
    values_[i] = compute(i, false);
    if (sweeps_.ready[i] != sweep) return;
    if (is_stored(n)) store_element(i);
    if (sweeps_.kept[i] && locals_[i].valid())
      w_.store_local(locals_[i], local_index(), values_[i]);
  }

  void store_element(size_t i) {
    const View& to = node(i).dest;
    if (!is_across(to)) return w_.store(to.root, element_index(to), values_[i]);
    const LocalId local = w_.local(w_.dtype(to.root), s_.tile_rows * s_.col_chunk);
    written_tiles_.push_back({i, local});
    w_.store_local(local, tile_index(), values_[i]);
  }

  void reload(size_t i) {
    values_[i] = locals_[i].valid() ? w_.load_local(locals_[i], local_index())
                                    : w_.load(node(i).dest.root, element_index(node(i).dest));
  }

  // --- reductions
  void declare_locals() {
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = node(i);
      if (makes(n) == Makes::ColumnBlocks)
        locals_[i] = w_.local(n.reduction.dtype, s_.col_chunk);
      else if (sweeps_.kept[i] && !is_stored(n))
        locals_[i] = w_.local(n.dtype, s_.col_chunk);
    }
  }

  template <class F>
  void for_each_column_sum(F f) {
    bool any = false;
    for (size_t i = 0; i < g_.nodes.size(); ++i) any |= is_column_sum(i);
    if (!any) return;
    const ColumnLoops columns = column_loops();
    open(columns);
    for (size_t i = 0; i < g_.nodes.size(); ++i)
      if (is_column_sum(i)) f(i);
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
    const InstrId sum = w_.load_local(locals_[i], local_index());
    const InstrId x = operand(node(i).operands[0], false);
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
      if (s_.block_loop.valid()) loops[n_dim] = {{s_.block_loop, 1}};
      for (size_t d = s_.dims.count() - 1; d-- > 0;) {
        const bool blocks = d + 1 == n_dim;
        strides[d] = strides[d + 1] * (blocks ? n.reduction.blocks() : s_.dims.sizes[d + 1]);
      }
      w_.store(n.dest.root, affine(0, strides, loops), w_.load_local(locals_[i], local_index()));
    });
  }

  AccumulatorId declare_accumulator(const Node& n, LoopId loop) {
    const Reduction& r = n.reduction;
    const bool one_block = makes(n) == Makes::RowBlocks || r.blocks() == 1;
    return w_.accumulator({r.combine, r.dtype, loop, r.lanes, one_block ? 0 : r.block});
  }

  void finish_row_reduction(size_t i, AccumulatorId accumulator) {
    const Node& n = node(i);
    values_[i] = w_.reduced(accumulator, n.dtype);
    if (!is_stored(n)) return;
    if (makes(n) == Makes::Rows) return w_.store(n.dest.root, row_index(n.dest), values_[i]);
    std::vector<int64_t> strides(s_.dims.count(), 1);
    std::vector<DimLoops> loops = s_.loops;
    loops.back() = {{s_.block_loop, 1}};
    for (size_t d = s_.dims.count() - 1; d-- > 0;)
      strides[d] =
          strides[d + 1] * (d + 2 == s_.dims.count() ? n.reduction.blocks() : s_.dims.sizes[d + 1]);
    w_.store(n.dest.root, affine(0, strides, loops), values_[i]);
  }

  // --- sweeps
  void run_sweep(int number) {
    const Sweeps::Sweep& sweep = sweeps_.sweeps[static_cast<size_t>(number)];
    if (sweep.compute.empty()) return;
    const ColumnLoops columns = column_loops(g_.domain.row_reduces && !sweep.uneven);
    known_.clear();
    load_row_operands(sweep);
    std::vector<std::pair<size_t, AccumulatorId>> accumulators;
    for (int i : sweep.compute)
      if (is_row_reduction(static_cast<size_t>(i)))
        accumulators.push_back(
            {static_cast<size_t>(i),
             declare_accumulator(node(static_cast<size_t>(i)), columns.open.back())});
    open(columns);
    for (int i : sweep.reload) reload(static_cast<size_t>(i));
    auto next = accumulators.begin();
    for (int wide : sweep.compute) {
      const auto i = static_cast<size_t>(wide);
      if (is_row_reduction(i))
        w_.accumulate((next++)->second, {operand(node(i).operands[0], false)});
      else if (is_column_sum(i))
        add_to_column_sum(i);
      else
        element_node(i, number);
    }
    close(columns);
    for (const auto& [i, accumulator] : accumulators) finish_row_reduction(i, accumulator);
  }

  bool is_row_reduction(size_t i) const { return reduces_rows(makes(node(i))); }
  bool is_column_sum(size_t i) const { return makes(node(i)) == Makes::ColumnBlocks; }

  const Program& p_;
  const Group& g_;
  const Table<RootId, bool>& is_stored_;
  KernelWriter& w_;
  Schedule s_;
  Sweeps sweeps_;
  std::unordered_map<RootId, size_t> position_;  // of the node that computes it
  std::vector<InstrId> values_;                  // per node: its latest instruction
  std::vector<LocalId> locals_;                  // per node: its row buffer or column sums, or none
  std::map<Key, InstrId> row_known_, known_;     // loads of this row; of this sweep
  std::map<Key, LocalId> tiles_;                 // by view: its local copy
  std::vector<std::pair<size_t, LocalId>> written_tiles_;  // node, local
};

}  // namespace

void write_group(const Program& program, const Group& group, const Table<RootId, bool>& is_stored,
                 Schedule schedule, KernelWriter& writer) {
  GroupWriter(program, group, is_stored, std::move(schedule), writer).run();
}

void write_row(const Program& program, const Group& group, const Table<RootId, bool>& is_stored,
               Schedule schedule, KernelWriter& writer) {
  GroupWriter(program, group, is_stored, std::move(schedule), writer).run_row();
}

}  // namespace tandem::codegen
