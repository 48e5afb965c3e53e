// Runs a kernel one element at a time. Slow and obvious: the oracle for the emitter.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "codegen/loops/combine.h"
#include "codegen/loops/kernel.h"
#include "codegen/loops/scalar_functions.h"
#include "ir/base/error.h"
#include "ir/reduction_order.h"

namespace tandem::codegen {
namespace {

using ir::DType;
using Kind = Instr::Kind;

Cell load(const std::byte* base, int64_t index, DType dtype) {
  const ir::Number n =
      ir::load_element(base + index * static_cast<int64_t>(ir::size_of(dtype)), dtype);
  return ir::is_held_as_double(dtype) ? Cell{n.to_double(), 0} : Cell{0, n.to_int()};
}

void store(std::byte* base, int64_t index, DType dtype, Cell c) {
  const ir::Number n = ir::is_held_as_double(dtype) ? ir::Number(c.f) : ir::Number(c.i);
  ir::store_element(base + index * static_cast<int64_t>(ir::size_of(dtype)), dtype, n);
}

struct Block {
  uint32_t word[4];
};

/// Philox4x32-10.
Block philox(uint64_t key, uint64_t counter) {
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    const uint32_t n[4] = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
                           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    std::copy(n, n + 4, c);
  }
  return {{c[0], c[1], c[2], c[3]}};
}

int64_t random_word(DType dtype, Cell key, Cell base, int64_t offset, int64_t i) {
  const bool wide = dtype == DType::I64;
  const auto counter = static_cast<uint64_t>(base.i + offset + i / (wide ? 2 : 4));
  const Block b = philox(static_cast<uint64_t>(key.i), counter);
  if (!wide) return static_cast<int32_t>(b.word[i % 4]);
  const size_t low = 2 * static_cast<size_t>(i % 2);
  return static_cast<int64_t>(uint64_t{b.word[low]} | uint64_t{b.word[low + 1]} << 32);
}

/// A candidate of argmax, or any other accumulated value (then `position` is unused).
struct Entry {
  Cell value;
  int64_t position = -1;
};

Cell lowest(DType dtype) {
  if (ir::is_floating(dtype)) return {-std::numeric_limits<double>::infinity(), 0};
  if (dtype == DType::U8 || dtype == DType::Bool) return {0, 0};
  const auto bits = static_cast<int>(ir::size_of(dtype)) * 8;
  return {0, static_cast<int64_t>(~uint64_t{0} << (bits - 1))};
}

Cell highest(DType dtype) {
  if (ir::is_floating(dtype)) return {std::numeric_limits<double>::infinity(), 0};
  if (dtype == DType::Bool) return {0, 1};
  return {0, dtype == DType::U8 ? 255 : ~lowest(dtype).i};
}

Entry identity(const Accumulator& acc) {
  switch (acc.combine) {
    case Combine::Prod:
      return {{1, 1}};
    case Combine::All:
      return {{0, 1}};
    case Combine::Max:
      return {lowest(acc.dtype)};
    case Combine::Min:
      return {highest(acc.dtype)};
    default:
      return {};
  }
}

/// Whether `b` replaces `a` in argmax or argmin: strictly better, or equal and earlier.
bool better(const Accumulator& acc, const Entry& b, const Entry& a) {
  if (a.position < 0 || b.position < 0) return b.position >= 0;
  const bool max = acc.combine == Combine::ArgMax;
  if (ir::is_integral(acc.dtype)) {
    if (a.value.i == b.value.i) return b.position < a.position;
    return (b.value.i > a.value.i) == max;
  }
  const bool nan_a = std::isnan(a.value.f), nan_b = std::isnan(b.value.f);
  if (nan_a != nan_b) return nan_b;
  if (nan_a || a.value.f == b.value.f) return b.position < a.position;
  return (b.value.f > a.value.f) == max;
}

Entry combine(const Accumulator& acc, const Entry& a, const Entry& b) {
  if (finds_position(acc.combine)) return better(acc, b, a) ? b : a;
  const Cell args[] = {a.value, b.value};
  const DType types[] = {acc.dtype, acc.dtype};
  return {compute(combining_op(acc.combine), args, types, acc.dtype)};
}

class Interpreter {
 public:
  Interpreter(const Kernel& k, void* const* params, KernelError* error)
      : k_(k),
        params_(params),
        error_(error),
        values_(k.code.size()),
        index_(k.loops.size()),
        entries_(k.accumulators.size()),
        dots_(k.accumulators.size()),
        ends_(k.code.size()) {
    for (const Local& l : k.locals)
      locals_.emplace_back(static_cast<size_t>(l.elements) * ir::size_of(l.dtype) + 1);
    std::vector<size_t> open;
    for (size_t i = 0; i < k.code.size(); ++i) {
      if (k.code[i].kind == Kind::LoopBegin) open.push_back(i);
      if (k.code[i].kind == Kind::LoopEnd) ends_[open.back()] = i, open.pop_back();
    }
  }

