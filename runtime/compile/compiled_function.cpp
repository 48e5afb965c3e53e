// The cache of one compiled function's variants.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <forward_list>
#include <fstream>
#include <mutex>

#include "functionalize/functionalize.h"
#include "functionalize/remove_views.h"
#include "ir/base/error.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "machine/threads/fork_lock.h"
#include "machine/threads/thread_pool.h"
#include "runtime/compile/record.h"
#include "runtime/compile/variant.h"
#include "runtime/compile/variant_list.h"
#include "runtime/levels/dual.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/anomaly.h"
#include "runtime/tape/autograd.h"
#include "runtime/tensor/rearrange.h"
#include "runtime/tensor/whole_memory.h"
#include "runtime/trace/dispatch_graph.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {

/// So many variants get machine code for their own sizes; who meets more meets many.
constexpr int kOwnCode = 2;
/// As many variants with code of their own are worth a warning.
constexpr int kManyCodes = 8;

using Tensors = ir::InlineVector<const Tensor*, 96>;

/// The graph inputs' tensors of a call, and those among them that the call made.
struct CallInputs {
  Tensors tensors;
  std::forward_list<Tensor> made;
};

class FunctionCache {
 public:
  /// What a call does.
  enum class Mode : uint8_t { Compile, Functionalize, RemoveViews };
  explicit FunctionCache(CompileOptions options, Mode mode = Mode::Compile, bool warns = true)
      : options_(std::move(options)), mode_(mode), warned_(!warns) {}
  Mode mode() const { return mode_; }

  CallResults call(const Flat& arguments, Tracer tracer,
                   ir::FunctionRef<void(const CallResults&)> receive);
  /// The variant that serves a call, and in `inputs` the graph inputs' tensors of that call.
  std::shared_ptr<const Variant> find_or_compile(const Flat& arguments, Tracer tracer,
                                                 CallInputs& inputs);
  /// `variant`, which lives as long as this does.
  const Variant& keep(VariantList::Pointer variant) { return variants_.keep(std::move(variant)); }

 private:
  std::shared_ptr<const Variant> find(const Flat& arguments, CallInputs& inputs) const;
  std::unique_lock<std::recursive_timed_mutex> lock_for_compiling();
  std::shared_ptr<const Variant> compile(const Flat& arguments, Tracer tracer);
  Expected expected();
  int count_new_code(const std::shared_ptr<const Variant>& variant);
  std::string name() const { return options_.name.empty() ? "fn" : options_.name; }

  CallResults run_functionalized(const Flat& arguments, Tracer tracer) const;

  const CompileOptions options_;
  const Mode mode_;
  VariantList variants_;
  std::recursive_timed_mutex compile_mutex_;
  std::atomic<pid_t> tracing_{0};           // the thread that runs the function on stand-ins
  int made_ = 0;                            // variants
  bool warned_;                             // of many codes
  int new_codes_ = 0;                       // variants whose machine code had to be made
  std::weak_ptr<const Variant> uncounted_;  // the last one, if none of its code was new so far
  std::atomic<uint64_t> clock_{0};  // counts calls, for dropping the least recently used variant
};

