// Kernels as values: sizes, equality, hash, and the check of kernel.h's rules.
#include "codegen/loops/kernel.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "codegen/hasher.h"
#include "codegen/loops/combine.h"
#include "ir/base/error.h"

namespace tandem::codegen {
namespace {

using Kind = Instr::Kind;

/// The words themselves, eight bytes each.
struct Writer {
  std::string text;
  void word(int64_t v) { text.append(reinterpret_cast<const char*>(&v), sizeof v); }
};

/// Walks over all that makes a kernel what it is. Lists begin with their length, so that different
/// kernels give different words.
template <class Sink>
class Walker {
 public:
  explicit Walker(Sink& sink) : sink_(sink) {}

  void add(const Kernel& k) {
    list(k.params), list(k.locals), list(k.loops), list(k.accumulators), list(k.code);
  }

 private:
  template <class... T>
  void words(T... v) {
    (sink_.word(word_of(v)), ...);
  }
  template <class T>
  static int64_t word_of(T v) {
    return static_cast<int64_t>(v);
  }
  template <class Tag>
  static int64_t word_of(ir::Id<Tag> id) {
    return id.valid() ? int64_t{id.index} : -1;
  }
  void list(const auto& items) {
    words(items.size());
    for (const auto& item : items) add(item);
  }
  void add(InstrId v) { words(v); }
  void add(const Param& p) { words(p.dtype, p.use, p.streams); }
  void add(const Local& l) { words(l.dtype, l.elements); }
  void add(const Loop& l) { words(l.kind, l.extent, l.clamp_loop, l.clamp_total); }
  void add(const Accumulator& a) { words(a.combine, a.dtype, a.loop, a.lanes, a.block); }
  void add(const Affine::Term& t) { words(t.loop, t.stride); }
  void add(const Affine& a) { words(a.offset), list(a.terms); }
  void add(const Access::Indirect& i) { words(i.value, i.stride, i.extent); }
  void add(const Access& a) {
    words(a.is_local(), a.is_local() ? a.local.index : a.param.index, a.again), add(a.index),
        list(a.indirect);
  }
  void add(const ir::Number& n) {
    words(n.kind(), n.is_float() ? std::bit_cast<int64_t>(n.to_double()) : n.to_int());
  }
  void add(const Instr& i) {
    words(i.kind, i.dtype, i.op, i.loop, i.accumulator), list(i.args);
    add(i.number), add(i.affine), add(i.access);
  }

  Sink& sink_;
};

/// Walks the code once, keeping the stack of open loops.
class Verifier {
 public:
  explicit Verifier(const Kernel& k) : k_(k), in_scope_(k.code.size()) {}

  void run() {
    loops();
    for (LoopId l : k_.loops.ids())
      if (k_.loops[l].kind == Loop::Kind::Unit) open_.push_back(l);
    units_ = open_.size();
    for (at_ = 0; at_ < k_.code.size(); ++at_) instruction(k_.code[at_]);
    check(open_.size() == units_, "a loop is not closed");
  }

 private:
  void check(bool ok, const char* what) const {
    TANDEM_CHECK(ok, "kernel " + k_.name + ", instruction " + std::to_string(at_) + ": " + what);
  }

  void loops() const {
    bool inner = false;
    for (LoopId l : k_.loops.ids()) {
      const Loop& loop = k_.loops[l];
      const bool unit = loop.kind == Loop::Kind::Unit;
      check(!unit || !inner, "unit loops come first");
      check(!unit || !loop.clamp_loop.valid(), "a unit loop has a fixed extent");
      check(loop.extent >= 0 && (!loop.clamp_loop.valid() || loop.clamp_loop < l),
            "loop extent or clamp");
      inner |= !unit;
    }
  }

  bool is_open(LoopId loop) const { return std::ranges::count(open_, loop) != 0; }

  void affine(const Affine& a) const {
    LoopId last;
    for (const auto& t : a.terms) {
      check((!last.valid() || t.loop > last) && t.stride != 0,
            "affine terms are sorted and not zero");
      check(is_open(t.loop), "an affine index uses a loop that is not open");
      last = t.loop;
    }
  }

  /// A value may be used while the loop that it was computed in is open.
  void argument(InstrId value) const {
    check(value.index < at_, "an argument is not defined yet");
    check(in_scope_[value.index], "an argument has no value or its loop is closed");
  }

  void access(const Instr& i, bool store) const {
    const Access& a = i.access;
    check(a.is_local() ? a.local.index < k_.locals.size() : a.param.index < k_.params.size(),
          "no such buffer");
    affine(a.index);
    for (const auto& x : a.indirect) {
      argument(x.value);
      check(k_.code[x.value.index].dtype == ir::DType::I64, "an index is i64");
    }
    const ir::DType dtype = a.is_local() ? k_.locals[a.local].dtype : k_.params[a.param].dtype;
    check(i.dtype == dtype, "the dtype of an access is its buffer's");
    if (a.is_local()) return;
    check(!k_.params[a.param].streams || store || a.again, "streams what it reads");
    check(k_.params[a.param].use != (store ? Param::Use::Read : Param::Use::Write),
          "an access that the parameter's use does not allow");
  }

  void begin(const Instr& i) {
    check(i.loop.index >= units_ && i.loop.index < k_.loops.size(), "no such loop");
    check(!is_open(i.loop), "a loop is opened twice");
    const Loop& loop = k_.loops[i.loop];
    for (LoopId l : open_)
      check(loop.kind != Loop::Kind::Vector || k_.loops[l].kind != Loop::Kind::Vector,
            "a vector loop in a vector loop");
    check(!loop.clamp_loop.valid() || is_open(loop.clamp_loop), "the clamping loop is not open");
    if (!i.args.empty()) condition(i, loop);
    open_.push_back(i.loop);
  }

