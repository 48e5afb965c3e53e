// Sizes that steps and loops of one kind have in common become one entry of the table: that two
// accesses go the same way is known to the code, that the sizes of two dims are equal by chance is
// not.
#include "codegen/jit/open_sizes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <tuple>

#include "codegen/jit/interleaved.h"
#include "codegen/jit/transposition.h"

namespace tandem::jit {
namespace {

using codegen::Affine;
using codegen::Instr;
using codegen::Kernel;
using codegen::Loop;
using codegen::LoopId;
using codegen::ParamId;

/// Vector loops are emitted alike from one of these lengths to the next. Shorter ones become fewer
/// vectors, or narrower ones.
constexpr std::array<int64_t, 7> kLengths = {16, 32, 64, 512, 4096, 32768, int64_t{1} << 40};

/// Chunks of a row that take so long that nothing is lost where code does not know their length.
constexpr int64_t kLongChunk = 512;

class Opener {
 public:
  Opener(Opened& opened, Openness openness)
      : kernel_(opened.form.kernel),
        form_(opened.form),
        numbers_(opened.numbers),
        all_(openness == Openness::All),
        transposed_(kernel_.loops.size()),
        inside_(kernel_.loops.size()) {}

  void run() {
    form_.extents.assign(kernel_.loops.size(), -1);
    const size_t numbers = numbers_.size();
    find_nests();
    drop_idle_clamps();
    for (LoopId l : kernel_.loops.ids()) open_loop(l);
    for (Instr& i : kernel_.code) open_instruction(i);
    if (all_)
      for (codegen::Local& local : kernel_.locals) open(Kind::Local, 0, local.elements);
    form_.sizes = static_cast<int>(numbers_.size() - numbers);
    if (form_.sizes == 0) form_.extents.clear();
  }

 private:
  enum class Kind : uint8_t {
    Extent,
    Total,
    Stride,
    Step,
    Word,
    Offset,
    Index,
    IndexStride,
    Local
  };

  Loop& loop(LoopId l) { return kernel_.loops[l]; }

  /// Notes the loops of transpositions, and those inside vector loops.
  void find_nests() {
    LoopId vector;
    const std::vector<Instr>& code = kernel_.code;
    for (size_t at = 0; at < code.size(); ++at) {
      const LoopId l = code[at].loop;
      if (code[at].kind == Instr::Kind::LoopEnd && l == vector) vector = {};
      if (code[at].kind != Instr::Kind::LoopBegin) continue;
      inside_[l] = vector.valid();
      if (loop(l).kind == Loop::Kind::Vector) vector = l;
      if (const auto copy = transposition(kernel_, at, true))
        transposed_[copy->outer] = transposed_[copy->inner] = true;
    }
  }

  /// Chunks of a known length that are all whole.
  void drop_idle_clamps() {
    for (LoopId l : kernel_.loops.ids()) {
      Loop& chunk = kernel_.loops[l];
      if (!chunk.clamp_loop.valid() || largest_like(l) >= 0) continue;
      if (loop(chunk.clamp_loop).extent * chunk.extent <= chunk.clamp_total)
        chunk.clamp_loop = {}, chunk.clamp_total = 0;
    }
  }

  /// The entry for `size`, which things of this kind (over this loop) share.
  void open(Kind kind, int64_t of, int64_t& size, int shift = 0) {
    const auto number = static_cast<int>(numbers_.size());
    const auto [at, fresh] = entries_.try_emplace({kind, of, size}, number);
    if (fresh) numbers_.push_back(static_cast<uint64_t>(size >> shift));
    size = OpenSize{at->second, shift}.encoded();
  }

  void open_loop(LoopId l) {
    Loop& loop = kernel_.loops[l];
    const int64_t largest = largest_like(l);
    if (largest >= 0) {
      form_.extents[l] = loop.extent;
      const bool is_sweep = loop.kind == Loop::Kind::Vector;  // of which several run over one dim
      open(Kind::Extent, is_sweep ? 0 : int64_t{l.index} + 1, form_.extents[l]);
      loop.extent = largest;
    }
    if (loop.clamp_loop.valid()) open(Kind::Total, 0, loop.clamp_total);
  }

  /// The largest extent that code for loop `l` is as right for as for its own, or -1 where the code
  /// should know it.
  int64_t largest_like(LoopId l) const {
    const Loop& loop = kernel_.loops[l];
    if (loop.kind == Loop::Kind::Unit) return 2;
    if (inside_[l]) return -1;
    if (loop.kind == Loop::Kind::Serial) return loop.extent >= 2 ? 2 : -1;
    const bool is_open = all_ || (loop.clamp_loop.valid() && loop.extent >= kLongChunk);
    if (!is_open || loop.extent < kLengths[0] || has_whole_block(l)) return -1;
    const auto* const next = std::ranges::upper_bound(kLengths, loop.extent);
    return next == kLengths.end() ? -1 : *next - 1;
  }

