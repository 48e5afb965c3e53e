// Where else a call of a custom function is put than on the tape of what it sees: into the trace
// that is on, or outside of vmap.
#ifndef TANDEM_RUNTIME_TAPE_CUSTOM_RECORDING_H
#define TANDEM_RUNTIME_TAPE_CUSTOM_RECORDING_H

#include <tandem/autograd.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tandem::runtime {

/// What is wrong with what a user's rule gave.
struct Refusal {
  Errc code;
  std::string message;
};
std::optional<Refusal> wrong_count(const char* name, size_t expected, size_t got);
std::optional<Refusal> wrong_type(const char* name, size_t input, const ir::Type& expected,
                                  const ir::Type& got);
std::optional<Refusal> wrong_tangents(const char* name, std::span<const Tensor> outputs,
                                      const std::vector<Tensor>& got);
void refuse(const std::optional<Refusal>& refusal);

/// Whether `t` is one of `tensors`, by object.
bool is_one_of(const Tensor& t, std::span<const Tensor> tensors);

/// From before forward runs to behind it.
struct CustomRecording {
  virtual ~CustomRecording() = default;
  /// `outputs`, and what `context` saves, become results of the recorded call.
  virtual void finish(std::vector<Tensor>& outputs, FunctionContext& context,
                      FunctionCall::Backward backward, const std::vector<Tensor>& inputs) = 0;

  /// Adds the inputs that a gradient goes to there to those that `context` knows.
  virtual void widen_needs(FunctionContext&) const {}

  /// Into the trace that is on, as one equation.
  static std::unique_ptr<CustomRecording> in_trace(const char* name,
                                                   const std::vector<Tensor>& inputs);
  /// The same call on all examples of the level `depth` of vmap, one level further out: its
  /// backward is that of one example, by operations on all. Null unless a gradient goes to one of
  /// the inputs out there. Error{Unsupported} where a tangent moves one.
  static std::unique_ptr<CustomRecording> of_examples(const char* name,
                                                      FunctionCall::Backward backward,
                                                      const std::vector<Tensor>& inputs,
                                                      std::shared_ptr<void> owner,
                                                      FunctionContext* context, size_t depth);

 private:
  class InTrace;
  class OfExamples;
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TAPE_CUSTOM_RECORDING_H
