#include "codegen/memory/in_place.h"

#include <algorithm>
#include <tuple>

#include "codegen/memory/accesses.h"

namespace tandem::codegen {
namespace {

using Kind = Instr::Kind;

/// An access to a parameter.
struct Use {
  size_t at = 0;             // in the code
  std::vector<LoopId> open;  // loops around it, outermost first; without Unit loops

  const Affine& index(const Kernel& k) const { return k.code[at].access.index; }
  Elements elements(const Kernel& k) const { return elements_of(k, k.code[at].access); }
};

/// By ascending place in the code; nothing if a position comes from data.
std::optional<std::vector<Use>> uses_of(const Kernel& k, ParamId param) {
  std::vector<Use> uses;
  std::vector<LoopId> open;
  for (size_t i = 0; i < k.code.size(); ++i) {
    const Instr& instr = k.code[i];
    if (instr.kind == Kind::LoopBegin) open.push_back(instr.loop);
    if (instr.kind == Kind::LoopEnd) open.pop_back();
    const bool access = instr.kind == Kind::Load || instr.kind == Kind::Store;
    if (!access || instr.access.param != param) continue;
    if (!instr.access.indirect.empty()) return std::nullopt;
    uses.push_back({i, open});
  }
  return uses;
}

/// The steps of an index, with the loops that two accesses do not share told apart only by what
/// they run over.
using Steps = std::vector<std::tuple<int64_t, int, int64_t, int64_t>>;

Steps steps_of(const Kernel& k, const Affine& a, const std::vector<LoopId>& shared) {
  Steps out;
  for (const auto& t : a.terms) {
    const Loop& l = k.loops[t.loop];
    if (l.kind == Loop::Kind::Unit || std::ranges::count(shared, t.loop) > 0)
      out.push_back({t.loop.index, 0, 0, t.stride});
    else
      out.push_back({-1, static_cast<int>(l.kind), l.extent, t.stride});
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Whether two accesses meet elements that are as far apart in each iteration of the loops around
/// both: the same ones, if their offsets are.
bool go_along(const Kernel& k, const Use& a, const Use& b) {
  const auto end = std::ranges::mismatch(a.open, b.open).in1;
  const std::vector<LoopId> shared(a.open.begin(), end);
  return steps_of(k, a.index(k), shared) == steps_of(k, b.index(k), shared);
}

/// Whether different iterations always give different elements, and none of `width` elements from
/// one's on is another's, as in a dense tensor: by ascending stride, each stride is at least what
/// the smaller ones reach over.
bool is_injective(const Kernel& k, const Affine& a, int64_t width) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride, trips
  for (const auto& t : a.terms) {
    if (t.stride < 0) return false;
    steps.push_back({t.stride, k.loops[t.loop].extent});
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = width;
  for (const auto& [stride, trips] : steps) {
    if (stride < reach) return false;
    reach += stride * (trips - 1);
  }
  return true;
}

/// Whether every loop around an access that has more than one iteration takes part in its index, so
/// that no element is met twice.
bool uses_all_loops(const Kernel& k, const Use& use) {
  const auto takes_part = [&](LoopId l) {
    const auto is_of = [l](const Affine::Term& t) { return t.loop == l; };
    return k.loops[l].extent <= 1 || std::ranges::any_of(use.index(k).terms, is_of);
  };
  for (LoopId l : k.loops.ids())
    if (k.loops[l].kind == Loop::Kind::Unit && !takes_part(l)) return false;
  return std::ranges::all_of(use.open, takes_part);
}

/// Whether each element of param `read` that is written as one of `written` is read for the last
/// time before, and where, that is done. (Columns that are written out one by one are as many
/// elements from one on.)
bool can_be_one(const Kernel& k, ParamId read, ParamId written) {
  const Param from = k.params[read];
  if (from.use != Param::Use::Read || from.dtype != k.params[written].dtype) return false;
  auto reads = uses_of(k, read);
  const auto writes = uses_of(k, written);
  if (!reads || !writes || reads->empty() || writes->empty()) return false;
  std::erase_if(*reads, [&](const Use& r) {
    return std::ranges::all_of(
        *writes, [&](const Use& w) { return are_apart(r.elements(k), w.elements(k)); });
  });
  const Use& first = writes->front();
  std::vector<Use> all = *reads;
  all.insert(all.end(), writes->begin(), writes->end());
  const auto offset = [&](const Use& use) { return use.index(k).offset; };
  const auto goes_along = [&](const Use& use) { return go_along(k, use, first); };
  const auto is_read_before = [&](const Use& r) {
    return std::ranges::all_of(*writes,
                               [&](const Use& w) { return offset(r) != offset(w) || r.at < w.at; });
  };
  const auto [low, high] = std::ranges::minmax(all, {}, offset);
  return std::ranges::all_of(all, goes_along) && std::ranges::all_of(*reads, is_read_before) &&
         is_injective(k, first.index(k), offset(high) - offset(low) + 1) &&
         uses_all_loops(k, first);
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
