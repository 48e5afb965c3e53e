#include "codegen/kernels/narrow_rows.h"

#include <map>
#include <span>
#include <utility>

#include "codegen/kernels/narrow_loops.h"
#include "codegen/loops/combine.h"
#include "ir/base/error.h"
#include "ir/reduction_order.h"

namespace tandem::codegen {
namespace {

using Kind = Instr::Kind;

/// Writes a kernel anew, with the columns of one loop over rows written out: instruction by
/// instruction, each for all columns, so that accesses of neighbouring columns stand together.
class Rewriter {
 public:
  Rewriter(const Kernel& k, Rows rows)
      : k_(k), rows_(std::move(rows)), values_(k.code.size()), out_(k) {
    out_.code.clear();
    out_.loops[rows_.loop].kind = Loop::Kind::Vector;
  }

  Kernel run() {
    for (at_ = 0; at_ < k_.code.size(); ++at_) instruction(k_.code[at_]);
    return std::move(out_);
  }

 private:
  /// A local, an element of it, and the turns of loops that it is used anew in.
  struct Place {
    uint32_t local;
    int64_t element;
    std::vector<int64_t> turns;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  using Known = std::pair<Access, InstrId>;  // an element of a param, and its value

  InstrId push(Instr i) {
    const InstrId id{static_cast<uint32_t>(out_.code.size())};
    out_.code.push_back(std::move(i));
    return id;
  }
  InstrId compute(ir::Op op, InstrArgs args, ir::DType dtype) {
    return push({.kind = Kind::Compute, .dtype = dtype, .op = op, .args = std::move(args)});
  }
  InstrId constant(const ir::Number& number, ir::DType dtype) {
    return push({.kind = Kind::Constant, .dtype = dtype, .number = number});
  }

  /// The value that `from` has in column `column` of the open loops.
  InstrId value(InstrId from, int64_t column) const {
    const std::vector<InstrId>& all = values_[from.index];
    return all[static_cast<size_t>(column * std::ssize(all) / columns_)];
  }

  /// At a column: the loops over columns become a part of the offset.
  Affine at_column(Affine a, int64_t column) const {
    for (size_t l = open_.size(); l-- > 0;) {
      const int64_t extent = k_.loops[open_[l]].extent;
      a.offset += stride_along(a, open_[l]) * (column % extent);
      ir::erase_if(a.terms, [&](const Affine::Term& t) { return t.loop == open_[l]; });
      column /= extent;
    }
    return a;
  }

  Instr at_column(const Instr& i, int64_t column) const {
    Instr out = i;
    for (InstrId& a : out.args) a = value(a, column);
    for (Access::Indirect& x : out.access.indirect) x.value = value(x.value, column);
    out.affine = at_column(i.affine, column);
    out.access.index = at_column(i.access.index, column);
    return out;
  }

  void instruction(const Instr& i) {
    if (!rows_.contains(at_)) {
      copy(i);
      if (at_ == rows_.end) store_sums();
      return;
    }
    switch (i.kind) {
      case Kind::LoopBegin:
        open_.push_back(i.loop);
        columns_ *= k_.loops[i.loop].extent;
        return;
      case Kind::LoopEnd:
        columns_ /= k_.loops[i.loop].extent;
        open_.pop_back();
        return reduce(i.loop);
      case Kind::Load:
        return holds_row(k_, rows_, i.access) ? load_kept(i) : load(i);
      case Kind::Store:
        return holds_row(k_, rows_, i.access) ? keep(i) : store(i);
      case Kind::Accumulate:
        return take(i);
      case Kind::Reduced:
        if (const auto found = results_.find(i.accumulator.index); found != results_.end())
          values_[at_] = found->second;
        else
          copy(i);
        return;
      case Kind::Compute:
        if (!rows_.is_part_of_sum(at_)) copy(i);
        return;
      case Kind::Constant:  // one for all columns
        return values_[at_].push_back(push(i));
      case Kind::Index:
      case Kind::RandomBits:
        return copy(i);
    }
  }

  void copy(const Instr& i) {
    for (int64_t c = 0; c < columns_; ++c) values_[at_].push_back(push(at_column(i, c)));
  }

  // --- memory
  /// What is read of a row twice, or written and read, is read once or not at all. But what is
  /// checked stays, as launches number the checks.
  void load(const Instr& i) {
    if (!i.access.indirect.empty()) return copy(i);
    for (int64_t c = 0; c < columns_; ++c) {
      Instr here = at_column(i, c);
      const auto known = std::ranges::find(known_, here.access, &Known::first);
      if (known != known_.end()) {
        values_[at_].push_back(known->second);
      } else {
        values_[at_].push_back(push(here));
        known_.push_back({std::move(here.access), values_[at_].back()});
      }
    }
  }

