#include "codegen/memory/in_place.h"

#include <algorithm>
#include <tuple>

namespace tandem::codegen {
namespace {

using Kind = Instr::Kind;

/// An index with the loops of one sweep told apart from another's only by what they run over.
using Shape = std::vector<std::tuple<int, int, int64_t, int64_t>>;

Shape shape_of(const Kernel& k, const Affine& a, int shared_loops) {
  Shape out;
  for (const auto& t : a.terms) {
    const Loop& l = k.loops[static_cast<size_t>(t.loop)];
    if (t.loop < shared_loops)
      out.push_back({t.loop, 0, 0, t.stride});
    else
      out.push_back({-1, static_cast<int>(l.kind), l.extent, t.stride});
  }
  std::sort(out.begin(), out.end());
  out.push_back({-2, 0, 0, a.offset});
  return out;
}

/// Loops that all sweeps are inside of: units and rows, which are declared first.
int shared_loops(const Kernel& k) {
  int count = 0;
  for (const Loop& l : k.loops) {
    if (l.kind == Loop::Kind::Vector) break;
    ++count;
  }
  return count;
}

/// Where a parameter is accessed in the code.
struct Uses {
  int first = -1, last = -1;
  std::vector<Shape> shapes;  // distinct
  bool affine = true;

  void add(const Kernel& k, int at, int shared) {
    const Access& a = k.code[static_cast<size_t>(at)].access;
    if (first < 0) first = at;
    last = at;
    affine = affine && a.indirect.empty();
    Shape s = shape_of(k, a.index, shared);
    if (std::find(shapes.begin(), shapes.end(), s) == shapes.end()) shapes.push_back(std::move(s));
  }
};

Uses uses_of(const Kernel& k, int param) {
  Uses uses;
  const int shared = shared_loops(k);
  for (int i = 0; i < static_cast<int>(k.code.size()); ++i) {
    const Instr& instr = k.code[static_cast<size_t>(i)];
    const bool access = instr.kind == Kind::Load || instr.kind == Kind::Store;
    if (access && !instr.access.is_local && instr.access.buffer == param) uses.add(k, i, shared);
  }
  return uses;
}

/// Whether different iterations always give different elements, as in a dense tensor: by ascending
/// stride, each stride is at least what the smaller ones reach over.
bool is_injective(const Kernel& k, const Affine& a) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride, trips
  for (const auto& t : a.terms) {
    if (t.stride < 0) return false;
    steps.push_back({t.stride, k.loops[static_cast<size_t>(t.loop)].extent});
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
  const int shared = shared_loops(k);
  for (int l = 0; l < shared; ++l) {
    if (k.loops[static_cast<size_t>(l)].extent <= 1) continue;
    const bool used = std::any_of(a.terms.begin(), a.terms.end(),
                                  [&](const Affine::Term& t) { return t.loop == l; });
    if (!used) return false;
  }
  return true;
}

/// Whether each element of param `read` is read for the last time before, and where, it is written
/// as one of `written`.
bool can_be_one(const Kernel& k, int read, int written) {
  const Param from = k.params[static_cast<size_t>(read)];
  if (from.use != Param::Use::Read || from.dtype != k.params[static_cast<size_t>(written)].dtype)
    return false;
  const Uses reads = uses_of(k, read), writes = uses_of(k, written);
  if (!reads.affine || !writes.affine || reads.last >= writes.first) return false;
  if (reads.shapes.size() != 1 || writes.shapes.size() != 1 || reads.shapes != writes.shapes)
    return false;
  const Affine& index = k.code[static_cast<size_t>(writes.first)].access.index;
  return is_injective(k, index) && uses_all_shared_loops(k, index);
}

}  // namespace

bool is_copy(const Kernel& k, int read, int written) {
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
  if (from.buffer != read) return false;
  from.buffer = written;
  return from == to.access && from.indirect.empty() && to.args[0] == load;
}

std::optional<Kernel> merged_in_place(const Kernel& kernel, int read, int written) {
  if (!can_be_one(kernel, read, written)) return std::nullopt;
  Kernel k = kernel;
  for (Instr& i : k.code) {
    if (i.access.is_local || (i.kind != Kind::Load && i.kind != Kind::Store)) continue;
    if (i.access.buffer == written) i.access.buffer = read;
    if (i.access.buffer > written) --i.access.buffer;
  }
  k.params[static_cast<size_t>(read)].use = Param::Use::ReadWrite;
  k.params.erase(k.params.begin() + written);
  return k;
}

}  // namespace tandem::codegen
