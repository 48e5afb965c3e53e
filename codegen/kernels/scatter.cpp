#include "codegen/kernels/scatter.h"

#include <algorithm>
#include <bit>

#include "codegen/kernels/kernel_writer.h"
#include "codegen/kernels/source_rows.h"
#include "ir/base/error.h"

namespace tandem::codegen {
namespace {

using ir::DType;
using ir::Op;

constexpr int64_t kChunk = 64;                      // columns of a unit
constexpr int64_t kMinRow = 16;                     // elements of a row that is worth looking for
constexpr int64_t kMinTotal = 8192;                 // elements below which one thread is enough
constexpr int64_t kMaxParts = 32;                   // of the destination: each looks at all indices
constexpr int64_t kMostCounted = int64_t{1} << 30;  // rows and sources that are counted as i32
constexpr int kFew = 4;                             // sources of a row that is written once
constexpr int64_t kPartBytes = int64_t{1} << 19;    // stays in a second level cache
constexpr int64_t kBlockBytes = int64_t{1} << 17;  // of neighbouring rows: uses all its sets evenly

int64_t row_elements(const ir::Shape& sizes, int dim) {
  int64_t n = 1;
  for (int d = dim + 1; d < sizes.rank(); ++d) n *= sizes[d];
  return n;
}

/// What a place and an element of src become.
Op combining(Op scatter) {
  switch (scatter) {
    case Op::scatter_add:
      return Op::add;
    case Op::scatter_prod:
      return Op::mul;
    case Op::scatter_amax:
      return Op::maximum;
    default:
      TANDEM_CHECK(scatter == Op::scatter_amin, "combines");
      return Op::minimum;
  }
}

/// What both kinds of kernel share: reading operands at the loops of the dims.
class Scatter {
 protected:
  explicit Scatter(const Program& p)
      : node(p.nodes.back()), w(p), by_dim(static_cast<size_t>(node.domain.rank())) {}

  DimLoops& loops(int d) { return by_dim[static_cast<size_t>(d)]; }

  Affine at(const View& v) const {
    return affine(v.offset, {v.strides.begin(), v.strides.end()}, by_dim);
  }
  InstrId read(const View& v) { return w.read(v.root, at(v)); }
  /// dest[index] = source, or what it and dest[index] combine to, at the current loops.
  template <class F>
  void put(InstrId index, F source) {
    const Access::Indirect target{index, node.gather_stride, node.gather_extent};
    const InstrId stored = node.op == Op::scatter ? source() : combined(target, source);
    w.store_at(node.table.root, at(node.table), target, stored, node.check);
  }
  template <class F>
  InstrId combined(const Access::Indirect& target, F source) {
    const InstrId old = w.load_at(node.table.root, at(node.table), target, node.check);
    return w.compute(combining(node.op), {old, source()}, node.dtype);
  }

  const Node& node;
  KernelWriter w;
  std::vector<DimLoops> by_dim;  // by dim
};

/// Units share out the innermost dim that is not indexed, and the others outside it.
class ByColumns : Scatter {
 public:
  explicit ByColumns(const Program& p) : Scatter(p) {}

  KernelDraft run() {
    const int rank = node.domain.rank();
    const int inner = vector_dim();
    LoopId chunk_loop;
    for (int d = 0; d < rank; ++d) {
      if (d == node.scatter_dim || node.domain[d] == 1) continue;
      if (d != inner)
        loops(d) = {{w.loop(Loop::Kind::Unit, node.domain[d]), 1}};
      else if (node.domain[d] > kChunk)
        chunk_loop = w.loop(Loop::Kind::Unit, (node.domain[d] + kChunk - 1) / kChunk);
    }
    const LoopId rows = w.loop(Loop::Kind::Serial, node.domain[node.scatter_dim]);
    loops(node.scatter_dim) = {{rows, 1}};
    LoopId vector;
    if (inner >= 0 && node.domain[inner] > 1) {
      const int64_t size = node.domain[inner];
      vector = w.loop(Loop::Kind::Vector, std::min(size, kChunk), chunk_loop, size);
      if (chunk_loop.valid()) loops(inner).push_back({chunk_loop, kChunk});
      loops(inner).push_back({vector, 1});
    }
    w.begin(rows);
    if (vector.valid()) w.begin(vector);
    put(read(node.operands[0]), [&] { return read(node.operands[1]); });
    if (vector.valid()) w.end(vector);
    w.end(rows);
    return w.take(std::string(ir::name(node.op)), 1);
  }

