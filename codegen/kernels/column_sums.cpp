#include "codegen/kernels/column_sums.h"

#include <optional>
#include <utility>

#include "codegen/loops/combine.h"

namespace tandem::codegen {
namespace {

using Kind = Instr::Kind;

constexpr size_t kMostVectors = 4;        // of a row
constexpr size_t kMostAccumulators = 12;  // vectors of all sums

size_t end_of(const Kernel& k, size_t begin) {
  size_t end = begin;
  while (k.code[end].kind != Kind::LoopEnd || k.code[end].loop != k.code[begin].loop) ++end;
  return end;
}

std::optional<Combine> combine_by(ir::Op op) {
  for (const Combine c :
       {Combine::Sum, Combine::Prod, Combine::Max, Combine::Min, Combine::Any, Combine::All})
    if (combining_op(c) == op) return c;
  return std::nullopt;
}

/// Loops that begin from `begin` on and are open at instruction `at`.
size_t open_loops(const Kernel& k, size_t begin, size_t at) {
  size_t open = 0;
  for (size_t i = begin; i < at; ++i)
    open += k.code[i].kind == Kind::LoopBegin, open -= k.code[i].kind == Kind::LoopEnd;
  return open;
}

/// Rows, and the one loop over their columns.
struct Columns {
  Rows rows;
  size_t begin = 0, end = 0;
};

/// The one loop in `rows`: a Vector loop of a length that is known; nothing if there are others.
std::optional<Columns> one_loop_of(const Kernel& k, Rows rows) {
  Columns out{.rows = std::move(rows)};
  for (size_t i = out.rows.begin + 1; i < out.rows.end; ++i) {
    if (k.code[i].kind != Kind::LoopBegin) continue;
    const Loop& loop = k.loops[k.code[i].loop];
    if (out.begin > 0 || loop.kind != Loop::Kind::Vector || loop.clamp_loop.valid())
      return std::nullopt;
    out.begin = i, out.end = end_of(k, i);
  }
  if (out.begin == 0) return std::nullopt;
  return out;
}

/// Whether the sums of all columns fit in registers.
bool fit(const Kernel& k, const Columns& c, int vector_bytes) {
  const auto columns = static_cast<size_t>(k.loops[k.code[c.begin].loop].extent);
  size_t all = 0;
  for (const ColumnSum& s : c.rows.sums) {
    const size_t bytes = columns * std::max<size_t>(ir::size_of(k.code[s.add].dtype), 4);
    const size_t vectors =
        (bytes + static_cast<size_t>(vector_bytes) - 1) / static_cast<size_t>(vector_bytes);
    if (vectors > kMostVectors) return false;
    all += vectors;
  }
  return all > 0 && all <= kMostAccumulators;
}

/// Whether rows only compute elements, and sums of them. (What is stored of a row as a whole would
/// be stored again for each vector of columns.)
bool only_computes(const Kernel& k, const Columns& c) {
  for (size_t i = c.rows.begin + 1; i < c.rows.end; ++i) {
    const Instr& x = k.code[i];
    if (x.kind == Kind::Accumulate || x.kind == Kind::Reduced || x.kind == Kind::RandomBits)
      return false;
    if (x.kind == Kind::Store && (i < c.begin || i > c.end)) return false;
    const bool accesses = x.kind == Kind::Load || x.kind == Kind::Store;
    if (accesses && x.access.is_local() && !holds_only_sum(k, c.rows, x.access.local)) return false;
  }
  return true;
}

std::optional<Columns> find_sums(const Kernel& k, int vector_bytes) {
  for (size_t at = 0; at < k.code.size(); ++at) {
    const Instr& i = k.code[at];
    if (i.kind != Kind::LoopBegin || k.loops[i.loop].kind != Loop::Kind::Serial ||
        !i.args.empty() || open_loops(k, 0, at) > 0)
      continue;
    std::optional<Columns> columns = one_loop_of(k, rows_at(k, at));
    if (!columns) continue;
    columns->rows.sums = column_sums(k, columns->rows);
    if (fit(k, *columns, vector_bytes) && only_computes(k, *columns)) return columns;
  }
  return std::nullopt;
}

/// Writes a kernel anew, with the loop over some rows inside of that over their columns.
class Interchange {
 public:
  Interchange(const Kernel& k, Columns columns)
      : k_(k), c_(std::move(columns)), now_(k.code.size()), out_(k) {
    out_.code.clear();
  }

  Kernel run() {
    for (size_t at = 0; at < c_.rows.begin; ++at) copy(at);
    copy(c_.begin);
    copy(c_.rows.begin);
    for (size_t at = c_.rows.begin + 1; at < c_.rows.end; ++at)
      if (at != c_.begin && at != c_.end) inside(at);
    copy(c_.rows.end);
    for (const Taken& t : taken_) store(t);
    copy(c_.end);
    for (size_t at = c_.rows.end + 1; at < k_.code.size(); ++at) copy(at);
    return std::move(out_);
  }

