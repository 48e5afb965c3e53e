#include "codegen/memory/memory_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "codegen/loops/kernel_table.h"
#include "codegen/memory/in_place.h"
#include "ir/base/error.h"

namespace tandem::codegen {

using machine::GuardPages;
using machine::kGuardPage;
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Free ranges of an arena that grows as needed.
class Ranges {
 public:
  /// The smallest free range that fits, else the end of the arena.
  int64_t take(int64_t bytes) {
    const auto best = by_size_.lower_bound({bytes, 0});
    if (best == by_size_.end()) return grow(bytes);
    const auto [size, offset] = *best;
    erase(free_.find(offset));
    if (size > bytes) insert(offset + bytes, size - bytes);
    return offset;
  }

  void give(int64_t offset, int64_t bytes) {
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        erase(before);
      }
    }
    insert(offset, bytes);
  }

  int64_t end() const { return end_; }

 private:
  using Iterator = std::map<int64_t, int64_t>::iterator;

  /// Extends the arena; a free range at its end is used up first.
  int64_t grow(int64_t bytes) {
    int64_t offset = end_;
    if (!free_.empty()) {
      const auto last = std::prev(free_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        erase(last);
      }
    }
    end_ = offset + bytes;
    return offset;
  }

  void insert(int64_t offset, int64_t bytes) {
    free_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
  }
  Iterator erase(Iterator r) {
    by_size_.erase({r->second, r->first});
    return free_.erase(r);
  }

  std::map<int64_t, int64_t> free_;                // offset -> size
  std::set<std::pair<int64_t, int64_t>> by_size_;  // size, offset
  int64_t end_ = 0;
};

class MemoryPlanner {
 public:
  MemoryPlanner(const Program& p, Drafts drafts, const LowerOptions& options, Plan& plan)
      : p_(p),
        kernels_(std::move(drafts.kernels)),
        drafts_(std::move(drafts.steps)),
        options_(options),
        plan_(plan),
        first_(p.roots.size(), -1),
        last_(p.roots.size(), -1),
        offset_(p.roots.size(), -1),
        input_(p.roots.size(), -1) {}

  void run(const std::vector<int>& targets, const std::vector<int>& memories) {
    lifetimes();
    for (size_t o = 0; o < targets.size(); ++o)
      if (targets[o] >= 0) try_input(static_cast<int>(o), targets[o], memories);
    for (size_t s = 0; s < drafts_.size(); ++s) place_step(static_cast<int>(s));
    if (options_.guard_pages == GuardPages::None) plan_.arena_bytes = ranges_.end();
    for (size_t s = 0; s < drafts_.size(); ++s)
      if (!left_out_.contains(static_cast<int>(s)))
        std::visit([&](auto& d) { plan_.steps.emplace_back(finished(d, static_cast<int>(s))); },
                   drafts_[s]);
    kernels_.move_into(plan_);
  }

 private:
  static size_t at(int i) { return static_cast<size_t>(i); }

  /// The values of a step, each once; until the next call.
  const std::vector<int>& touched(const StepDraft& d) {
    touched_.clear();
    std::visit([this](const auto& step) { touch(step); }, d);
    return touched_;
  }
  void touch(const LaunchDraft& launch) { touched_ = launch.roots; }
  void touch(const MatmulDraft& c) {
    for (const int v : {c.a, c.b, c.c, c.bias})
      if (v >= 0 && std::ranges::count(touched_, v) == 0) touched_.push_back(v);
  }
  void touch(const ExternalDraft& external) {
    touched_ = external.operands;
    touched_.insert(touched_.end(), external.results.begin(), external.results.end());
    std::ranges::sort(touched_);
    touched_.erase(std::ranges::unique(touched_).begin(), touched_.end());
  }

  static bool can_fail(const LaunchDraft& launch) { return !launch.checks.empty(); }
  static bool can_fail(const MatmulDraft&) { return false; }
  static bool can_fail(const ExternalDraft&) { return true; }

  void lifetimes() {
    for (int s = 0; s < static_cast<int>(drafts_.size()); ++s) {
      for (int v : touched(drafts_[at(s)])) {
        if (first_[at(v)] < 0) first_[at(v)] = s;
        last_[at(v)] = s;
      }
      if (std::visit([](const auto& step) { return can_fail(step); }, drafts_[at(s)]))
        last_failing_ = s;
    }
  }

  int64_t exact_bytes(int v) const {
    const Root& root = p_.roots[at(v)];
    return root.numel * static_cast<int64_t>(ir::size_of(root.dtype));
  }
  int64_t bytes(int v) const { return aligned(exact_bytes(v)); }

  bool in_arena(int v) const {
    const Root& root = p_.roots[at(v)];
    return root.kind == Root::Kind::Computed && root.output < 0;
  }