 private:
  /// The dim whose elements are neighbours, or -1: lanes that lie apart are no gain, each would
  /// touch lines of its own.
  int vector_dim() const {
    int inner = node.domain.rank() - 1;
    if (inner == node.scatter_dim) --inner;
    return inner >= 0 && node.table.strides[inner] == 1 ? inner : -1;
  }
};

/// Units share out the rows of the destination: part (row / block) mod parts. An index out of range
/// is some unit's too, and fails there. Each unit looks through all indices for those of its rows.
///
/// A sum that begins with a constant counts first. A row of few sources is then written once, from
/// what it is the sum of; others are sums that grow in memory, source by source. In other scatters,
/// units fill their rows and then write their sources.
class ByRows : Scatter {
 public:
  explicit ByRows(const Program& p) : Scatter(p), source_rows_(w, p.nodes, by_dim) {
    const auto size = static_cast<int64_t>(ir::size_of(node.dtype));
    const int64_t row = row_elements(node.domain, node.scatter_dim), rows = node.gather_extent;
    const auto power = [](int64_t v) {
      return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(v, 1))));
    };
    const int64_t again = counts_first() ? sources() / 4 : rows;
    parts_ = power(std::clamp<int64_t>(again * row * size / kPartBytes, 8, kMaxParts));
    while (parts_ > 1 && (parts_ > rows || parts_ * kMinRow > 2 * row)) parts_ /= 2;
    block_ = power(kBlockBytes / (row * size));
    while (block_ > 1 && block_ * parts_ > rows) block_ /= 2;
  }

  KernelDraft run() {
    for (int d = 0; d < node.scatter_dim; ++d)
      if (node.domain[d] > 1) loops(d) = {{w.loop(Loop::Kind::Unit, node.domain[d]), 1}};
    part_ = w.loop(Loop::Kind::Unit, parts_);
    if (counts_first()) {
      count_sources();
      write_rows_of_few();
      add_rows_of_many();
    } else {
      if (node.operands.size() > 2) fill();
      for_own_sources([&](InstrId index) {
        const SourceRows::Row source = source_rows_.row();
        over_row([&] { put(index, [&] { return source_rows_.element(source); }); });
      });
    }
    return w.take(std::string(ir::name(node.op)) + "_rows", 1);
  }

 private:
  bool counts_first() const {
    const Root& source = w.program().roots[node.operands[1].root];
    return node.operands.size() > 2 && node.op == Op::scatter_add && !source.formula() &&
           sources() < kMostCounted && node.gather_extent < kMostCounted;
  }

  InstrId integer(int64_t v) { return w.constant(v, DType::I64); }
  InstrId small(int64_t v) { return w.constant(v, DType::I32); }
  InstrId compare(Op op, InstrId a, InstrId b) { return w.compute(op, {a, b}, DType::Bool); }

  template <class F>
  void when(InstrId condition, F body) {
    const LoopId once = w.loop(Loop::Kind::Serial, 1);
    w.begin(once, condition);
    body();
    w.end(once);
  }

  template <class F>
  void over_row(F body) {
    const int rank = node.domain.rank();
    std::vector<LoopId> open;
    for (int d = node.scatter_dim + 1; d < rank; ++d) {
      if (node.domain[d] == 1) continue;
      open.push_back(
          w.loop(d + 1 == rank ? Loop::Kind::Vector : Loop::Kind::Serial, node.domain[d]));
      loops(d) = {{open.back(), 1}};
      w.begin(open.back());
    }
    body();
    for (size_t l = open.size(); l-- > 0;) w.end(open[l]);
  }

  /// `body(index)` at each source, in ascending order, that goes to a row of this unit; nothing
  /// where `condition` is false.
  template <class F>
  void for_own_sources(F body, InstrId condition = {}) {
    const LoopId source = w.loop(Loop::Kind::Serial, sources());
    loops(node.scatter_dim) = {{source, 1}};
    w.begin(source, condition);
    const InstrId index = read(node.operands[0]);
    const InstrId block =
        w.compute(Op::shift_right,
                  {index, integer(std::countr_zero(static_cast<uint64_t>(block_)))}, DType::I64);
    const InstrId owner = w.compute(Op::bitwise_and, {block, integer(parts_ - 1)}, DType::I64);
    when(compare(Op::eq, owner, w.index({0, {{part_, 1}}})), [&] { body(index); });
    w.end(source);
  }

  int64_t turn() const { return parts_ * block_; }
  int64_t turns() const { return (node.gather_extent + turn() - 1) / turn(); }

  /// `body(row)` at each row of this unit; its number is the affine `row`.
  template <class F>
  void for_own_rows(bool beyond, F body) {
    const int64_t rows = node.gather_extent;
    const LoopId turns = w.loop(Loop::Kind::Serial, this->turns());
    const LoopId inner = w.loop(Loop::Kind::Serial, block_);
    const DimLoops at = {{part_, block_}, {turns, turn()}, {inner, 1}};
    const Affine number = affine(0, {1}, {at});
    loops(node.scatter_dim) = at;
    w.begin(turns);
    w.begin(inner);
    if (beyond || rows % turn() == 0)
      body(number);
    else
      when(compare(Op::lt, w.index(number), integer(rows)), [&] { body(number); });
    w.end(inner);
    w.end(turns);
  }

  void fill() {
    for_own_rows(false, [&](const Affine&) {
      over_row([&] { w.store(node.dest.root, at(node.dest), read(node.operands[2])); });
    });
  }

  // --- sums that count first

  Access::Indirect row_at(InstrId index) const { return {index, 1, node.gather_extent}; }

  /// How many sources each row has, the last of them, and before each source the one before it.
  void count_sources() {
    for (LocalId* local : {&count_, &last_}) *local = w.local(DType::I32, turns() * turn());
    before_ = w.local(DType::I32, sources());
    any_of_many_ = w.local(DType::Bool, 1);
    for_own_rows(true, [&](const Affine& row) { w.store_local(count_, row, small(0)); });
    for_own_sources([&](InstrId index) {
      const Access::Indirect row = row_at(index);
      const InstrId count = w.load_local_at(count_, row, node.check);
      w.store_local_at(count_, row, w.compute(Op::add, {count, small(1)}, DType::I32), node.check);
      const Affine source = affine(0, {1}, {loops(node.scatter_dim)});
      w.store_local(before_, source, w.load_local_at(last_, row, node.check));
      const InstrId number = w.compute(Op::convert, {w.index(source)}, DType::I32);
      w.store_local_at(last_, row, number, node.check);
    });
  }

  int64_t sources() const { return node.domain[node.scatter_dim]; }

  void write_rows_of_few() {
    w.store_local(any_of_many_, {}, w.constant(false, DType::Bool));
    for_own_rows(false, [&](const Affine& row) {
      const InstrId count = w.load_local(count_, row);
      for (int sources = 0; sources <= kFew; ++sources)
        when(compare(Op::eq, count, small(sources)), [&] { write_row(row, sources); });
      when(compare(Op::gt, count, small(kFew)),
           [&] { w.store_local(any_of_many_, {}, w.constant(true, DType::Bool)); });
    });
  }

  void write_row(const Affine& row, int sources) {
    std::vector<InstrId> numbers;  // the last first
    for (int i = 0; i < sources; ++i) {
      const InstrId number =
          i == 0 ? w.load_local(last_, row)
                 : w.load_local_at(before_, {numbers.back(), 1, this->sources()}, node.check);
      numbers.push_back(w.compute(Op::convert, {number}, DType::I64));
    }
    std::vector<SourceRows::Row> rows;
    for (InstrId number : numbers) rows.push_back(source_rows_.row(number));
    over_row([&] {
      InstrId sum = read(node.operands[2]);
      for (size_t i = rows.size(); i-- > 0;)
        sum = w.compute(Op::add, {sum, source_rows_.element(rows[i])}, node.dtype);
      w.store(node.dest.root, at(node.dest), sum);
    });
  }

  /// The first source of a row of more is added to the constant; its count is then zero.
  void add_rows_of_many() {
    const auto add_source = [&](InstrId index) {
      const Access::Indirect row = row_at(index);
      const InstrId count = w.load_local_at(count_, row, node.check);
      const Access::Indirect target{index, node.gather_stride, node.gather_extent};
      const auto add_to = [&](auto place) {
        const SourceRows::Row source = source_rows_.row();
        over_row([&] {
          const InstrId sum =
              w.compute(Op::add, {place(), source_rows_.element(source)}, node.dtype);
          w.store_at(node.table.root, at(node.table), target, sum, node.check, true);
        });
      };
      when(compare(Op::eq, count, small(0)), [&] {
        add_to(
            [&] { return w.load_at(node.table.root, at(node.table), target, node.check, true); });
      });
      when(compare(Op::gt, count, small(kFew)), [&] {
        w.store_local_at(count_, row, small(0), node.check);
        add_to([&] { return read(node.operands[2]); });
      });
    };
    for_own_sources(add_source, w.load_local(any_of_many_, {}));
  }

  int64_t parts_ = 1, block_ = 1;
  LoopId part_;
  LocalId count_, last_, before_;  // by row, by row, by source
  LocalId any_of_many_;            // whether a row has more than kFew
  SourceRows source_rows_;
};

}  // namespace

bool scatters_rows(const View& index, int dim, const ir::Shape& sizes) {
  if (row_elements(sizes, dim) < kMinRow || ir::numel(sizes) < kMinTotal) return false;
  return is_same_along_row(index, dim) && sizes[sizes.rank() - 1] > 1;
}

KernelDraft scatter_kernel(const Program& program) {
  const Node& node = program.nodes.back();
  return scatters_rows(node.operands[0], node.scatter_dim, node.domain) ? ByRows(program).run()
                                                                        : ByColumns(program).run();
}

}  // namespace tandem::codegen
