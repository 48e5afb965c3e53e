// The random generator of the process: Philox4x32-10 with a key and a counter.
#ifndef TANDEM_RUNTIME_TENSOR_GENERATOR_H
#define TANDEM_RUNTIME_TENSOR_GENERATOR_H

#include <tandem/tensor.h>

#include <cstdint>

namespace tandem::runtime {

/// Starts again from `seed`.
void seed_generator(uint64_t seed);
/// The state (i64 [2]: key, counter) before the next `blocks` of four 32-bit words, which are
/// taken. Thread safe.
Tensor take_rng(Dim blocks);

/// What a random equation takes in this thread now: inside a trace its rng input and the next
/// offset, else the generator's state (advanced) and 0. `dtype` says how wide its words are
/// (ir/random.h).
struct Draw {
  Tensor rng;
  Dim offset;
};
Draw draw(const Shape& sizes, DType dtype);

/// What this thread takes while it lives is given back if an exception leaves its scope, unless
/// another thread has taken numbers since: an operation that fails draws nothing.
class DrawScope {
 public:
  DrawScope();
  ~DrawScope();
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;

 private:
  int64_t key_, counter_, taken_;
  const int exceptions_;
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TENSOR_GENERATOR_H