namespace {

template <class T, size_t N>
std::span<const T> span_of(const ir::InlineVector<T, N>& v) {
  return {v.data(), v.size()};
}

const Tensor& grad_of(const Tensor& t) {
  static const auto& none = *new Tensor;
  return t.defined() && t.impl()->autograd ? t.impl()->autograd->grad : none;
}

/// Fills `call` with the graph inputs' tensors of a call, in graph order.
void find_inputs(const Recording& recording, const Flat& arguments, CallInputs& call) {
  Tensors& inputs = call.tensors;
  inputs.clear();
  for (const Tensor& t : recording.inputs) inputs.push_back(&t);
  for (size_t leaf = 0; leaf < arguments.tensors.size(); ++leaf)
    inputs[recording.argument_inputs[leaf]] = arguments.tensors[leaf];
  for (const GradSlot& slot : recording.grad_slots)
    if (slot.grad_input >= static_cast<int>(recording.argument_count))
      inputs[static_cast<size_t>(slot.grad_input)] =
          &grad_of(*inputs[static_cast<size_t>(slot.input)]);
  for (const MemorySlot& slot : recording.memory_slots) {
    const GradMode as_of_the_input(true);
    call.made.push_front(row_of_memory(*inputs[static_cast<size_t>(slot.input)]));
    inputs[static_cast<size_t>(slot.memory_input)] = &call.made.front();
  }
}

CallInputs input_tensors(const Recording& recording, const Flat& arguments) {
  CallInputs inputs;
  find_inputs(recording, arguments, inputs);
  return inputs;
}

/// The tensors that a variant's guards speak of: the arguments' leaves, then what it captured.
Tensors guarded_tensors(const Recording& recording, const Flat& arguments, const Tensors& inputs) {
  Tensors tensors;
  for (const Tensor* t : arguments.tensors) tensors.push_back(t);
  for (size_t i = recording.argument_count; i < inputs.size(); ++i)
    if (static_cast<int>(i) != recording.rng_input) tensors.push_back(inputs[i]);
  return tensors;
}

/// Whether each `.grad` that the function uses holds what it held when it was traced: nothing, an
/// argument, or (guarded like any input) some tensor.
const GradSlot* changed_slot(const Recording& recording, const Tensors& inputs) {
  for (const GradSlot& slot : recording.grad_slots) {
    const Tensor& grad = grad_of(*inputs[static_cast<size_t>(slot.input)]);
    const bool same =
        slot.grad_input < 0
            ? !grad.defined()
            : grad.defined() && grad.impl() == inputs[static_cast<size_t>(slot.grad_input)]->impl();
    if (!same) return &slot;
  }
  return nullptr;
}

/// Whether `variant` serves a call, whose graph inputs' tensors are then in `inputs`.
bool serves(const Variant& variant, const Flat& arguments, CallInputs& inputs) {
  const Recording& recording = variant.recording;
  if (arguments.tensors.size() != recording.argument_inputs.size()) return false;
  find_inputs(recording, arguments, inputs);
  if (changed_slot(recording, inputs.tensors) != nullptr) return false;
  const Tensors tensors = guarded_tensors(recording, arguments, inputs.tensors);
  return matches(variant.guards, span_of(arguments.tokens), span_of(tensors));
}

/// What keeps `variant` from serving a call.
std::string explain(const Variant& variant, const Flat& arguments) {
  const Recording& recording = variant.recording;
  if (std::string changed = explain_tokens(variant.guards, span_of(arguments.tokens));
      !changed.empty())
    return changed;
  if (arguments.tensors.size() != recording.argument_inputs.size())
    return fmt::format("structure: expected {} tensors, got {}", recording.argument_inputs.size(),
                       arguments.tensors.size());
  const CallInputs inputs = input_tensors(recording, arguments);
  if (const GradSlot* slot = changed_slot(recording, inputs.tensors))
    return fmt::format("{}.grad: expected {}",
                       variant.graphs.traced.inputs()[static_cast<size_t>(slot->input)].name,
                       slot->grad_input < 0 ? "none, got one" : "another one or one, got none");
  const Tensors tensors = guarded_tensors(recording, arguments, inputs.tensors);
  return explain_miss(variant.guards, span_of(arguments.tokens), span_of(tensors));
}

bool retrace_enabled() {
  static const bool enabled = [] {
    const char* value = std::getenv("TANDEM_RETRACE");
    return value != nullptr && *value == '1';
  }();
  return enabled;
}

/// The first line at which two graphs' texts differ.
std::string first_difference(const ir::Graph& before, const ir::Graph& after) {
  const std::string a = ir::print(before), b = ir::print(after);
  const auto [at, other] = std::ranges::mismatch(a, b);
  const auto place = static_cast<size_t>(at - a.begin());
  const size_t start = place == 0 ? 0 : a.rfind('\n', place - 1) + 1;
  return fmt::format("was `{}`, is `{}`", a.substr(start, a.find('\n', start) - start),
                     b.substr(start, b.find('\n', start) - start));
}

/// Dimensions of one element or none, whose strides guards do not look at, as in contiguous memory.
ir::Graph with_plain_strides(ir::Graph g) {
  const auto make_plain = [&](ir::ValueId value, ir::Strides& strides) {
    const ir::Shape& sizes = g.type(value).sizes;
    const ir::Strides plain = ir::contiguous_strides(sizes);
    for (int d = 0; d < strides.rank(); ++d)
      if (sizes[d] <= 1) strides[d] = plain[d];
  };
  for (ir::Input& in : g.inputs()) make_plain(in.value, in.strides);
  for (ir::Output& out : g.outputs()) make_plain(out.value, out.strides);
  return g;
}

void check_retrace(const Variant& variant, const Flat& arguments, Tracer tracer) {
  // Where it does not matter which inputs share memory, the graph may still say it.
  const CallInputs inputs = input_tensors(variant.recording, arguments);
  const Tensors tensors = guarded_tensors(variant.recording, arguments, inputs.tensors);
  if (!shares_as_guarded(variant.guards, span_of(tensors))) return;
  const std::string& name = variant.graphs.traced.name;
  const ir::Graph before = with_plain_strides(variant.graphs.traced),
                  after = with_plain_strides(
                      record(name, tracer, variant.recording.bounds_memory).traced);
  if (after == before) return;
  ir::fail(Errc::Trace, fmt::format("{}: tracing again gives another graph, so the function "
                                    "depends on state that is not guarded (a captured "
                                    "number or flag that changed?); first difference: {}",
                                    name, first_difference(before, after)));
}

Guards guards_of(const Recording& recording, const Flat& arguments) {
  const CallInputs inputs = input_tensors(recording, arguments);
  const Tensors tensors = guarded_tensors(recording, arguments, inputs.tensors);
  std::vector<int> guarded = recording.argument_inputs;
  for (size_t i = recording.argument_count; i < recording.inputs.size(); ++i)
    if (static_cast<int>(i) != recording.rng_input) guarded.push_back(static_cast<int>(i));
  std::vector<std::string> names;
  for (const int input : guarded) names.push_back(recording.traced.inputs()[input].name);
  Guards guards = make_guards(span_of(arguments.tokens), span_of(tensors), names);
  const Questions& asked = recording.questions;
  for (size_t i = 0; i < guarded.size(); ++i) {
    const auto is_in = [&](const auto& of) { return std::ranges::count(of, guarded[i]) != 0; };
    TensorGuard& guard = guards.tensors[i];
    if (is_in(asked.leaves)) guard.is_leaf = is_leaf(*tensors[i]);
    if (is_in(asked.offsets)) guard.storage_offset = tensors[i]->impl()->offset;
    if (is_in(asked.objects)) guard.object = tensors[i]->impl();
  }
  return guards;
}

CallResults arrange(const Recording& recording, const std::vector<Tensor>& outputs) {
  CallResults results;
  for (const ResultView& view : recording.views) {
    const Tensor& t = outputs[static_cast<size_t>(view.output)];
    note_origin(t, view.origin, view.writes_since);
    if (view.is_leaf) drop_history(t);
  }
  for (int output : recording.results)
    results.tensors.push_back(output < 0 ? Tensor() : outputs[output]);
  results.prototype = recording.prototype;
  results.rebound = recording.rebound;
  return results;
}

}  // namespace

