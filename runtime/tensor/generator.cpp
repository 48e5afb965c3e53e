#include "runtime/tensor/generator.h"

#include <exception>
#include <mutex>

#include "ir/random.h"
#include "machine/threads/fork_lock.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {
namespace {

/// Where this process is among the random numbers.
struct Generator {
  int64_t key = static_cast<int64_t>(0x853c49e6748fea9bull), counter = 0;
};
Generator g_generator;
thread_local int64_t t_taken = 0;  // by this thread

std::mutex& lock() { return machine::fork_safe_mutex<Generator>(); }

}  // namespace

void seed_generator(uint64_t seed) {
  const std::lock_guard guard(lock());
  g_generator = {.key = static_cast<int64_t>(seed)};
}

Tensor take_rng(Dim blocks) {
  const Tensor state = empty_tensor({2}, DType::I64);
  auto* words = static_cast<int64_t*>(state.impl()->data());
  const std::lock_guard guard(lock());
  words[0] = g_generator.key;
  words[1] = g_generator.counter;
  g_generator.counter += int64_t{blocks};
  t_taken += int64_t{blocks};
  return state;
}

DrawScope::DrawScope() : taken_(t_taken), exceptions_(std::uncaught_exceptions()) {
  const std::lock_guard guard(lock());
  key_ = g_generator.key;
  counter_ = g_generator.counter;
}

DrawScope::~DrawScope() {
  if (std::uncaught_exceptions() == exceptions_) return;
  const std::lock_guard guard(lock());
  if (g_generator.key == key_ && g_generator.counter == counter_ + (t_taken - taken_))
    g_generator.counter = counter_;
}

Draw draw(const Shape& sizes, DType dtype) {
  const Dim blocks = ir::random_counters(dtype, ir::numel(sizes));
  if (Trace* trace = Trace::current()) {
    const Tensor rng = trace->rng();
    return {rng, trace->take_draws(blocks)};
  }
  return {take_rng(blocks), 0};
}

}  // namespace tandem::runtime
