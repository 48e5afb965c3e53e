#include "codegen/memory/memory_plan.h"

#include <algorithm>
#include <unordered_set>

#include "codegen/library/library.h"
#include "codegen/loops/kernel_table.h"
#include "codegen/memory/accesses.h"
#include "codegen/memory/free_ranges.h"
#include "codegen/memory/in_place.h"
#include "ir/base/error.h"

namespace tandem::codegen {

using machine::GuardPages;
using machine::kGuardPage;
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class MemoryPlanner {
 public:
  MemoryPlanner(const Program& p, Drafts drafts, const LowerOptions& options, Plan& plan)
      : p_(p),
        kernels_(std::move(drafts.kernels)),
        drafts_(std::move(drafts.steps)),
        options_(options),
        plan_(plan),
        first_(p.roots.size()),
        last_(p.roots.size()),
        offset_(p.roots.size(), -1),
        input_(p.roots.size(), -1) {}

  void run(const std::vector<int>& targets, const std::vector<int>& memories) {
    lifetimes();
    join_copies();
    for (size_t o = 0; o < targets.size(); ++o)
      if (targets[o] >= 0) try_input(static_cast<int>(o), targets[o], memories);
    for (StepId s : drafts_.ids()) place_step(s);
    if (options_.guard_pages == GuardPages::None) plan_.arena_bytes = ranges_.end();
    for (StepId s : drafts_.ids())
      if (!left_out_.contains(s))
        std::visit([&](auto& d) { plan_.steps.emplace_back(finished(d, s)); }, drafts_[s]);
    kernels_.move_into(plan_);
  }

 private:
  static size_t at(int i) { return static_cast<size_t>(i); }

  /// The roots of a step, each once; until the next call.
  const std::vector<RootId>& touched(const StepDraft& d) {
    touched_.clear();
    std::visit([this](const auto& step) { touch(step); }, d);
    return touched_;
  }
  void touch(const LaunchDraft& launch) {
    for (const RootId r : launch.roots)
      if (std::ranges::count(touched_, r) == 0) touched_.push_back(r);
  }
  void touch(const MatmulDraft& c) {
    for (const RootId r : {c.a, c.b, c.c, c.bias})
      if (r.valid() && std::ranges::count(touched_, r) == 0) touched_.push_back(r);
  }
  void touch(const ExternalDraft& external) {
    touched_ = external.operands;
    touched_.insert(touched_.end(), external.results.begin(), external.results.end());
    std::ranges::sort(touched_);
    touched_.erase(std::ranges::unique(touched_).begin(), touched_.end());
  }

  static bool can_fail(const LaunchDraft& launch) { return launch.can_fail; }
  static bool can_fail(const MatmulDraft&) { return false; }
  static bool can_fail(const ExternalDraft& e) {
    return ir::info(e.call.op).effect != ir::Effect::Pure;
  }

  void lifetimes() {
    for (StepId s : drafts_.ids()) {
      for (RootId r : touched(drafts_[s])) {
        if (!first_[r].valid()) first_[r] = s;
        last_[r] = s;
      }
      if (std::visit([](const auto& step) { return can_fail(step); }, drafts_[s]))
        first_safe_ = {s.index + 1};
    }
  }

  /// A value that goes on as a copy is from its beginning where the copy is to be: what is written
  /// into an input part by part, and read between, is written there.
  void join_copies() {
    Table<StepId, StepDraft> kept;
    std::vector<StepId> joined;
    for (StepId s : drafts_.ids())
      if (join(s)) joined.push_back(s);
    if (joined.empty()) return;
    for (StepId s : drafts_.ids())
      if (!std::ranges::binary_search(joined, s)) kept.push_back(std::move(drafts_[s]));
    drafts_ = std::move(kept);
    for (RootId r : p_.roots.ids()) first_[r] = last_[r] = {};
    first_safe_ = {0};
    lifetimes();
  }

  /// Whether step `s` begins a value as a copy of another that can lie in the same memory; they
  /// then are one.
  bool join(StepId s) {
    const auto* const launch = std::get_if<LaunchDraft>(&drafts_[s]);
    if (launch == nullptr || launch->roots.size() != 2) return false;
    for (size_t from : {0, 1}) {
      const RootId a = launch->roots[from], b = launch->roots[1 - from];
      if (!in_arena(a) || first_[a] == s || first_[b] != s) continue;
      if (exact_bytes(a) != exact_bytes(b) || !copies(s, a, b)) continue;
      const auto in_place = steps_in_place(a, b, {s.index + 1});
      if (!in_place) continue;
      for (StepId t : *in_place) merge(t, a, b);
      rename(a, b);
      return true;
    }
    return false;
  }

  void rename(RootId from, RootId to) {
    const auto renamed = [&](RootId& r) {
      if (r == from) r = to;
    };
    for (StepId s = first_[from]; s <= last_[from]; ++s.index)
      std::visit([&](auto& step) { for_each_root(step, renamed); }, drafts_[s]);
    first_[to] = first_[from];
    last_[to] = std::max(last_[to], last_[from]);
  }

  /// What the steps from `begin` on read of `from` must not have been written as `to` before, if
  /// both are to lie in one memory. The steps that read and write the same elements, and can do so
  /// in place; nothing if that is not enough.
  std::optional<std::vector<StepId>> steps_in_place(RootId from, RootId to, StepId begin) {
    std::vector<StepId> in_place;
    std::vector<Elements> written;
    for (StepId s = begin; s <= last_[from]; ++s.index) {
      const std::vector<Elements> read = elements(s, from, Instr::Kind::Load),
                                  stored = elements(s, to, Instr::Kind::Store);
      if (writes(s, from) || !are_apart(read, written)) return {};
      if (!are_apart(read, stored)) {
        if (!can_merge(s, from, to)) return {};
        in_place.push_back(s);
      }
      written.insert(written.end(), stored.begin(), stored.end());
    }
    return in_place;
  }

  std::vector<Elements> elements(StepId s, RootId r, Instr::Kind access) const {
    if (const auto* launch = std::get_if<LaunchDraft>(&drafts_[s]))
      return elements_of(*launch, kernel(*launch), r, access);
    if (const auto* product = std::get_if<MatmulDraft>(&drafts_[s]))
      return elements_of(*product, r, access);
    return elements_of(std::get<ExternalDraft>(drafts_[s]), r, access);
  }

  bool writes(StepId s, RootId r) const { return !elements(s, r, Instr::Kind::Store).empty(); }

  template <class F>
  static void for_each_root(LaunchDraft& l, F f) {
    std::ranges::for_each(l.roots, f);
  }
  template <class F>
  static void for_each_root(MatmulDraft& c, F f) {
    for (RootId* r : {&c.a, &c.b, &c.c, &c.bias}) f(*r);
  }
  template <class F>
  static void for_each_root(ExternalDraft& e, F f) {
    std::ranges::for_each(e.operands, f);
    std::ranges::for_each(e.results, f);
  }

  int64_t exact_bytes(RootId r) const {
    const Root& root = p_.roots[r];
    return (root.numel + root.gaps) * static_cast<int64_t>(ir::size_of(root.dtype));
  }
  int64_t bytes(RootId r) const { return aligned(exact_bytes(r)); }
  /// Of the place that it is given: between guard pages not a byte more than it has.
  int64_t place_bytes(RootId r) const {
    return options_.guard_pages == GuardPages::None ? bytes(r) : exact_bytes(r);
  }

  bool in_arena(RootId r) const {
    const Root& root = p_.roots[r];
    return root.kind == Root::Kind::Computed && root.output < 0;
  }

  /// Whether input `i` shares its memory with others, and these are needed from step `start` on: as
  /// operands, as outputs, or for contents of their own.
  bool shared_from(StepId start, int i, const std::vector<int>& memories) const {
    const auto shares = [&](int k) {
      return k >= 0 && k != i && memories[at(k)] == memories[at(i)];
    };
    for (RootId r : p_.roots.ids())
      if (p_.roots[r].kind == Root::Kind::Input && shares(p_.roots[r].index) && last_[r].valid() &&
          last_[r] >= start)
        return true;
    return std::ranges::any_of(p_.outputs,
                               [&](const auto& out) { return shares(out.from_input); }) ||
           std::ranges::any_of(plan_.outputs,
                               [&](const auto& out) { return shares(out.into_input); });
  }

  /// Computes output `o` in the memory of input `i` if nothing that is read of the input's old
  /// contents is overwritten by then, by another tensor nothing is, and if nothing can fail any
  /// more.
  void try_input(int o, int i, const std::vector<int>& memories) {
    const RootId made = p_.outputs[at(o)].root;
    if (!made.valid() || p_.roots[made].output != o || !first_[made].valid()) return;
    const PlanInput& in = plan_.inputs[at(i)];
    const PlanOutput& out = plan_.outputs[at(o)];
    if (in.type != out.type || in.strides != out.strides) return;
    for (const ProgramOutput& other : p_.outputs)
      if (other.from_input == i) return;
    const RootId read = root_of_input(i);
    // What starts as a copy of the input (of which parts are written later) is there.
    const bool is_copied = copies(first_[made], read, made);
    const StepId start = is_copied ? next_write(made, first_[made]) : first_[made];
    if (!start.valid() || start < first_safe_ || shared_from(start, i, memories)) return;
    if (input_[read] == i) return;
    if (last_[read].valid()) {
      const auto in_place = steps_in_place(read, made, start);
      if (!in_place) return;
      for (StepId s : *in_place) merge(s, read, made);
    }
    if (is_copied) left_out_.insert(first_[made]);
    input_[made] = i;
    plan_.outputs[at(o)].into_input = i;
  }

  RootId root_of_input(int i) const {
    RootId found;
    for (RootId r : p_.roots.ids())
      if (p_.roots[r].kind == Root::Kind::Input && p_.roots[r].index == i) found = r;
    return found;
  }

  /// The first step behind `step` that writes `r`, if any.
  StepId next_write(RootId r, StepId step) const {
    for (StepId s{step.index + 1}; s <= last_[r]; ++s.index)
      if (writes(s, r)) return s;
    return {};
  }

  const Kernel& kernel(const LaunchDraft& l) const { return kernels_[l.kernel]; }

  static ParamId param_of(const LaunchDraft& l, RootId root) {
    const auto found = std::ranges::find(l.roots, root);
    if (found == l.roots.end()) return {};
    return {static_cast<uint32_t>(found - l.roots.begin())};
  }

  bool copies(StepId s, RootId from, RootId to) const {
    return std::visit([&](const auto& step) { return copies(step, from, to); }, drafts_[s]);
  }
  static bool copies(const MatmulDraft&, RootId /*from*/, RootId /*to*/) { return false; }
  static bool copies(const ExternalDraft&, RootId /*from*/, RootId /*to*/) { return false; }
  bool copies(const LaunchDraft& l, RootId from, RootId to) const {
    const ParamId read = param_of(l, from), written = param_of(l, to);
    return same_place(l, read, written) && is_copy(kernel(l), read, written);
  }

  /// Whether these params of `l` begin at the same element of their roots.
  static bool same_place(const LaunchDraft& l, ParamId read, ParamId written) {
    return read.valid() && written.valid() && l.offsets[read.index] == l.offsets[written.index];
  }

  /// The kernel of step `s` with one parameter for roots `from` and `to`, if it can compute in
  /// place.
  KernelId merged(StepId s, RootId from, RootId to) {
    const auto* const l = std::get_if<LaunchDraft>(&drafts_[s]);
    if (l == nullptr || std::ranges::count(l->roots, from) != 1 ||
        std::ranges::count(l->roots, to) != 1)
      return {};
    const ParamId read = param_of(*l, from), written = param_of(*l, to);
    return same_place(*l, read, written) ? kernels_.merged(l->kernel, read, written) : KernelId();
  }
  bool can_merge(StepId s, RootId from, RootId to) { return merged(s, from, to).valid(); }

  /// Gives the roots one parameter, if possible.
  bool merge(StepId s, RootId from, RootId to) {
    const KernelId kernel = merged(s, from, to);
    if (!kernel.valid()) return false;
    auto& l = std::get<LaunchDraft>(drafts_[s]);
    const ParamId written = param_of(l, to);
    l.kernel = kernel;
    l.roots.erase(l.roots.begin() + written.index);
    l.offsets.erase(l.offsets.begin() + written.index);
    return true;
  }

  void place_step(StepId s) {
    const std::vector<RootId>& roots = touched(drafts_[s]);
    for (RootId r : roots)
      if (in_arena(r) && first_[r] == s && offset_[r] < 0) place(r, s, roots);
    for (RootId r : roots)
      if (in_arena(r) && last_[r] == s && !handed_on(r)) give(r);
  }

  bool handed_on(RootId r) const { return handed_on_.contains(r); }

  void place(RootId r, StepId s, const std::vector<RootId>& roots) {
    for (RootId dying : roots) {
      if (!in_arena(dying) || last_[dying] != s || first_[dying] == s) continue;
      if (place_bytes(dying) != place_bytes(r) || handed_on(dying)) continue;
      if (!merge(s, dying, r)) continue;
      offset_[r] = offset_[dying];
      handed_on_.insert(dying);
      return;
    }
    offset_[r] =
        options_.guard_pages == GuardPages::None ? ranges_.take(bytes(r)) : guarded_place(r);
  }

  /// Behind a guard page of its own; another follows.
  int64_t guarded_place(RootId r) {
    if (plan_.arena_guards.empty()) plan_.arena_guards.push_back(0);
    const int64_t begin = plan_.arena_guards.back() + kGuardPage, size = exact_bytes(r),
                  end = begin + (size + kGuardPage - 1) / kGuardPage * kGuardPage;
    plan_.arena_guards.push_back(end);
    plan_.arena_bytes = end + kGuardPage;
    return options_.guard_pages == GuardPages::End ? end - size : begin;
  }

  void give(RootId r) {
    if (options_.guard_pages == GuardPages::None) ranges_.give(offset_[r], bytes(r));
  }

  BufferRef ref(RootId r, int64_t element = 0) const {
    const Root& root = p_.roots[r];
    const int64_t byte = element * static_cast<int64_t>(ir::size_of(root.dtype));
    if (root.kind == Root::Kind::Input) return {BufferRef::Kind::Input, root.index, byte};
    if (input_[r] >= 0) return {BufferRef::Kind::Input, input_[r], byte};
    if (root.output >= 0) return {BufferRef::Kind::Output, root.output, byte};
    return {BufferRef::Kind::Arena, 0, offset_[r] + byte};
  }

  /// The step of draft `step`, with places for its roots.
  MatmulCall finished(const MatmulDraft& c, StepId /*step*/) const {
    MatmulCall call = c.call;
    call.a = ref(c.a, c.a_offset);
    call.b = ref(c.b, c.b_offset);
    call.c = ref(c.c, c.c_offset);
    if (c.bias.valid()) call.bias = ref(c.bias, c.bias_offset);
    return call;
  }
  ExternalCall finished(ExternalDraft& e, StepId step) const {
    for (size_t i = 0; i < e.operands.size(); ++i)
      e.call.operands[i].buffer = ref(e.operands[i], e.offsets[i]);
    for (size_t i = 0; i < e.results.size(); ++i) {
      const RootId r = e.results[i];
      e.call.results[i].buffer = ref(r);
      e.call.results[i].unread = options_.leaves_out_unread && leaves_out_unread(e.call.op) &&
                                 in_arena(r) && last_[r] == step;
    }
    return std::move(e.call);
  }
  Launch finished(LaunchDraft& l, StepId step) {
    choose_streams(l, step);
    Launch launch{.kernel = l.kernel,
                  .units = kernel(l).units(),
                  .grain = l.grain,
                  .checks = std::move(l.checks)};
    for (size_t i = 0; i < l.roots.size(); ++i)
      launch.params.push_back(ref(l.roots[i], l.offsets[i]));
    return launch;
  }

  /// How much a value of `own` bytes, and as much of `read` as it has itself, take of the caches.
  static int64_t taken(int64_t own, int64_t read) { return own + std::min(own, read); }

  /// How much memory the kernel of `l` reads; what is read several times counts once.
  int64_t read_bytes(const LaunchDraft& l) const {
    int64_t read = 0;
    for (ParamId p : kernel(l).params.ids()) {
      const RootId r = l.roots[p.index];
      const auto size = static_cast<int64_t>(ir::size_of(p_.roots[r].dtype));
      read += std::min(p_.roots[r].numel, most_read(kernel(l), p)) * size;
    }
    return read;
  }

  /// Streams what would hardly be found in the caches when it is read: values that no later step
  /// reads if they and what is read for them, up to as much, fill 9/16 of the caches, and
  /// others if they alone fill them. (Stored the ordinary way, memory is first read to be written
  /// over. On Zen with 32 MiB for two cores both ways to copy are even there, whether as much is
  /// read as is written or a third of it; a little below, streams take twice as long.) What else
  /// the kernel reads does not decide: memory of a size is handed from kernel to kernel, and a
  /// stream to lines that the last one left in the caches is slow.
  void choose_streams(LaunchDraft& l, StepId step) {
    const int64_t cache = options_.cache_bytes;
    const int64_t unread = cache / 16 * 9;  // taken by a value that no later step reads
    const auto is_small = [&](RootId r) { return taken(bytes(r), bytes(r)) < unread; };
    if (cache <= 0 || std::ranges::all_of(l.roots, is_small)) return;
    const int64_t read = read_bytes(l);
    std::vector<bool> streams;
    for (ParamId p : kernel(l).params.ids()) {
      const RootId r = l.roots[p.index];
      const bool fills = last_[r] > step ? bytes(r) >= cache : taken(bytes(r), read) >= unread;
      streams.push_back(fills && can_stream(kernel(l), p));
    }
    l.kernel = kernels_.streaming(l.kernel, streams);
  }

  const Program& p_;
  KernelTable kernels_;
  Table<StepId, StepDraft> drafts_;
  const LowerOptions& options_;
  Plan& plan_;
  Table<RootId, StepId> first_, last_;    // the steps that touch it
  Table<RootId, int64_t> offset_;         // in the arena
  Table<RootId, int> input_;              // the input whose memory it is computed in
  std::unordered_set<RootId> handed_on_;  // dead roots whose memory another took
  std::unordered_set<StepId> left_out_;   // steps that would copy a value onto itself
  FreeRanges ranges_;
  std::vector<RootId> touched_;  // by the step that is being looked at
  StepId first_safe_{0};         // no step from here on can fail
};

}  // namespace

void plan_memory(const Program& program, Drafts drafts, const std::vector<int>& targets,
                 const std::vector<int>& memories, const LowerOptions& options, Plan& plan) {
  MemoryPlanner(program, std::move(drafts), options, plan).run(targets, memories);
}

}  // namespace tandem::codegen