  bool unit(int64_t number) {
    for (LoopId l = k_.loops.next(); l.index-- > 0;) {
      if (k_.loops[l].kind != Loop::Kind::Unit) continue;
      index_[l] = number % k_.loops[l].extent;
      number /= k_.loops[l].extent;
    }
    for (auto& l : locals_) std::fill(l.begin(), l.end(), std::byte{0xA5});
    return run(0, k_.code.size());
  }

 private:
  int64_t at(const Affine& a) const {
    int64_t v = a.offset;
    for (const auto& t : a.terms) v += t.stride * index_[t.loop];
    return v;
  }

  int64_t trips(const Loop& l) const {
    if (!l.clamp_loop.valid()) return l.extent;
    const int64_t left = l.clamp_total - l.extent * index_[l.clamp_loop];
    return std::min(l.extent, left);
  }

  bool failed(size_t i, int64_t value, int64_t extent) {
    *error_ = {static_cast<int64_t>(i), value, extent};
    return false;
  }

  bool run(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (k_.code[i].kind != Kind::LoopBegin) {
        if (!step(i)) return false;
        continue;
      }
      if (!loop(i)) return false;
      i = ends_[i];
    }
    return true;
  }

  bool loop(size_t i) {
    const LoopId id = k_.code[i].loop;
    for (AccumulatorId a : entries_.ids())
      if (k_.accumulators[a].loop == id) entries_[a].clear(), dots_[a] = {};
    const bool runs = k_.code[i].args.empty() || arg(k_.code[i], 0).i != 0;
    const int64_t n = runs ? trips(k_.loops[id]) : 0;
    for (int64_t j = 0; j < n; ++j) {
      index_[id] = j;
      if (!run(i + 1, ends_[i])) return false;
    }
    return true;
  }

  /// The address of an access; false if an index is out of range.
  bool address(size_t i, std::byte*& base, int64_t& index) {
    const Access& a = k_.code[i].access;
    base = a.is_local() ? locals_[a.local].data() : static_cast<std::byte*>(params_[a.param.index]);
    index = at(a.index);
    for (const auto& x : a.indirect) {
      const int64_t v = values_[x.value.index].i;
      if (v < 0 || v >= x.extent) return failed(i, v, x.extent);
      index += v * x.stride;
    }
    if (a.is_local())
      TANDEM_CHECK(index >= 0 && index < k_.locals[a.local].elements, "local out of range");
    return true;
  }

  Cell arg(const Instr& i, size_t n) const { return values_[i.args[n].index]; }

