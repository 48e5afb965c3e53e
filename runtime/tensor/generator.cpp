#include "runtime/tensor/generator.h"

#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/ops.h>

#include <exception>
#include <mutex>
#include <random>
#include <utility>

#include "ir/random.h"
#include "machine/threads/fork_lock.h"
#include "runtime/levels/batched.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/trace/trace.h"

namespace tandem {
namespace runtime {
namespace {

constexpr uint64_t kFirstSeed = 0x853c49e6748fea9bull;

/// Where a generator is among its numbers.
struct State {
  int64_t key, counter;
};
State g_state{static_cast<int64_t>(kFirstSeed), 0};  // of the process
thread_local const Tensor* t_source = nullptr;       // of whom this thread draws; null: the process
thread_local int64_t t_taken = 0;                    // by this thread, of t_source

/// Of all generators: what is done under it takes no longer than to take it.
std::mutex& lock() { return machine::fork_safe_mutex<State>(); }

/// Undefined for the process's generator.
const Tensor& state_of(const Generator& generator) {
  return std::get<0>(generator.tandem_fields());
}

/// Where the generator with this state tensor has its state. (Under the lock.)
State& words_of(const Tensor* state) {
  static_assert(sizeof(State) == 2 * sizeof(int64_t));
  return state == nullptr ? g_state : *static_cast<State*>(state->impl()->data());
}
State& words_of(const Generator& generator) {
  const Tensor& state = state_of(generator);
  if (state.defined()) require_real(state, "Generator");
  return words_of(state.defined() ? &state : nullptr);
}

/// What this thread draws from where it draws from `generator`.
const Tensor* source_of(const Generator& generator) {
  const Tensor& state = state_of(generator);
  if (!state.defined()) return nullptr;
  if (Trace::current() == nullptr) require_real(state, "Generator");
  return &state;
}

Tensor state_tensor(const State& state) {
  const Tensor t = empty_tensor({2}, DType::I64);
  *static_cast<State*>(t.impl()->data()) = state;
  return t;
}

/// The state of a generator, of which `blocks` are taken.
Tensor take(const Tensor* source, Dim blocks) {
  const Tensor before = state_tensor({});
  const std::lock_guard guard(lock());
  State& state = words_of(source);
  words_of(&before) = state;
  state.counter += int64_t{blocks};
  t_taken += int64_t{blocks};
  if (source != nullptr) source->impl()->storage->bump_version();
  return before;
}

/// Its steps as equations of the trace: a generator that lies in a tensor is state as any other.
Tensor record_take(const Tensor& source, Dim blocks) {
  const OutermostTrace outermost;
  const NoGrad no_grad;
  const Tensor before = clone(source);
  slice(source, 0, 1, 2).add_(int64_t{blocks});
  return before;
}

void require_no_trace(std::string_view function) {
  if (Trace::current() != nullptr)
    ir::fail(Errc::Trace,
             fmt::format("{}: inside a trace each call of the compiled function would find what it "
                         "was then; expected it outside, or a Generator object of which the "
                         "function draws",
                         function));
}

/// In a trace the process's generator is an input of which only numbers are read.
void require_readable(const Generator& generator, std::string_view function) {
  if (!state_of(generator).defined()) require_no_trace(function);
}

void write(const Generator& generator, State words) {
  const Tensor& state = state_of(generator);
  if (Trace::current() != nullptr) {
    const OutermostTrace outermost;
    const NoGrad no_grad;
    slice(state, 0, 0, 1).fill_(words.key);
    slice(state, 0, 1, 2).fill_(words.counter);
    return;
  }
  const std::lock_guard guard(lock());
  words_of(generator) = words;
  if (state.defined()) state.impl()->storage->bump_version();
}

State read(const Generator& generator) {
  const std::lock_guard guard(lock());
  return words_of(generator);
}

}  // namespace

Tensor take_rng(Dim blocks) { return take(nullptr, blocks); }

Draw draw(const Shape& sizes, DType dtype) {
  const Dim blocks = ir::random_counters(dtype, draws_at_levels(ir::numel(sizes)));
  Trace* trace = Trace::current();
  if (trace == nullptr) return {take(t_source, blocks), 0};
  if (t_source != nullptr) return {record_take(*t_source, blocks), 0};
  const Tensor rng = trace->rng();
  return {rng, trace->take_draws(blocks)};
}

DrawsFrom::DrawsFrom(const Generator& generator)
    : previous_(std::exchange(t_source, source_of(generator))), taken_(std::exchange(t_taken, 0)) {}
DrawsFrom::~DrawsFrom() {
  t_source = previous_;
  t_taken = taken_;
}

DrawScope::DrawScope() : taken_(t_taken), exceptions_(std::uncaught_exceptions()) {
  if (Trace::current() != nullptr) return;
  const std::lock_guard guard(lock());
  const State& state = words_of(t_source);
  key_ = state.key;
  counter_ = state.counter;
}

DrawScope::~DrawScope() {
  if (std::uncaught_exceptions() == exceptions_ || Trace::current() != nullptr) return;
  const std::lock_guard guard(lock());
  State& state = words_of(t_source);
  if (state.key == key_ && state.counter == counter_ + (t_taken - taken_)) state.counter = counter_;
}

}  // namespace runtime

using runtime::read;
using runtime::require_no_trace;
using runtime::require_readable;
using runtime::Trace;
using runtime::write;

Generator::Generator() : Generator(runtime::kFirstSeed) {}

Generator::Generator(uint64_t seed)
    : state(runtime::state_tensor({static_cast<int64_t>(seed), 0})) {
  if (Trace::current() != nullptr) state = tandem::clone(state);
}

const Generator& default_generator() {
  static const auto* const generator = new Generator(nn::Buffer());
  return *generator;
}

const Generator& Generator::manual_seed(uint64_t seed) const {
  require_readable(*this, "manual_seed");
  write(*this, {static_cast<int64_t>(seed), 0});
  return *this;
}

uint64_t Generator::seed() const {
  require_no_trace("seed");
  std::random_device device;
  const uint64_t seed = uint64_t{device()} << 32 | device();
  manual_seed(seed);
  return seed;
}

uint64_t Generator::initial_seed() const {
  require_no_trace("initial_seed");
  return static_cast<uint64_t>(read(*this).key);
}

Tensor Generator::get_state() const {
  require_readable(*this, "get_state");
  return Trace::current() != nullptr ? tandem::clone(state) : runtime::state_tensor(read(*this));
}

const Generator& Generator::set_state(const Tensor& given) const {
  require_readable(*this, "set_state");
  if (!given.defined() || given.dtype() != i64)
    ir::fail(Errc::DType, fmt::format("set_state: expected i64 [2] as get_state gives it, got {}",
                                      given.defined() ? ir::name(given.dtype()) : "none"));
  if (given.sizes() != Shape{2})
    ir::fail(Errc::Shape, fmt::format("set_state: expected i64 [2] as get_state gives it, got {}",
                                      to_string(given.sizes())));
  if (Trace::current() != nullptr) {
    const NoGrad no_grad;
    state.copy_(given);
  } else {
    const Tensor words = tandem::clone(given);
    write(*this, runtime::words_of(&words));
  }
  return *this;
}

Generator Generator::clone() const { return Generator(nn::Buffer(get_state())); }

// --- the process's

void manual_seed(uint64_t seed) { default_generator().manual_seed(seed); }
Tensor get_rng_state() { return default_generator().get_state(); }
void set_rng_state(const Tensor& state) { default_generator().set_state(state); }
uint64_t initial_seed() { return default_generator().initial_seed(); }
uint64_t seed() { return default_generator().seed(); }

ForkRng::ForkRng(bool enabled) : enabled_(enabled) {
  if (const Trace* trace = Trace::current()) {
    counter_ = trace->draws();
    return;
  }
  const runtime::State state = read(default_generator());
  key_ = state.key;
  counter_ = state.counter;
}

ForkRng::~ForkRng() {
  if (!enabled_) return;
  if (Trace* trace = Trace::current())
    trace->set_draws(counter_);
  else
    write(default_generator(), {key_, counter_});
}

}  // namespace tandem
