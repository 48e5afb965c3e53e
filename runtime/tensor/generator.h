// The random generators: Philox4x32-10 with a key and a counter. That of the process lies in a
// structure of its own, and is a graph input of role rng; any other in a tensor, which a trace
// captures as it does others.
#ifndef TANDEM_RUNTIME_TENSOR_GENERATOR_H
#define TANDEM_RUNTIME_TENSOR_GENERATOR_H

#include <tandem/generator.h>
#include <tandem/tensor.h>

#include <cstdint>

namespace tandem::runtime {

/// The state (i64 [2]: key, counter) of the process's generator before the next `blocks` of four
/// 32-bit words, which are taken. Thread safe.
Tensor take_rng(Dim blocks);

/// What a random equation takes in this thread now: inside a trace its rng input and the next
/// offset, else the generator's state (advanced) and 0. `dtype` says how wide its words are
/// (ir/random.h).
struct Draw {
  Tensor rng;
  Dim offset;
};
Draw draw(const Shape& sizes, DType dtype);

/// What this thread draws while it lives comes from `generator`, which must outlive it.
class DrawsFrom {
 public:
  explicit DrawsFrom(const Generator& generator);
  ~DrawsFrom();
  DrawsFrom(const DrawsFrom&) = delete;
  DrawsFrom& operator=(const DrawsFrom&) = delete;

 private:
  const Tensor* previous_;
  int64_t taken_;
};

/// What this thread takes while it lives, of the generator that it draws from, is given back if an
/// exception leaves its scope, unless another thread has taken numbers since: an operation that
/// fails draws nothing.
class DrawScope {
 public:
  DrawScope();
  ~DrawScope();
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;

 private:
  int64_t key_ = 0, counter_ = 0, taken_;
  const int exceptions_;
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TENSOR_GENERATOR_H
