#include "codegen/kernels/narrow_loops.h"

#include <bit>
#include <utility>

#include "codegen/loops/combine.h"
#include "codegen/loops/scalar_ops.h"

namespace tandem::codegen {
namespace {

using Kind = Instr::Kind;

constexpr int64_t kMostColumns = 32;
constexpr int64_t kLeastRows = 16;
constexpr size_t kMostCode = 512;  // of the columns written out

// What as many rows cost as a vector has lanes, in cycles (fitted to a Zen 4).
constexpr double kShort = 0.5, kPolynomial = 8;  // an instruction
constexpr double kAcross = 5, kFarAcross = 8;    // to combine a vector's elements; more than a half
constexpr double kShuffle = 1, kShuffles = 2;    // of two vectors; where it takes several
constexpr double kGather = 24;                   // a vector of elements here and there
constexpr double kTurn = 0.75, kLatency = 3;     // to add one row to another; until that is done
constexpr double kWorthIt = 1.35;                // as many times as long

/// Shuffles that make columns of as many vectors of rows, or rows of columns.
double shuffles(int64_t vectors) {
  double all = 0;
  for (int64_t left = vectors, p = 2; left > 1; ++p)
    for (; left % p == 0; left /= p) all += static_cast<double>(vectors * (p - 1));
  return all;
}

/// Whether the elements along the vector loop around an access lie here and there, as those of a
/// result whose rows do not lie in memory.
bool lies_apart(const Kernel& k, const Access& a) {
  return std::ranges::any_of(a.index.terms, [&](const Affine::Term& t) {
    return k.loops[t.loop].kind == Loop::Kind::Vector && t.stride != 1;
  });
}

/// What a loop over rows costs with lanes along the columns, and along the rows.
class Price {
 public:
  Price(LoopId rows, int vector_bytes)
      : rows_(rows),
        lanes_(vector_bytes / 4),
        shuffle_(vector_bytes == 64 ? kShuffle : kShuffles) {}

  /// `turns`: of the loops around it that are not vector loops; `columns`: of all loops; `sums`:
  /// whether it is a part of a sum of columns.
  void add(const Instr& i, const Kernel& k, int64_t turns, int64_t columns, bool sums) {
    const int64_t width = columns / turns, vectors = (width + lanes_ - 1) / lanes_;
    const double each = cost_of(i, k, width);
    const bool reduces = i.kind == Kind::Accumulate;  // all vectors of a row, then across one
    along_columns_ += lanes() * static_cast<double>(reduces ? turns : turns * vectors) * each;
    const auto n = static_cast<double>(columns);
    if (sums)
      along_rows_ += add_row(i, columns);
    else if (i.kind == Kind::Load || i.kind == Kind::Store)
      along_rows_ += access_cost(i, n);
    else
      along_rows_ += n * (reduces ? kShort : each);
  }

  bool is_worth_it() const {
    const double least = any_sum_ ? lanes() * kLatency : 0;
    return std::max(along_rows_, least) * kWorthIt <= std::max(along_columns_, least);
  }

 private:
  double lanes() const { return static_cast<double>(lanes_); }

  double add_row(const Instr& i, int64_t columns) {
    if (i.kind != Kind::Store) return 0;
    any_sum_ = true;
    const auto width = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(columns)));
    return shuffles(width) * shuffle_ + lanes() * kTurn;
  }

  double cost_of(const Instr& i, const Kernel& k, int64_t width) const {
    const double across = width > lanes_ / 2 ? kFarAcross : kAcross;
    switch (i.kind) {
      case Kind::Compute:
        return scalar_op(i.op).is_long() ? kPolynomial : kShort;
      case Kind::RandomBits:
        return kPolynomial;
      case Kind::Load:
      case Kind::Store:
        return access_along_columns(i.access, k, width);
      case Kind::Accumulate:
        return finds_position(k.accumulators[i.accumulator].combine) ? 2 * across : across;
      default:
        return 0;
    }
  }

  double access_along_columns(const Access& a, const Kernel& k, int64_t width) const {
    if (!lies_apart(k, a)) return kShort;
    return kGather * std::min(1.0, static_cast<double>(width) / lanes());
  }

  double access_cost(const Instr& i, double columns) {
    const Access& a = i.access;
    const bool stores = i.kind == Kind::Store;
    if (!a.indirect.empty()) return columns * kGather;
    const int64_t stride = stride_along(a.index, rows_);
    if (stride == 0) return 0;
    if (stride == 1) return columns * kShort;
    if (stride < 0 || stride > kMostSortedStride) return columns * kGather;
    Seen rows{a.param, a.local, a.index.terms, stores};
    ir::erase_if(rows.terms, [&](const Affine::Term& t) { return t.loop > rows_; });
    if (std::ranges::find(seen_, rows) != seen_.end()) return 0;
    seen_.push_back(std::move(rows));
    return shuffles(stride) * shuffle_ + static_cast<double>(stride) * kShort;
  }

