#include "runtime/generator.h"

#include <mutex>

#include "ir/random.h"
#include "runtime/tensor_impl.h"
#include "runtime/trace.h"

namespace tandem::runtime {
namespace {

std::mutex g_mutex;
RngState g_state{static_cast<int64_t>(0x853c49e6748fea9bull), 0};

}  // namespace

void seed_generator(uint64_t seed) {
  const std::lock_guard lock(g_mutex);
  g_state = {static_cast<int64_t>(seed), 0};
}

RngState take_blocks(int64_t blocks) {
  const std::lock_guard lock(g_mutex);
  const RngState before = g_state;
  g_state.counter += blocks;
  return before;
}

Tensor rng_tensor(const RngState& state) {
  const Tensor t = empty_tensor({2}, DType::I64);
  auto* words = static_cast<int64_t*>(t.impl()->data());
  words[0] = state.key;
  words[1] = state.counter;
  return t;
}

Draw draw(const Shape& sizes, DType dtype) {
  const Dim blocks = ir::random_counters(dtype, ir::numel(sizes));
  if (Trace* trace = Trace::current()) {
    const Tensor rng = trace->rng();
    return {rng, trace->take_draws(blocks)};
  }
  return {rng_tensor(take_blocks(blocks)), 0};
}

}  // namespace tandem::runtime