  void condition(const Instr& i, const Loop& loop) const {
    check(i.args.size() == 1 && k_.code[i.args[0].index].dtype == ir::DType::Bool,
          "a loop's condition");
    check(loop.kind == Loop::Kind::Serial, "only serial loops have a condition");
    for (LoopId l : open_)
      check(k_.loops[l].kind != Loop::Kind::Vector, "a condition inside a vector loop");
  }

  void end(const Instr& i) {
    check(open_.size() > units_ && open_.back() == i.loop, "loops are not properly nested");
    open_.pop_back();
    for (size_t v = at_;
         v-- > 0 && !(k_.code[v].kind == Kind::LoopBegin && k_.code[v].loop == i.loop);)
      in_scope_[v] = false;
  }

  /// A loop runs in blocks of one length: those of all its accumulators whose order matters.
  static bool run_in_blocks(const Accumulator& a, const Accumulator& b) {
    return a.loop != b.loop || a.block == b.block || !is_ordered(a.combine, a.dtype) ||
           !is_ordered(b.combine, b.dtype);
  }

  void accumulate(const Instr& i) const {
    check(i.accumulator.index < k_.accumulators.size(), "no such accumulator");
    const Accumulator& acc = k_.accumulators[i.accumulator];
    check(!open_.empty() && open_.back() == acc.loop, "accumulates outside its loop");
    const bool serial = k_.loops[acc.loop].kind == Loop::Kind::Serial;
    check(!serial || (acc.lanes == 1 && acc.block == 0), "a serial accumulator has one lane");
    check(acc.lanes >= 1 && std::has_single_bit(static_cast<uint64_t>(acc.lanes)),
          "lanes are a power of two");
    check(acc.combine != Combine::Dot || serial, "dot accumulates over serial loops");
    check(std::ranges::all_of(k_.accumulators,
                              [&](const Accumulator& other) { return run_in_blocks(acc, other); }),
          "one loop reduces in blocks of two lengths");
    check(i.args.size() == (acc.combine == Combine::Dot ? 2u : 1u), "argument count");
    for (InstrId a : i.args) check(k_.code[a.index].dtype == acc.dtype, "the accumulator's dtype");
  }

  void instruction(const Instr& i) {
    for (InstrId a : i.args) argument(a);
    in_scope_[at_] = true;
    switch (i.kind) {
      case Kind::LoopBegin:
        return in_scope_[at_] = false, begin(i);
      case Kind::LoopEnd:
        return in_scope_[at_] = false, end(i);
      case Kind::Store:
        return in_scope_[at_] = false, access(i, true);
      case Kind::Accumulate:
        return in_scope_[at_] = false, accumulate(i);
      case Kind::Load:
        return access(i, false);
      case Kind::Index:
      case Kind::RandomBits:
        return affine(i.affine);
      case Kind::Compute:
        return check(ir::is_pointwise(i.op), "computes a pointwise op");
      case Kind::Reduced:
        return check(i.accumulator.index < k_.accumulators.size() &&
                         !is_open(k_.accumulators[i.accumulator].loop),
                     "read before its loop ends");
      case Kind::Constant:
        return;
    }
  }

  const Kernel& k_;
  std::vector<bool> in_scope_;  // by instruction: whether its value can be used
  std::vector<LoopId> open_;
  size_t units_ = 0, at_ = 0;
};

}  // namespace

int64_t stride_along(const Affine& a, LoopId loop) {
  for (const Affine::Term& t : a.terms)
    if (t.loop == loop) return t.stride;
  return 0;
}

int64_t Kernel::units() const {
  int64_t units = 1;
  for (const Loop& l : loops)
    if (l.kind == Loop::Kind::Unit) units *= l.extent;
  return units;
}

bool operator==(const Kernel& a, const Kernel& b) {
  return a.params == b.params && a.locals == b.locals && a.loops == b.loops &&
         a.accumulators == b.accumulators && a.code == b.code;
}

bool can_stream(const Kernel& kernel, ParamId param) {
  if (kernel.params[param].use == Param::Use::Read) return false;
  return std::none_of(kernel.code.begin(), kernel.code.end(), [&](const Instr& i) {
    return i.kind == Instr::Kind::Load && i.access.param == param && !i.access.again;
  });
}

int64_t most_read(const Kernel& kernel, ParamId param) {
  double most = 0;  // may exceed any integer
  for (const Instr& i : kernel.code) {
    if (i.kind != Instr::Kind::Load || i.access.param != param) continue;
    if (!i.access.indirect.empty()) return std::numeric_limits<int64_t>::max();
    double read = 1;
    for (const Affine::Term& t : i.access.index.terms)
      read *= static_cast<double>(kernel.loops[t.loop].extent);
    most += read;
  }
  return static_cast<int64_t>(std::min(most, 1e18));
}

size_t scratch_bytes(const Kernel& kernel) {
  size_t bytes = kernel.locals.empty() ? 0 : kLocalGap;
  for (const Local& l : kernel.locals)
    bytes += (static_cast<size_t>(l.elements) * ir::size_of(l.dtype) + 63) / 64 * 64 + kLocalGap;
  return bytes;
}

void verify(const Kernel& kernel) { Verifier(kernel).run(); }

uint64_t hash(const Kernel& kernel) {
  Hasher hasher;
  Walker(hasher).add(kernel);
  return hasher.state;
}

std::string content(const Kernel& kernel) {
  Writer writer;
  Walker(writer).add(kernel);
  return std::move(writer.text);
}

}  // namespace tandem::codegen