 private:
  /// A sum, and what makes it now.
  struct Taken {
    const ColumnSum& sum;
    AccumulatorId accumulator;
  };

  InstrId push(Instr i) {
    const InstrId id{static_cast<uint32_t>(out_.code.size())};
    out_.code.push_back(std::move(i));
    return id;
  }

  void copy(size_t at) {
    Instr i = k_.code[at];
    for (InstrId& a : i.args) a = now_[a.index];
    for (Access::Indirect& x : i.access.indirect) x.value = now_[x.value.index];
    now_[at] = push(std::move(i));
  }

  void inside(size_t at) {
    if (!c_.rows.is_part_of_sum(at)) return copy(at);
    for (const ColumnSum& s : c_.rows.sums)
      if (s.add == at) take(s);
  }

  void take(const ColumnSum& sum) {
    const Instr& add = k_.code[sum.add];
    const AccumulatorId a =
        out_.accumulators.add({.combine = sum.combine, .dtype = add.dtype, .loop = c_.rows.loop});
    push({.kind = Kind::Accumulate, .accumulator = a, .args = {now_[add.args[1].index]}});
    taken_.push_back({sum, a});
  }

  /// A local of sums begins as nothing, so its element is what the accumulator gives.
  void store(const Taken& t) {
    const Instr& to = k_.code[t.sum.store];
    const InstrId sum =
        push({.kind = Kind::Reduced, .dtype = to.dtype, .accumulator = t.accumulator});
    push({.kind = Kind::Store, .dtype = to.dtype, .args = {sum}, .access = to.access});
  }

  const Kernel& k_;
  const Columns c_;
  std::vector<InstrId> now_;  // by instruction of k_
  std::vector<Taken> taken_;
  Kernel out_;
};

}  // namespace

Rows rows_at(const Kernel& k, size_t begin) {
  return {begin, end_of(k, begin), k.code[begin].loop, {}};
}

std::vector<ColumnSum> column_sums(const Kernel& k, const Rows& rows) {
  std::vector<int> uses(k.code.size());
  for (size_t i = rows.begin; i < rows.end; ++i)
    for (const InstrId a : k.code[i].args) ++uses[a.index];
  std::vector<ColumnSum> sums;
  for (size_t store = rows.begin; store < rows.end; ++store) {
    const Instr& s = k.code[store];
    if (s.kind != Kind::Store || !s.access.indirect.empty() || !holds_row(k, rows, s.access))
      continue;
    const size_t add = s.args[0].index;
    const Instr& a = k.code[add];
    if (a.kind != Kind::Compute || a.args.size() != 2) continue;
    const size_t load = a.args[0].index;
    const Instr& l = k.code[load];
    const auto combine = combine_by(a.op);
    if (combine && rows.contains(load) && l.kind == Kind::Load && l.access == s.access &&
        uses[add] == 1 && uses[load] == 1 &&
        open_loops(k, rows.begin + 1, store) == s.access.index.terms.size())
      sums.push_back({load, add, store, *combine});
  }
  return sums;
}

bool holds_row(const Kernel& k, const Rows& rows, const Access& a) {
  const auto is_over_columns = [&](const Affine::Term& t) {
    return std::any_of(k.code.begin() + static_cast<ptrdiff_t>(rows.begin) + 1,
                       k.code.begin() + static_cast<ptrdiff_t>(rows.end), [&](const Instr& i) {
                         return i.kind == Kind::LoopBegin && i.loop == t.loop;
                       });
  };
  return a.is_local() && std::ranges::all_of(a.index.terms, is_over_columns);
}

bool holds_only_sum(const Kernel& k, const Rows& rows, LocalId local) {
  const auto is_of = [&](size_t at) {
    const Instr& i = k.code[at];
    return (i.kind == Kind::Load || i.kind == Kind::Store) && i.access.local == local;
  };
  if (std::ranges::none_of(rows.sums, [&](const ColumnSum& s) { return is_of(s.load); }) ||
      open_loops(k, 0, rows.begin) > 0)
    return false;
  size_t accesses = 0;
  for (size_t i = rows.begin; i < rows.end; ++i) accesses += is_of(i);
  return accesses == 2;
}

Kernel with_column_sums_in_registers(Kernel kernel, int vector_bytes) {
  while (std::optional<Columns> columns = find_sums(kernel, vector_bytes))
    kernel = Interchange(kernel, *std::move(columns)).run();
  return kernel;
}

}  // namespace tandem::codegen