  void store(const Instr& i) {
    std::erase_if(known_, [&](const Known& k) {
      return k.first.param == i.access.param && k.first.local == i.access.local;
    });
    for (int64_t c = 0; c < columns_; ++c) {
      Instr here = at_column(i, c);
      if (i.access.indirect.empty()) known_.push_back({here.access, here.args[0]});
      push(std::move(here));
    }
  }

  // --- locals
  /// What is one place for each turn of a loop is several once the turns stand side by side.
  Place place(const Instr& i, int64_t column) const {
    const Affine at = at_column(i.access.index, column);
    TANDEM_CHECK(at.terms.empty(), "a local holds one row");
    std::vector<int64_t> turns;
    for (size_t l = open_.size(); l-- > 0; column /= k_.loops[open_[l]].extent) {
      const auto is_open = [&](const Affine::Term& t) { return t.loop == open_[l]; };
      if (std::ranges::none_of(i.access.index.terms, is_open))
        turns.push_back(column % k_.loops[open_[l]].extent);
    }
    return {i.access.local.index, at.offset, std::move(turns)};
  }

  void load_kept(const Instr& i) {
    if (rows_.is_part_of_sum(at_)) return;
    for (int64_t c = 0; c < columns_; ++c) values_[at_].push_back(kept_.at(place(i, c)));
  }

  void keep(const Instr& i) {
    const auto sum =
        std::ranges::find_if(rows_.sums, [&](const ColumnSum& s) { return s.store == at_; });
    for (int64_t c = 0; c < columns_; ++c)
      if (sum == rows_.sums.end())
        kept_[place(i, c)] = value(i.args[0], c);
      else
        add_to_sum(*sum, c);
  }

  void add_to_sum(const ColumnSum& sum, int64_t column) {
    const AccumulatorId a = out_.accumulators.add(
        {.combine = sum.combine, .dtype = k_.code[sum.add].dtype, .loop = rows_.loop});
    push({.kind = Kind::Accumulate,
          .accumulator = a,
          .args = {value(k_.code[sum.add].args[1], column)}});
    column_sums_[place(k_.code[sum.store], column)] = a;
  }

  /// A local of sums begins as nothing, so its element is what the accumulator gives.
  void store_sums() {
    for (const auto& [place, a] : column_sums_) {
      const ir::DType dtype = out_.accumulators[a].dtype;
      const InstrId sum = push({.kind = Kind::Reduced, .dtype = dtype, .accumulator = a});
      push({.kind = Kind::Store,
            .dtype = dtype,
            .args = {sum},
            .access = {.local = {place.local}, .index = {place.element, {}}}});
    }
  }

  // --- reductions of a row
  void take(const Instr& i) {
    std::vector<InstrId>& all = taken_[i.accumulator.index];
    all.clear();
    for (int64_t c = 0; c < columns_; ++c) all.push_back(value(i.args[0], c));
  }

  /// What the accumulators over `loop` give, for each column of the loops around it.
  void reduce(LoopId loop) {
    const auto n = static_cast<size_t>(k_.loops[loop].extent);
    for (const AccumulatorId a : k_.accumulators.ids()) {
      if (k_.accumulators[a].loop != loop || !taken_.contains(a.index)) continue;
      const std::vector<InstrId>& all = taken_[a.index];
      std::vector<InstrId>& results = results_[a.index];
      results.clear();
      for (size_t first = 0; first < all.size(); first += n) {
        const std::span<const InstrId> row(all.data() + first, n);
        results.push_back(finds_position(k_.accumulators[a].combine)
                              ? position(k_.accumulators[a], row)
                              : combined(k_.accumulators[a], row));
      }
    }
  }

  /// Lanes that no element reaches are left out. Of a sum they and its beginning only matter where
  /// all is -0, which becomes +0.
  InstrId combined(const Accumulator& a, std::span<const InstrId> row) {
    const auto n = std::ssize(row);
    const InstrId result = ir::reduce_in_order<InstrId>(
        {a.lanes, a.block == 0 ? n : a.block}, n, InstrId{},
        [&](int64_t i) { return row[static_cast<size_t>(i)]; },
        [&](InstrId x, InstrId y) {
          if (!x.valid()) return y;
          return y.valid() ? compute(combining_op(a.combine), {x, y}, a.dtype) : x;
        });
    if (a.combine != Combine::Sum || !ir::is_floating(a.dtype)) return result;
    return compute(ir::Op::add, {result, constant(identity_of(a.combine, a.dtype), a.dtype)},
                   a.dtype);
  }

