#include "runtime/generator.h"

#include <mutex>

#include "ir/random.h"
#include "runtime/tensor_impl.h"
#include "runtime/trace.h"

namespace tandem::runtime {
namespace {

std::mutex g_mutex;
int64_t g_key = static_cast<int64_t>(0x853c49e6748fea9bull), g_counter = 0;

}  // namespace

void seed_generator(uint64_t seed) {
  const std::lock_guard lock(g_mutex);
  g_key = static_cast<int64_t>(seed);
  g_counter = 0;
}

Tensor take_rng(Dim blocks) {
  const Tensor state = empty_tensor({2}, DType::I64);
  auto* words = static_cast<int64_t*>(state.impl()->data());
  const std::lock_guard lock(g_mutex);
  words[0] = g_key;
  words[1] = g_counter;
  g_counter += int64_t{blocks};
  return state;
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