  void accumulate(const Instr& i) {
    const AccumulatorId a = i.accumulator;
    const Accumulator& acc = k_.accumulators[a];
    if (acc.combine != Combine::Dot) {
      entries_[a].push_back({arg(i, 0), index_[acc.loop]});
      return;
    }
    const Cell args[] = {arg(i, 0), arg(i, 1), dots_[a]};
    const DType types[] = {acc.dtype, acc.dtype, acc.dtype};
    if (ir::is_floating(acc.dtype)) {
      dots_[a] = compute(ir::Op::fma, args, types, acc.dtype);
      return;
    }
    const Cell sum[] = {dots_[a], compute(ir::Op::mul, args, types, acc.dtype)};
    dots_[a] = compute(ir::Op::add, sum, types, acc.dtype);
  }

  Cell reduced(const Instr& i) const {
    const AccumulatorId a = i.accumulator;
    const Accumulator& acc = k_.accumulators[a];
    if (acc.combine == Combine::Dot) return dots_[a];
    const auto& entries = entries_[a];
    const auto n = static_cast<int64_t>(entries.size());
    const ir::ReductionOrder order{acc.lanes, acc.block == 0 ? std::max<int64_t>(n, 1) : acc.block};
    const Entry result = ir::reduce_in_order<Entry>(
        order, n, identity(acc), [&](int64_t j) { return entries[static_cast<size_t>(j)]; },
        [&](const Entry& x, const Entry& y) { return combine(acc, x, y); });
    return finds_position(acc.combine) ? Cell{0, result.position} : result.value;
  }

  bool compute_step(size_t at) {
    const Instr& i = k_.code[at];
    Cell args[4];
    DType types[4];
    for (size_t n = 0; n < i.args.size(); ++n) {
      args[n] = arg(i, n);
      types[n] = k_.code[i.args[n].index].dtype;
    }
    if (divides(i.op) && ir::is_integral(i.dtype) && args[1].i == 0) return failed(at, 0, 0);
    values_[at] = compute(i.op, {args, i.args.size()}, {types, i.args.size()}, i.dtype);
    return true;
  }

  bool step(size_t at_code) {
    const Instr& i = k_.code[at_code];
    Cell& value = values_[at_code];
    std::byte* base = nullptr;
    int64_t index = 0;
    switch (i.kind) {
      case Kind::Constant: {
        const ir::Number n = ir::rounded_to(i.dtype, i.number);
        value = ir::is_held_as_double(i.dtype) ? Cell{n.to_double(), 0} : Cell{0, n.to_int()};
        return true;
      }
      case Kind::Index:
        return value = {0, at(i.affine)}, true;
      case Kind::Load:
        if (!address(at_code, base, index)) return false;
        return value = load(base, index, i.dtype), true;
      case Kind::Store:
        if (!address(at_code, base, index)) return false;
        return store(base, index, i.dtype, arg(i, 0)), true;
      case Kind::Compute:
        return compute_step(at_code);
      case Kind::RandomBits:
        value = {0, random_word(i.dtype, arg(i, 0), arg(i, 1), i.number.to_int(), at(i.affine))};
        return true;
      case Kind::Accumulate:
        return accumulate(i), true;
      case Kind::Reduced:
        return value = reduced(i), true;
      case Kind::LoopBegin:
      case Kind::LoopEnd:
        return true;
    }
    return true;
  }

  const Kernel& k_;
  void* const* params_;
  KernelError* error_;
  std::vector<Cell> values_;
  Table<LoopId, int64_t> index_;
  Table<AccumulatorId, std::vector<Entry>> entries_;
  Table<AccumulatorId, Cell> dots_;
  Table<LocalId, std::vector<std::byte>> locals_;
  std::vector<size_t> ends_;  // LoopBegin -> its LoopEnd
};

}  // namespace

int64_t interpret(const Kernel& kernel, void* const* params, int64_t begin, int64_t end,
                  KernelError* error) {
  Interpreter interpreter(kernel, params, error);
  for (int64_t u = begin; u < end; ++u)
    if (!interpreter.unit(u)) return 1;
  return 0;
}

}  // namespace tandem::codegen