  /// Whether input `i` shares its memory with others, and these are needed from step `start` on: as
  /// operands, as outputs, or for contents of their own.
  bool shared_from(int start, int i, const std::vector<int>& memories) const {
    const auto shares = [&](int k) {
      return k >= 0 && k != i && memories[at(k)] == memories[at(i)];
    };
    for (size_t u = 0; u < p_.roots.size(); ++u)
      if (p_.roots[u].kind == Root::Kind::Input && shares(p_.roots[u].index) && last_[u] >= start)
        return true;
    return std::ranges::any_of(p_.outputs,
                               [&](const auto& out) { return shares(out.from_input); }) ||
           std::ranges::any_of(plan_.outputs,
                               [&](const auto& out) { return shares(out.into_input); });
  }

  /// Computes output `o` in the memory of input `i` if the input's old contents are not needed
  /// later, not by another tensor, and if nothing can fail any more.
  void try_input(int o, int i, const std::vector<int>& memories) {
    const int v = p_.outputs[at(o)].root;
    if (v < 0 || p_.roots[at(v)].output != o || first_[at(v)] < 0) return;
    const PlanInput& in = plan_.inputs[at(i)];
    const PlanOutput& out = plan_.outputs[at(o)];
    if (in.type != out.type || in.strides != out.strides) return;
    for (const ProgramOutput& other : p_.outputs)
      if (other.from_input == i) return;
    int read = -1;
    for (int u = 0; u < static_cast<int>(p_.roots.size()); ++u)
      if (p_.roots[at(u)].kind == Root::Kind::Input && p_.roots[at(u)].index == i) read = u;
    // A value that starts as a copy of the input (of which parts are written later) is there.
    const auto* first = std::get_if<LaunchDraft>(&drafts_[at(first_[at(v)])]);
    const int copy = first && copies(*first, read, v) ? first_[at(v)] : -1;
    const int start = copy >= 0 ? next_write(v, copy) : first_[at(v)];
    if (start <= last_failing_ || shared_from(start, i, memories)) return;
    if (last_[at(read)] > start || input_[at(read)] == i) return;
    if (last_[at(read)] == start) {
      auto* launch = std::get_if<LaunchDraft>(&drafts_[at(start)]);
      if (launch == nullptr || !merge(*launch, read, v)) return;
    }
    if (copy >= 0) left_out_.insert(copy);
    input_[at(v)] = i;
    plan_.outputs[at(o)].into_input = i;
  }

  /// The first step behind `step` that writes `v`, or -1.
  int next_write(int v, int step) const {
    for (int s = step + 1; s <= last_[at(v)]; ++s)
      if (std::visit([&](const auto& step) { return writes(step, v); }, drafts_[at(s)])) return s;
    return -1;
  }

  static bool writes(const MatmulDraft& c, int v) { return c.c == v; }
  static bool writes(const ExternalDraft& e, int v) {
    return std::ranges::count(e.results, v) != 0;
  }
  bool writes(const LaunchDraft& l, int v) const {
    for (size_t i = 0; i < l.roots.size(); ++i)
      if (l.roots[i] == v && kernel(l).params[i].use != Param::Use::Read) return true;
    return false;
  }

  const Kernel& kernel(const LaunchDraft& l) const { return kernels_[l.kernel]; }

  static int param_of(const LaunchDraft& l, int value) {
    const auto found = std::ranges::find(l.roots, value);
    return found == l.roots.end() ? -1 : static_cast<int>(found - l.roots.begin());
  }

  bool copies(const LaunchDraft& l, int from, int to) const {
    const int read = param_of(l, from), written = param_of(l, to);
    return same_place(l, read, written) && is_copy(kernel(l), read, written);
  }

  /// Whether these params of `l` begin at the same element of their values.
  static bool same_place(const LaunchDraft& l, int read, int written) {
    return read >= 0 && written >= 0 && l.offsets[at(read)] == l.offsets[at(written)];
  }

  /// Gives values `from` and `to` one parameter, if the kernel can compute in place.
  bool merge(LaunchDraft& l, int from, int to) {
    const int read = param_of(l, from), written = param_of(l, to);
    const int merged = same_place(l, read, written) ? kernels_.merged(l.kernel, read, written) : -1;
    if (merged < 0) return false;
    l.kernel = merged;
    l.roots.erase(l.roots.begin() + written);
    l.offsets.erase(l.offsets.begin() + written);
    return true;
  }

  void place_step(int s) {
    const std::vector<int>& values = touched(drafts_[at(s)]);
    for (int v : values)
      if (in_arena(v) && first_[at(v)] == s && offset_[at(v)] < 0) place(v, s, values);
    for (int v : values)
      if (in_arena(v) && last_[at(v)] == s && !handed_on(v)) give(v);
  }

  bool handed_on(int v) const { return handed_on_.contains(v); }