// --- the list of what is compiled

namespace {

struct Registry {
  std::vector<std::weak_ptr<const Variant>> variants;
  size_t swept = 0;  // how many were left when those that are gone were taken out
  static std::mutex& mutex() { return machine::fork_safe_mutex<Registry>(); }
};

Registry& registry() {
  static auto* const all = new Registry;  // lives as long as any thread may compile
  return *all;
}

}  // namespace

void register_graphs(const std::shared_ptr<const Variant>& variant) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex());
  if (all.variants.size() >= 2 * all.swept) {
    std::erase_if(all.variants, [](const auto& v) { return v.expired(); });
    all.swept = all.variants.size();
  }
  all.variants.push_back(variant);
}

// --- what the template sees

std::shared_ptr<FunctionCache> make_function_cache(const CompileOptions& options) {
  for (const auto& pass : options.passes)
    if (pass == nullptr || !pass->run)
      ir::fail(Errc::Argument, "compile: expected passes that can be run, got an empty one");
  return std::make_shared<FunctionCache>(options);
}

std::shared_ptr<FunctionCache> make_library_cache(const CompileOptions& options) {
  return std::make_shared<FunctionCache>(options, FunctionCache::Mode::Compile, false);
}

CallResults call(FunctionCache& cache, const Flat& arguments, Tracer tracer,
                 ir::FunctionRef<void(const CallResults&)> receive) {
  return cache.call(arguments, tracer, receive);
}