  /// Of the first extremum; NaNs are the most extreme.
  InstrId position(const Accumulator& a, std::span<const InstrId> row) {
    const ir::Op better = a.combine == Combine::ArgMax ? ir::Op::gt : ir::Op::lt;
    const auto is = [&](ir::Op op, InstrId x, InstrId y) {
      return compute(op, {x, y}, ir::DType::Bool);
    };
    InstrId best = row[0], at = constant(0, ir::DType::I64);
    for (size_t i = 1; i < row.size(); ++i) {
      InstrId wins = is(better, row[i], best);
      if (ir::is_floating(a.dtype))
        wins =
            is(ir::Op::logical_or, wins,
               is(ir::Op::logical_and, is(ir::Op::ne, row[i], row[i]), is(ir::Op::eq, best, best)));
      at = compute(ir::Op::where, {wins, constant(static_cast<int64_t>(i), ir::DType::I64), at},
                   ir::DType::I64);
      best = compute(ir::Op::where, {wins, row[i], best}, a.dtype);
    }
    return at;
  }

  const Kernel& k_;
  const Rows rows_;
  std::vector<std::vector<InstrId>> values_;  // by instruction of k_: of each column
  Kernel out_;
  size_t at_ = 0;
  std::vector<LoopId> open_;  // over columns, outermost first
  int64_t columns_ = 1;       // of them all
  std::vector<Known> known_;  // of this row
  std::map<Place, InstrId> kept_;
  std::map<Place, AccumulatorId> column_sums_;
  std::map<uint32_t, std::vector<InstrId>> taken_, results_;  // by accumulator of k_
};

/// Drops loops, locals and accumulators that nothing mentions any more, and reads of params.
class Compaction {
 public:
  explicit Compaction(Kernel& k)
      : k_(k), loops_(k.loops.size()), locals_(k.locals.size()), sums_(k.accumulators.size()) {}

  void run() {
    for (const LoopId l : k_.loops.ids()) loops_[l].used = k_.loops[l].kind == Loop::Kind::Unit;
    for (const Instr& i : k_.code) {
      if (i.kind == Kind::LoopBegin) loops_[i.loop].used = true;
      if (i.access.is_local()) locals_[i.access.local].used = true;
      if (i.kind == Kind::Accumulate) sums_[i.accumulator].used = true;
    }
    for (const ParamId p : k_.params.ids())
      if (is_only_written(p)) k_.params[p].use = Param::Use::Write;
    drop(loops_, k_.loops), drop(locals_, k_.locals), drop(sums_, k_.accumulators);
    for (Loop& l : k_.loops) rename(loops_, l.clamp_loop);
    for (Accumulator& a : k_.accumulators) rename(loops_, a.loop);
    for (Instr& i : k_.code) {
      rename(loops_, i.loop), rename(sums_, i.accumulator), rename(locals_, i.access.local);
      for (Affine* a : {&i.affine, &i.access.index})
        for (Affine::Term& t : a->terms) rename(loops_, t.loop);
    }
  }

 private:
  bool is_only_written(ParamId param) const {
    return std::ranges::none_of(
        k_.code, [&](const Instr& i) { return i.kind == Kind::Load && i.access.param == param; });
  }

  template <class I>
  struct Now {
    bool used = false;
    I id;
  };
  template <class I>
  using Names = Table<I, Now<I>>;

  template <class I, class T>
  static void drop(Names<I>& names, Table<I, T>& items) {
    Table<I, T> left;
    for (const I id : names.ids())
      if (names[id].used) names[id].id = left.add(items[id]);
    items = std::move(left);
  }
  template <class I>
  static void rename(const Names<I>& names, I& id) {
    if (id.valid()) id = names[id].id;
  }

  Kernel& k_;
  Names<LoopId> loops_;
  Names<LocalId> locals_;
  Names<AccumulatorId> sums_;
};

}  // namespace

Kernel with_lanes_along_narrow_rows(Kernel kernel, int vector_bytes) {
  bool any = false;
  while (std::optional<Rows> rows = find_narrow_rows(kernel, vector_bytes)) {
    kernel = Rewriter(kernel, *std::move(rows)).run();
    any = true;
  }
  if (any) Compaction(kernel).run();
  return kernel;
}

}  // namespace tandem::codegen
