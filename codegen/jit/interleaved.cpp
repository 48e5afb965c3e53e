#include "codegen/jit/interleaved.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace tandem::jit {
namespace {

using codegen::Access;
using codegen::Affine;
using codegen::Instr;
using codegen::Kernel;
using codegen::Loop;

constexpr int64_t kFewStride = 8;  // of stores of a single column

/// From an iteration of the vector loop around the access to the next.
int64_t stride_of(const Kernel& k, const Access& a) {
  for (const Affine::Term& t : a.index.terms)
    if (k.loops[t.loop].kind == Loop::Kind::Vector) return t.stride;
  return 0;
}

/// Accesses that may belong together, by offset.
struct Candidates {
  const Access* like;
  bool stores;
  std::multimap<int64_t, size_t> members;
};

bool are_alike(const Access& a, const Access& b) {
  return a.param == b.param && a.local == b.local && a.index.terms == b.index.terms;
}

/// A store of few of many columns is not: it would be as many masked stores.
bool is_worth_it(const Interleaved& i, int64_t distinct) {
  return !i.stores || (distinct == std::ssize(i.columns) &&
                       (i.stride <= kFewStride || 2 * distinct >= i.stride));
}

/// What begins with the candidate `from` and lies within one stride, if it is worth it; moves
/// `from` behind it.
std::optional<Interleaved> next_window(const Candidates& c, int64_t stride,
                                       std::multimap<int64_t, size_t>::const_iterator& from) {
  Interleaved out{.first = from->first, .stride = stride, .stores = c.stores};
  std::vector<std::pair<size_t, int64_t>> members;
  int64_t distinct = 0;
  for (; from != c.members.end() && from->first < out.first + stride; ++from) {
    members.push_back({from->second, from->first - out.first});
    distinct += members.back().second >= out.width;  // they ascend
    out.width = members.back().second + 1;
  }
  std::ranges::sort(members);
  for (const auto& [instruction, column] : members)
    out.members.push_back(instruction), out.columns.push_back(column);
  out.whole = distinct == stride;
  if (!is_worth_it(out, distinct)) return std::nullopt;
  return out;
}

}  // namespace

bool may_interleave(const Kernel& kernel, const Access& access) {
  const int64_t stride = stride_of(kernel, access);
  return stride >= 2 && stride <= codegen::kMostSortedStride && access.indirect.empty() &&
         !access.again;
}

std::vector<Interleaved> interleaved(const Kernel& kernel, size_t begin, size_t end) {
  std::vector<Candidates> open, all;
  const auto close = [&](auto which) {
    std::ranges::copy_if(open, std::back_inserter(all), which);
    std::erase_if(open, which);
  };
  int depth = 0;  // of loops inside: theirs stay by themselves
  for (size_t at = begin + 1; at < end; ++at) {
    const Instr& i = kernel.code[at];
    depth += (i.kind == Instr::Kind::LoopBegin) - (i.kind == Instr::Kind::LoopEnd);
    const bool stores = i.kind == Instr::Kind::Store;
    if (!stores && i.kind != Instr::Kind::Load) continue;
    // what stands before and behind an access of the other kind stays there
    close([&](const Candidates& c) {
      return c.stores != stores && c.like->param == i.access.param &&
             c.like->local == i.access.local;
    });
    if (depth > 0 || !may_interleave(kernel, i.access)) continue;
    auto found = std::ranges::find_if(
        open, [&](const Candidates& c) { return are_alike(*c.like, i.access); });
    if (found == open.end()) found = open.insert(found, {&i.access, stores, {}});
    found->members.insert({i.access.index.offset, at});
  }
  close([](const Candidates&) { return true; });
  std::vector<Interleaved> out;
  for (const Candidates& c : all)
    for (auto from = c.members.begin(); from != c.members.end();)
      if (auto next = next_window(c, stride_of(kernel, *c.like), from))
        out.push_back(*std::move(next));
  return out;
}

}  // namespace tandem::jit
