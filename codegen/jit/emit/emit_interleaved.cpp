// Accesses of the columns of narrow rows (codegen/jit/interleaved.h): as many vectors as a row has
// elements, with the rows one after the other, and as many with a column each, are made of each
// other by shuffles.
#include <algorithm>
#include <span>

#include "codegen/jit/emit/emitter.h"

namespace tandem::jit {
namespace {

size_t lanes_in(llvm::Value* v) {
  return llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements();
}

/// A vector of elements of several: lane l is element source(l) % lanes of vector source(l) /
/// lanes.
template <class Source>
llvm::Value* picked(llvm::IRBuilderBase& ir, std::span<llvm::Value* const> from, Source source) {
  const size_t lanes = lanes_in(from[0]);
  llvm::Value* result = nullptr;      // the first vector stays unsorted until the second joins it
  std::vector<int> place(lanes, -1);  // of lanes that result has: where
  for (size_t v = 0; v < from.size(); ++v) {
    std::vector<size_t> fresh;
    for (size_t l = 0; l < lanes; ++l)
      if (source(l) / lanes == v) fresh.push_back(l);
    if (fresh.empty()) continue;
    for (const size_t l : fresh)
      place[l] = static_cast<int>(source(l) % lanes + (result ? lanes : 0));
    if (!result) {
      result = from[v];
      continue;
    }
    result = ir.CreateShuffleVector(result, from[v], place);
    for (size_t l = 0; l < lanes; ++l)
      if (place[l] >= 0) place[l] = static_cast<int>(l);
  }
  return result;
}

size_t least_factor(size_t n) {
  for (size_t p = 2; p * p <= n; ++p)
    if (n % p == 0) return p;
  return n;
}

std::span<llvm::Value* const> group(const Parts& vectors, size_t first, size_t count) {
  return {vectors.data() + first, count};
}

/// The columns of rows that have as many elements as there are vectors: what lies p columns apart,
/// for a prime p, and of that the columns.
Parts columns_of(llvm::IRBuilderBase& ir, const Parts& rows) {
  if (rows.size() == 1) return rows;
  const size_t p = least_factor(rows.size());
  Parts out(rows.size());
  for (size_t r = 0; r < p; ++r) {
    Parts every;
    for (size_t v = 0; v < rows.size(); v += p)
      every.push_back(picked(ir, group(rows, v, p), [&](size_t l) { return l * p + r; }));
    const Parts columns = columns_of(ir, every);
    for (size_t c = 0; c < columns.size(); ++c) out[c * p + r] = columns[c];
  }
  return out;
}

/// The rows of these columns, one after the other.
Parts rows_of(llvm::IRBuilderBase& ir, const Parts& columns) {
  if (columns.size() == 1) return columns;
  const size_t p = least_factor(columns.size()), lanes = lanes_in(columns[0]);
  std::vector<Parts> every(p);
  for (size_t c = 0; c < columns.size(); ++c) every[c % p].push_back(columns[c]);
  for (Parts& some : every) some = rows_of(ir, some);
  Parts out;
  for (size_t v = 0; v < every[0].size(); ++v) {
    Parts here;
    for (const Parts& some : every) here.push_back(some[v]);
    for (size_t part = 0; part < p; ++part)
      out.push_back(picked(ir, group(here, 0, p), [&](size_t l) {
        const size_t element = part * lanes + l;
        return element % p * lanes + element / p;
      }));
  }
  return out;
}

}  // namespace

// What stores only some columns needs masked stores of single elements.
void Emitter::find_interleaved(size_t at) {
  sorted_.clear();
  std::ranges::fill(sorted_of_, -1);
  for (Interleaved& i : interleaved(kernel_, at, ends_[at])) {
    if (i.stores && !i.whole && !target_.has("avx512bw")) continue;
    for (const size_t member : i.members) sorted_of_[member] = static_cast<int>(sorted_.size());
    sorted_.push_back({std::move(i), {}});
  }
  find_column_sums(at);
}

Emitter::Address Emitter::address(const Sorted& s) {
  codegen::Access access = kernel_.code[s.what.members[0]].access;
  access.index.offset = s.what.first;
  return address(access, kernel_.code[s.what.members[0]].dtype);
}

/// Of vector `vector` of the rows of `part`: null for all lanes. Behind the last row's last column
/// there may be no memory.
llvm::Value* Emitter::row_mask(const Interleaved& i, unsigned part, unsigned vector) {
  const auto lanes = static_cast<int>(scope_.lanes);
  llvm::Value* rows = scope_.mask(part) ? scope_.left[part] : ir_.getInt32(scope_.lanes);
  llvm::Value* elements =
      ir_.CreateSub(ir_.CreateMul(rows, ir_.getInt32(static_cast<uint32_t>(i.stride))),
                    ir_.getInt32(static_cast<uint32_t>(i.stride - i.width)));
  const int before = static_cast<int>(vector) * lanes;
  const auto* known = llvm::dyn_cast<llvm::ConstantInt>(elements);
  llvm::Value* mask = nullptr;
  if (!known || known->getSExtValue() < before + lanes)
    mask = ir_.CreateICmpSLT(lane_numbers(ir_.getInt32Ty(), scope_.lanes),
                             spread(ir_.CreateSub(elements, ir_.getInt32(before))));
  if (!i.stores || i.whole) return mask;
  std::vector<llvm::Constant*> stored;
  for (int l = 0; l < lanes; ++l)
    stored.push_back(ir_.getInt1(std::ranges::count(i.columns, (before + l) % i.stride) > 0));
  llvm::Value* columns = llvm::ConstantVector::get(stored);
  return mask ? ir_.CreateAnd(mask, columns) : columns;
}

void Emitter::load_sorted(size_t at, Sorted& s) {
  if (at == s.what.members.front()) load_rows(s);
  const auto member = std::ranges::find(s.what.members, at) - s.what.members.begin();
  const auto column = static_cast<size_t>(s.what.columns[static_cast<size_t>(member)]);
  Parts parts;
  for (const Parts& columns : s.columns)
    parts.push_back(to_register(columns[column], kernel_.code[at].dtype));
  set(at, std::move(parts), false);
}

void Emitter::load_rows(Sorted& s) {
  const Address a = address(s);
  llvm::Type* type = vector_type(a.element, scope_.lanes);
  s.columns.clear();
  for (unsigned p = 0; p < scope_.parts; ++p) {
    Parts vectors;
    for (unsigned v = 0; v < static_cast<unsigned>(s.what.stride); ++v) {
      llvm::Value* from = ir_.CreateGEP(a.element, part_base(a, p), i64(int64_t{v} * scope_.lanes));
      llvm::Value* mask = row_mask(s.what, p, v);
      llvm::Value* zeros = llvm::Constant::getNullValue(type);
      vectors.push_back(mask ? static_cast<llvm::Value*>(ir_.CreateMaskedLoad(
                                   type, from, llvm::Align(a.size), mask, zeros))
                             : ir_.CreateAlignedLoad(type, from, llvm::Align(a.size)));
    }
    s.columns.push_back(columns_of(ir_, vectors));
  }
}

void Emitter::store_sorted(size_t at, Sorted& s) {
  if (at != s.what.members.back()) return;
  Address a = address(s);
  const codegen::Instr& last = kernel_.code[at];
  Parts rows;
  for (unsigned p = 0; p < scope_.parts; ++p) {
    Parts columns(static_cast<size_t>(s.what.stride),
                  llvm::PoisonValue::get(vector_type(a.element, scope_.lanes)));
    for (size_t m = 0; m < s.what.members.size(); ++m)
      columns[static_cast<size_t>(s.what.columns[m])] =
          to_memory(part(kernel_.code[s.what.members[m]].args[0], p), last.dtype);
    const Parts vectors = rows_of(ir_, columns);
    rows.append(vectors.begin(), vectors.end());
  }
  a.lane_stride = 1;
  if (s.what.whole && may_stream(last.access, a)) return stream(a, rows);
  for (unsigned v = 0; v < rows.size(); ++v) {
    const auto each = static_cast<unsigned>(s.what.stride);
    llvm::Value* mask = row_mask(s.what, v / each, v % each);
    if (mask)
      ir_.CreateMaskedStore(rows[v], part_base(a, v), llvm::Align(a.size), mask);
    else
      ir_.CreateAlignedStore(rows[v], part_base(a, v), llvm::Align(a.size));
  }
}

// Sums of the columns of narrow rows go row by row, as their order says. So the columns are made
// rows again, and added together.
void Emitter::find_column_sums(size_t at) {
  column_sums_.clear();
  std::ranges::fill(column_sum_of_, -1);
  if (has_blocks(scope_.loop)) return;
  size_t last = 0;
  for (size_t i = at + 1; i < ends_[at]; ++i) {
    if (kernel_.code[i].kind != InstrKind::Accumulate) continue;
    const codegen::Accumulator& acc = kernel_.accumulators[kernel_.code[i].accumulator];
    if (acc.loop != scope_.loop || acc.lanes != 1 || !is_ordered(acc)) continue;
    const auto goes_on = [&] {
      const std::vector<size_t>& row = column_sums_.back().members;
      const codegen::Accumulator& first = kernel_.accumulators[kernel_.code[row[0]].accumulator];
      return last + 1 == i && row.size() < scope_.lanes && first.combine == acc.combine &&
             first.dtype == acc.dtype;
    };
    if (column_sums_.empty() || !goes_on()) column_sums_.emplace_back();
    column_sums_.back().members.push_back(i);
    column_sum_of_[i] = static_cast<int>(column_sums_.size()) - 1;
    last = i;
  }
}

Emitter::Running& Emitter::running_of(const ColumnSums& sums, size_t column) {
  return running_[kernel_.code[sums.members[column]].accumulator];
}

void Emitter::begin_column_sums() {
  for (const ColumnSums& sums : column_sums_) {
    llvm::Value* identity = running_of(sums, 0).value[0];
    for (size_t c = 1; c < sums.members.size(); ++c) running_of(sums, c).value.clear();
    if (sums.width() > 1)
      running_of(sums, 0).value[0] = ir_.CreateVectorSplat(sums.width(), identity);
  }
}

// Lanes outside of the loop add nothing (ir/reduction_order.h).
void Emitter::add_rows(size_t at, const ColumnSums& sums) {
  if (at != sums.members.back()) return;
  const codegen::Accumulator& acc = kernel_.accumulators[kernel_.code[at].accumulator];
  llvm::Value*& sum = running_of(sums, 0).value[0];
  for (unsigned p = 0; p < scope_.parts; ++p) {
    Parts columns;
    for (const size_t member : sums.members) {
      llvm::Value* x = part(kernel_.code[member].args[0], p);
      if (scope_.mask(p)) x = ir_.CreateSelect(scope_.mask(p), x, identity_of(acc, x->getType()));
      columns.push_back(x);
    }
    while (columns.size() < sums.width()) columns.push_back(columns.back());
    for (llvm::Value* rows : rows_of(ir_, columns))
      for (unsigned l = 0; l < scope_.lanes; l += sums.width())
        sum = combine(acc, sum, first_lanes(rows, l, sums.width()));
  }
}

void Emitter::end_column_sums() {
  for (const ColumnSums& sums : column_sums_) {
    llvm::Value* row = running_of(sums, 0).value[0];
    if (sums.width() == 1) continue;
    for (size_t c = 0; c < sums.members.size(); ++c)
      running_of(sums, c).value.assign(1, ir_.CreateExtractElement(row, uint64_t{c}));
  }
}

}  // namespace tandem::jit