  void place(int v, int s, const std::vector<int>& values) {
    auto* launch = std::get_if<LaunchDraft>(&drafts_[at(s)]);
    for (int dying : values) {
      if (launch == nullptr) break;
      if (!in_arena(dying) || last_[at(dying)] != s || first_[at(dying)] == s) continue;
      if (bytes(dying) != bytes(v) || handed_on(dying)) continue;
      if (!merge(*launch, dying, v)) continue;
      offset_[at(v)] = offset_[at(dying)];
      handed_on_.insert(dying);
      return;
    }
    offset_[at(v)] =
        options_.guard_pages == GuardPages::None ? ranges_.take(bytes(v)) : guarded_place(v);
  }

  /// Behind a guard page of its own; another follows.
  int64_t guarded_place(int v) {
    if (plan_.arena_guards.empty()) plan_.arena_guards.push_back(0);
    const int64_t begin = plan_.arena_guards.back() + kGuardPage, size = exact_bytes(v),
                  end = begin + (size + kGuardPage - 1) / kGuardPage * kGuardPage;
    plan_.arena_guards.push_back(end);
    plan_.arena_bytes = end + kGuardPage;
    return options_.guard_pages == GuardPages::End ? end - size : begin;
  }

  void give(int v) {
    if (options_.guard_pages == GuardPages::None) ranges_.give(offset_[at(v)], bytes(v));
  }

  BufferRef ref(int v, int64_t element = 0) const {
    const Root& root = p_.roots[at(v)];
    const int64_t byte = element * static_cast<int64_t>(ir::size_of(root.dtype));
    if (root.kind == Root::Kind::Input) return {BufferRef::Kind::Input, root.index, byte};
    if (input_[at(v)] >= 0) return {BufferRef::Kind::Input, input_[at(v)], byte};
    if (root.output >= 0) return {BufferRef::Kind::Output, root.output, byte};
    return {BufferRef::Kind::Arena, 0, offset_[at(v)] + byte};
  }

  /// The step of draft number `step`, with places for its values.
  MatmulCall finished(const MatmulDraft& c, int /*step*/) const {
    MatmulCall call = c.call;
    call.a = ref(c.a, c.a_offset);
    call.b = ref(c.b, c.b_offset);
    call.c = ref(c.c, c.c_offset);
    if (c.bias >= 0) call.bias = ref(c.bias, c.bias_offset);
    return call;
  }
  ExternalCall finished(ExternalDraft& e, int /*step*/) const {
    for (size_t i = 0; i < e.operands.size(); ++i)
      e.call.operands[i].buffer = ref(e.operands[i], e.offsets[i]);
    for (size_t i = 0; i < e.results.size(); ++i) e.call.results[i].buffer = ref(e.results[i]);
    return std::move(e.call);
  }
  Launch finished(LaunchDraft& l, int step) {
    choose_streams(l, step);
    Launch launch{.kernel = l.kernel,
                  .units = kernel(l).units(),
                  .grain = l.grain,
                  .checks = std::move(l.checks)};
    for (size_t i = 0; i < l.roots.size(); ++i)
      launch.params.push_back(ref(l.roots[i], l.offsets[i]));
    return launch;
  }

  /// Streams what a kernel writes that touches so much that little of it would be found in the
  /// caches again: outputs of some size, and what later steps read if it is larger than the caches
  /// itself. (Stored the ordinary way, memory is first read to be written over.)
  void choose_streams(LaunchDraft& l, int step) {
    if (options_.cache_bytes <= 0) return;
    int64_t touched = 0;
    for (int v : l.roots) touched += bytes(v);
    if (touched < options_.cache_bytes / 2) return;
    std::vector<bool> streams;
    for (size_t i = 0; i < l.roots.size(); ++i) {
      const int v = l.roots[i];
      const int64_t least = last_[at(v)] > step ? options_.cache_bytes : options_.cache_bytes / 8;
      streams.push_back(bytes(v) >= least && can_stream(kernel(l), static_cast<int>(i)));
    }
    l.kernel = kernels_.streaming(l.kernel, streams);
  }

  const Program& p_;
  KernelTable kernels_;
  std::vector<StepDraft> drafts_;
  const LowerOptions& options_;
  Plan& plan_;
  std::vector<int> first_, last_;      // by root: the steps that touch it
  std::vector<int64_t> offset_;        // by root: in the arena
  std::vector<int> input_;             // by root: the input whose memory it is computed in
  std::unordered_set<int> handed_on_;  // dead values whose memory another took
  std::unordered_set<int> left_out_;   // steps that would copy an input onto itself
  Ranges ranges_;
  std::vector<int> touched_;  // by the step that is being looked at
  int last_failing_ = -1;
};

}  // namespace

void plan_memory(const Program& program, Drafts drafts, const std::vector<int>& targets,
                 const std::vector<int>& memories, const LowerOptions& options, Plan& plan) {
  MemoryPlanner(program, std::move(drafts), options, plan).run(targets, memories);
}

}  // namespace tandem::codegen