const CompiledGraphs& graphs(FunctionCache& cache, const Flat& arguments, Tracer tracer) {
  CallInputs inputs;
  return cache.keep(cache.find_or_compile(arguments, tracer, inputs)).graphs;
}

bool traces_through(const FunctionCache& cache) {
  return detects_anomaly() || level_depth() != 0 ||
         (Trace::current() != nullptr && cache.mode() == FunctionCache::Mode::Compile);
}

void trace_into(ir::Graph& graph, Tracer tracer) { graph = record("fn", tracer).traced; }

std::shared_ptr<FunctionCache> make_functionalizer(bool without_views) {
  using Mode = FunctionCache::Mode;
  return std::make_shared<FunctionCache>(CompileOptions(),
                                         without_views ? Mode::RemoveViews : Mode::Functionalize);
}

// --- the cache

namespace {

constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::seconds kIdle{2};

/// Notes who traces while it lives.
class Tracing {
 public:
  explicit Tracing(std::atomic<pid_t>& at) : at_(at), before_(at.exchange(gettid())) {}
  ~Tracing() { at_ = before_; }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

 private:
  std::atomic<pid_t>& at_;
  const pid_t before_;
};

/// Whether a thread waits for something, as seen from outside.
class Idleness {
 public:
  /// For how many looks in a row thread `thread` (0: none) has been asleep, but for moments.
  int looks(pid_t thread) {
    const uint64_t before = std::exchange(run_ns_, 0);
    const bool same = thread != 0 && thread == thread_ && asleep(thread);
    thread_ = thread;
    return idle_ = same && run_ns_ - before < 1'000'000 ? idle_ + 1 : 0;
  }

 private:
  bool asleep(pid_t thread) {
    const std::string folder = fmt::format("/proc/self/task/{}/", thread);
    std::ifstream(folder + "schedstat") >> run_ns_;
    std::string stat;
    std::getline(std::ifstream(folder + "stat"), stat);
    const size_t name_ends = stat.rfind(") ");
    return name_ends != std::string::npos && stat[name_ends + 2] == 'S';
  }

  pid_t thread_ = 0;
  uint64_t run_ns_ = 0;
  int idle_ = 0;
};

}  // namespace

std::shared_ptr<const Variant> FunctionCache::find_or_compile(const Flat& arguments, Tracer tracer,
                                                              CallInputs& inputs) {
  const size_t known = variants_.added();
  if (auto found = find(arguments, inputs)) return found;
  const auto lock = lock_for_compiling();
  if (variants_.added() != known)  // another thread may have compiled it meanwhile
    if (auto found = find(arguments, inputs)) return found;
  auto compiled = compile(arguments, tracer);
  find_inputs(compiled->recording, arguments, inputs);
  return compiled;
}

/// Of many variants few look like the call, and only they are looked at.
std::shared_ptr<const Variant> FunctionCache::find(const Flat& arguments,
                                                   CallInputs& inputs) const {
  auto newest = variants_.newest();
  if (!newest || serves(*newest, arguments, inputs)) return newest;
  const uint64_t look = look_of(span_of(arguments.tokens), span_of(arguments.tensors));
  for (auto& variant : variants_.looking_like(look))
    if (serves(*variant, arguments, inputs)) return std::move(variant);
  return nullptr;
}

/// Other threads wait while one compiles; not for one that, in the middle of the function, may wait
/// for them.
std::unique_lock<std::recursive_timed_mutex> FunctionCache::lock_for_compiling() {
  std::unique_lock lock(compile_mutex_, std::defer_lock);
  Idleness tracer;
  // By the system's clock: the thread sanitizer does not see a lock taken by the steady one.
  while (!lock.try_lock_until(std::chrono::system_clock::now() + kLook)) {
    if (tracer.looks(tracing_) * kLook < kIdle) continue;
    ir::fail(Errc::Trace,
             fmt::format("{}: called while another thread traces it for the first time, which has "
                         "been waiting for {} s; expected a function that does not wait for "
                         "threads that call it",
                         name(), kIdle.count()));
  }
  return lock;
}