  /// Whether a sum over the loop has blocks, but not two of them.
  bool has_whole_block(LoopId l) const {
    return std::ranges::any_of(kernel_.accumulators, [&](const codegen::Accumulator& a) {
      return a.loop == l && a.block >= kernel_.loops[l].extent;
    });
  }

  void open_instruction(Instr& i) {
    if (i.kind == Instr::Kind::RandomBits) {
      int64_t offset = i.number.to_int();
      open(Kind::Offset, -1, offset);
      i.number = offset;
      return open_words(i.affine);
    }
    open_steps(i.affine);
    open_steps(i.access.index, !may_interleave(kernel_, i.access));
    if (all_ && ir::size_of(i.dtype) >= 4) open_transposed_steps(i.access.index);
    for (codegen::Access::Indirect& x : i.access.indirect) {
      open(Kind::Index, 0, x.extent);
      if (all_) open(Kind::IndexStride, 0, x.stride);
    }
  }

  bool has_open_step(const Affine::Term& t) const {
    const Loop& loop = kernel_.loops[t.loop];
    return loop.kind != Loop::Kind::Vector && !inside_[t.loop] && !transposed_[t.loop];
  }

  void open_steps(Affine& a, bool is_open = true) {
    for (Affine::Term& t : a.terms)
      if (has_open_step(t)) open(Kind::Stride, t.loop.index, t.stride);
    if (all_ && is_open && a.offset != 0) open(Kind::Offset, 0, a.offset);
  }

  /// Code knows which of them are one element, and which lines of 16 or 8.
  void open_transposed_steps(Affine& a) {
    for (Affine::Term& t : a.terms) {
      if (!transposed_[t.loop] || t.stride == 1) continue;
      const int shift = t.stride % 16 == 0 ? 4 : 0;
      open(Kind::Step, 8 * int64_t{t.loop.index} + shift, t.stride, shift);
    }
  }

  /// Of random words code knows whether they begin with a whole counter.
  void open_words(Affine& a) {
    for (Affine::Term& t : a.terms) {
      const int shift = std::min(std::countr_zero(static_cast<uint64_t>(t.stride)), 2);
      if (has_open_step(t)) open(Kind::Word, 8 * int64_t{t.loop.index} + shift, t.stride, shift);
    }
  }

  Kernel& kernel_;
  Form& form_;
  std::vector<uint64_t>& numbers_;
  const bool all_;
  codegen::Table<LoopId, bool> transposed_, inside_;
  std::map<std::tuple<Kind, int64_t, int64_t>, int> entries_;
};

bool is_access(const Instr& i) {
  return (i.kind == Instr::Kind::Load || i.kind == Instr::Kind::Store) && !i.access.is_local();
}

/// Of each param whether its elements are read only before, and where, they are written, as where a
/// result lies where an operand lies.
codegen::Table<ParamId, bool> read_before_written(const Kernel& kernel) {
  codegen::Table<ParamId, bool> is_written(kernel.params.size()), good(kernel.params.size(), true);
  for (const Instr& i : kernel.code) {
    if (!is_access(i)) continue;
    const ParamId param = i.access.param;
    const bool stores = i.kind == Instr::Kind::Store;
    if (stores) is_written[param] = true;
    if ((is_written[param] && !stores) || i.access.again || !i.access.indirect.empty())
      good[param] = false;
  }
  return good;
}

/// What is read and what is written are params of their own, by their first access: whether they
/// lie in the same memory is up to the call.
void separate_params(Opened& opened) {
  Kernel& kernel = opened.form.kernel;
  const codegen::Table<ParamId, bool> separable = read_before_written(kernel);
  codegen::Table<ParamId, codegen::Param> params;
  std::map<std::pair<ParamId, bool>, ParamId> ids;  // of a param, and whether it is only written
  for (Instr& i : kernel.code) {
    if (!is_access(i)) continue;
    const ParamId old = i.access.param;
    const bool apart = separable[old], stores = i.kind == Instr::Kind::Store;
    const auto [at, fresh] = ids.try_emplace({old, apart && stores}, params.next());
    if (fresh) {
      codegen::Param& p = params.emplace_back(kernel.params[old]);
      if (apart) p.use = stores ? codegen::Param::Use::Write : codegen::Param::Use::Read;
      p.streams &= stores || !apart;
      opened.params.push_back(old);
    }
    i.access.param = at->second;
  }
  kernel.params = std::move(params);
}

}  // namespace

void open_sizes(Opened& opened, Openness openness) {
  if (openness == Openness::All) separate_params(opened);
  Opener(opened, openness).run();
}

}  // namespace tandem::jit