  /// Rows of a buffer that all columns of are loaded, or stored, at once.
  struct Seen {
    ParamId param;
    LocalId local;
    decltype(Affine::terms) terms;
    bool stores;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  LoopId rows_;
  int64_t lanes_;
  double shuffle_;
  double along_columns_ = 0, along_rows_ = 0;
  bool any_sum_ = false;
  std::vector<Seen> seen_;
};

/// Decides on the Serial loop that begins with an instruction.
class Analysis {
 public:
  Analysis(const Kernel& k, size_t begin, int vector_bytes)
      : k_(k), rows_(rows_at(k, begin)), price_(rows_.loop, vector_bytes) {}

  std::optional<Rows> run() {
    const bool any_rows =
        k_.loops[rows_.loop].extent >= kLeastRows && k_.code[rows_.begin].args.empty();
    if (!any_rows || !are_narrow()) return std::nullopt;
    rows_.sums = column_sums(k_, rows_);
    for (at_ = rows_.begin + 1; at_ < rows_.end; ++at_)
      if (!fits(k_.code[at_])) return std::nullopt;
    if (code_ > kMostCode || !crosses_ || !price_.is_worth_it()) return std::nullopt;
    return std::move(rows_);
  }

 private:
  /// Whether there are vector loops, and all loops together have few columns.
  bool are_narrow() const {
    bool any_vector = false;
    int64_t columns = 1;
    for (size_t at = rows_.begin + 1; at < rows_.end; ++at) {
      const Instr& i = k_.code[at];
      if (i.kind == Kind::LoopEnd) columns /= k_.loops[i.loop].extent;
      if (i.kind != Kind::LoopBegin) continue;
      const Loop& loop = k_.loops[i.loop];
      columns *= loop.extent;
      any_vector |= loop.kind == Loop::Kind::Vector;
      const bool is_whole = i.args.empty() && !loop.clamp_loop.valid();
      if (!is_whole || columns < 1 || columns > kMostColumns) return false;
    }
    return any_vector;
  }

  /// Whether all of local's accesses are those of one sum, or lie in these rows, which write before
  /// they read.
  bool is_known(LocalId local) const {
    if (holds_only_sum(k_, rows_, local)) return true;
    bool written = false;
    for (size_t i = 0; i < k_.code.size(); ++i) {
      const Access& a = k_.code[i].access;
      if ((k_.code[i].kind != Kind::Load && k_.code[i].kind != Kind::Store) || a.local != local)
        continue;
      written |= k_.code[i].kind == Kind::Store;
      if (!written || !a.indirect.empty() || !rows_.contains(i)) return false;
    }
    return true;
  }

  bool fits(const Instr& i) {
    code_ += static_cast<size_t>(columns_);
    price_.add(i, k_, turns_, columns_, rows_.is_part_of_sum(at_));
    switch (i.kind) {
      case Kind::LoopBegin:
        columns_ *= k_.loops[i.loop].extent;
        if (k_.loops[i.loop].kind == Loop::Kind::Serial) turns_ *= k_.loops[i.loop].extent;
        ++depth_;
        return true;
      case Kind::LoopEnd:
        columns_ /= k_.loops[i.loop].extent;
        if (k_.loops[i.loop].kind == Loop::Kind::Serial) turns_ /= k_.loops[i.loop].extent;
        --depth_;
        return true;
      case Kind::RandomBits:
        return depth_ == 0;
      case Kind::Load:
      case Kind::Store:
        crosses_ |= depth_ == 0 || lies_apart(k_, i.access);
        if (!i.access.indirect.empty()) return depth_ == 0;
        return !holds_row(k_, rows_, i.access) || is_known(i.access.local);
      case Kind::Compute:
        crosses_ |= depth_ == 0;
        return depth_ == 0 || !may_fail(i.op, i.dtype);
      case Kind::Accumulate: {
        const Accumulator& a = k_.accumulators[i.accumulator];
        crosses_ = true;
        return a.loop != rows_.loop && a.combine != Combine::Dot;
      }
      case Kind::Constant:
      case Kind::Index:
      case Kind::Reduced:
        return true;
    }
    return false;
  }

  const Kernel& k_;
  Rows rows_;
  size_t at_ = 0, code_ = 0;
  int64_t columns_ = 1, turns_ = 1;  // of the open loops; of those that are serial
  int depth_ = 0;
  Price price_;
  bool crosses_ = false;  // something has one value for a whole row, or lies across memory
};

}  // namespace

std::optional<Rows> find_narrow_rows(const Kernel& kernel, int vector_bytes) {
  for (size_t at = 0; at < kernel.code.size(); ++at) {
    const Instr& i = kernel.code[at];
    if (i.kind != Kind::LoopBegin || kernel.loops[i.loop].kind != Loop::Kind::Serial) continue;
    if (auto rows = Analysis(kernel, at, vector_bytes).run()) return rows;
  }
  return std::nullopt;
}

}  // namespace tandem::codegen