std::shared_ptr<const Variant> FunctionCache::compile(const Flat& arguments, Tracer tracer) {
  const auto start = std::chrono::steady_clock::now();
  Recording recording = [&] {
    const Tracing note(tracing_);
    return record(name(), tracer, bounds_memory(options_));
  }();
  const std::chrono::duration<double> traced = std::chrono::steady_clock::now() - start;
  Guards guards = guards_of(recording, arguments);
  guards.names = std::move(recording.guard_names);
  // Each call brings its own arguments; only captured tensors are kept.
  for (size_t i = 0; i < recording.argument_count; ++i) recording.inputs[i] = Tensor();
  for (const GradSlot& slot : recording.grad_slots)
    if (slot.grad_input >= 0) recording.inputs[static_cast<size_t>(slot.grad_input)] = Tensor();
  for (const MemorySlot& slot : recording.memory_slots)
    recording.inputs[static_cast<size_t>(slot.memory_input)] = Tensor();
  auto variant = compile_variant(std::move(recording), std::move(guards), options_, expected());
  auto& stages = variant->graphs.stage_seconds;
  stages.emplace(stages.begin(), "trace", traced.count());
  if (count_new_code(variant) >= kManyCodes && !std::exchange(warned_, true))
    std::fprintf(stderr,
                 "tandem: %s needed new machine code for %d variants; the last guard that failed: "
                 "%s\n",
                 name().c_str(), kManyCodes, explain(*variants_.newest(), arguments).c_str());
  variant->last_used = clock_.load(std::memory_order_relaxed) + 1;
  variants_.add(look_of(span_of(arguments.tokens), span_of(arguments.tensors)), variant,
                options_.max_variant_bytes);
  return variant;
}

/// A function that meets new sizes again and again will meet more; one that was differentiated will
/// be.
Expected FunctionCache::expected() {
  if (made_++ < kOwnCode) return {};
  const auto newest = variants_.newest();
  return {.any_size = true, .backward = newest && newest->has_full_backward()};
}

/// How many variants had new code, `variant` included, and the one before, whose backward has been
/// compiled since.
int FunctionCache::count_new_code(const std::shared_ptr<const Variant>& variant) {
  const auto before = uncounted_.lock();
  const bool is_new = variant->has_new_code;
  new_codes_ += is_new + (before && before->has_new_code);
  uncounted_ = is_new ? std::shared_ptr<const Variant>() : variant;
  return new_codes_;
}

CallResults FunctionCache::run_functionalized(const Flat& arguments, Tracer tracer) const {
  Recording recording = record("fn", tracer);
  ir::Graph graph = functionalize::functionalize(recording.traced);
  if (mode_ == Mode::RemoveViews) graph = functionalize::remove_views(graph);
  if (ir::verification_enabled()) ir::verify_after("functionalize", graph);
  std::vector<Tensor> inputs;
  const CallInputs call = input_tensors(recording, arguments);
  for (const Tensor* t : call.tensors) inputs.push_back(*t);
  return arrange(recording, dispatch_with_epilogue(graph, inputs, recording.leaves));
}

CallResults FunctionCache::call(const Flat& arguments, Tracer tracer,
                                ir::FunctionRef<void(const CallResults&)> receive) {
  if (mode_ != Mode::Compile) {
    CallResults results = run_functionalized(arguments, tracer);
    receive(results);
    return results;
  }
  CallInputs inputs;
  const auto variant = find_or_compile(arguments, tracer, inputs);
  variant->last_used.store(clock_.fetch_add(1, std::memory_order_relaxed) + 1,
                           std::memory_order_relaxed);
  if (retrace_enabled()) check_retrace(*variant, arguments, tracer);
  CallResults results;
  run_variant(variant, span_of(inputs.tensors), [&](const std::vector<Tensor>& outputs) {
    results = arrange(variant->recording, outputs);
    receive(results);
  });
  return results;
}

}  // namespace tandem::runtime

std::vector<const tandem::CompiledGraphs*> tandem::compiled_graphs() {
  runtime::Registry& all = runtime::registry();
  std::vector<std::shared_ptr<const runtime::Variant>> alive;  // let go after the lock
  std::vector<const CompiledGraphs*> graphs;
  const std::lock_guard lock(all.mutex());
  for (const auto& weak : all.variants) {
    alive.push_back(weak.lock());
    if (alive.back()) graphs.push_back(&alive.back()->graphs);
  }
  return graphs;
}

int tandem::num_threads() { return machine::num_threads(); }

void tandem::set_num_threads(int threads) { machine::set_num_threads(threads); }
