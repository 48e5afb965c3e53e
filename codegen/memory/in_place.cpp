#include "codegen/memory/in_place.h"

#include <algorithm>
#include <tuple>

namespace tandem::codegen {
namespace {

using Kind = Instr::Kind;

/// An index with the loops of one sweep told apart from another's only by what they run over.
using Shape = std::vector<std::tuple<int64_t, int, int64_t, int64_t>>;

Shape shape_of(const Kernel& k, const Affine& a, LoopId first_own) {
  Shape out;
  for (const auto& t : a.terms) {
    const Loop& l = k.loops[t.loop];
    if (t.loop < first_own)
      out.push_back({t.loop.index, 0, 0, t.stride});
    else
      out.push_back({-1, static_cast<int>(l.kind), l.extent, t.stride});
  }
  std::sort(out.begin(), out.end());
  out.push_back({-2, 0, 0, a.offset});
  return out;
}

/// All sweeps are inside of the loops before this one: units and rows, which are declared first.
LoopId first_own_loop(const Kernel& k) {
  for (LoopId l : k.loops.ids())
    if (k.loops[l].kind == Loop::Kind::Vector) return l;
  return k.loops.next();
}

/// Where a parameter is accessed in the code.
struct Uses {
  int first = -1, last = -1;
  std::vector<Shape> shapes;  // distinct
  bool affine = true;

  void add(const Kernel& k, int at, LoopId first_own) {
    const Access& a = k.code[static_cast<size_t>(at)].access;
    if (first < 0) first = at;
    last = at;
    affine = affine && a.indirect.empty();
    Shape s = shape_of(k, a.index, first_own);
    if (std::find(shapes.begin(), shapes.end(), s) == shapes.end()) shapes.push_back(std::move(s));
  }
};

Uses uses_of(const Kernel& k, ParamId param) {
  Uses uses;
  const LoopId first_own = first_own_loop(k);
  for (int i = 0; i < static_cast<int>(k.code.size()); ++i) {
    const Instr& instr = k.code[static_cast<size_t>(i)];
    const bool access = instr.kind == Kind::Load || instr.kind == Kind::Store;
    if (access && instr.access.param == param) uses.add(k, i, first_own);
  }
  return uses;
}

/// Whether different iterations always give different elements, as in a dense tensor: by ascending
/// stride, each stride is at least what the smaller ones reach over.
bool is_injective(const Kernel& k, const Affine& a) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride, trips
  for (const auto& t : a.terms) {
    if (t.stride < 0) return false;
    steps.push_back({t.stride, k.loops[t.loop].extent});
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 1;
  for (const auto& [stride, trips] : steps) {
    if (stride < reach) return false;
    reach += stride * (trips - 1);
  }
  return true;
}

/// Whether every loop with more than one iteration takes part, so that no element is met twice.
bool uses_all_shared_loops(const Kernel& k, const Affine& a) {
  const LoopId first_own = first_own_loop(k);
  for (LoopId l{0}; l < first_own; ++l.index) {
    if (k.loops[l].extent <= 1) continue;
    const bool used = std::any_of(a.terms.begin(), a.terms.end(),
                                  [&](const Affine::Term& t) { return t.loop == l; });
    if (!used) return false;
  }
  return true;
}

/// Whether each element of param `read` is read for the last time before, and where, it is written
/// as one of `written`.
bool can_be_one(const Kernel& k, ParamId read, ParamId written) {
  const Param from = k.params[read];
  if (from.use != Param::Use::Read || from.dtype != k.params[written].dtype) return false;
  const Uses reads = uses_of(k, read), writes = uses_of(k, written);
  if (!reads.affine || !writes.affine || reads.last >= writes.first) return false;
  if (reads.shapes.size() != 1 || writes.shapes.size() != 1 || reads.shapes != writes.shapes)
    return false;
  const Affine& index = k.code[static_cast<size_t>(writes.first)].access.index;
  return is_injective(k, index) && uses_all_shared_loops(k, index);
}

}  // namespace

bool is_copy(const Kernel& k, ParamId read, ParamId written) {
  if (k.params.size() != 2) return false;
  int load = -1, store = -1;
  for (int i = 0; i < static_cast<int>(k.code.size()); ++i) {
    const Instr& instr = k.code[static_cast<size_t>(i)];
    if (instr.kind == Kind::LoopBegin || instr.kind == Kind::LoopEnd) continue;
    int& place = instr.kind == Kind::Load ? load : store;
    if ((instr.kind != Kind::Load && instr.kind != Kind::Store) || place >= 0) return false;
    place = i;
  }
  if (load < 0 || store < 0) return false;
  Access from = k.code[static_cast<size_t>(load)].access;
  const Instr& to = k.code[static_cast<size_t>(store)];
  if (from.param != read) return false;
  from.param = written;
  return from == to.access && from.indirect.empty() &&
         to.args[0].index == static_cast<uint32_t>(load);
}

std::optional<Kernel> merged_in_place(const Kernel& kernel, ParamId read, ParamId written) {
  if (!can_be_one(kernel, read, written)) return std::nullopt;
  Kernel k = kernel;
  for (Instr& i : k.code) {
    ParamId& param = i.access.param;
    if (!param.valid()) continue;
    if (param == written) param = read;
    if (param > written) --param.index;
  }
  k.params[read].use = Param::Use::ReadWrite;
  k.params.erase(k.params.begin() + written.index);
  return k;
}

}  // namespace tandem::codegen
