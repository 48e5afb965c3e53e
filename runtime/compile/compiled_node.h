// The tape node of one call of a compiled function: what it saved, and how its compiled backward
// runs.
#ifndef TANDEM_RUNTIME_COMPILE_COMPILED_NODE_H
#define TANDEM_RUNTIME_COMPILE_COMPILED_NODE_H

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/compile/variant.h"
#include "runtime/tape/autograd.h"

namespace tandem::runtime {

class CompiledNode final : public Node {
 public:
  /// `inputs` are the graph's input tensors, before the epilogue writes any; `values` the forward
  /// graph's outputs. One result per tangent, one edge per gradient.
  CompiledNode(std::shared_ptr<const Variant> variant, std::span<const Tensor* const> inputs,
               const std::vector<Tensor>& values);

  /// Keeps the inputs that a differentiable backward reads (`written`: by value, those that the
  /// call writes; in the order of TapeTable::kept_by_value).
  void keep_inputs(std::span<const Tensor* const> inputs, const std::vector<Tensor>& written);
  /// The call's own epilogue has run: it changed nothing of what is kept, but versions.
  void end_of_call();

  std::string name() const override;
  std::vector<Tensor> apply(std::vector<Tensor> grads, std::span<const bool> wanted) override;
  void release() override;

 private:
  std::vector<Tensor> apply_now(const std::vector<Tensor>& grads, std::span<const bool> wanted);
  std::vector<Tensor> run_backward(const std::vector<Tensor>& tangents,
                                   const BackwardRequest& request);
  /// A form that computes something; the gradients at their places among all.
  std::vector<Tensor> run_form(const BackwardForm& form, const std::vector<Tensor>& tangents);
  std::vector<Tensor> differentiable_backward(const std::vector<Tensor>& tangents,
                                              const BackwardRequest& request);
  SavedTensor as_before_call(const Tensor& input) const;
  std::vector<Tensor> apply_to_each(const std::vector<Tensor>& grads, std::span<const bool> wanted,
                                    size_t depth);
  void check_tangents(const std::vector<Tensor>& tangents) const;
  /// Error{Unsupported} if in this pass a hook has seen a part of its gradient already.
  void require_whole_gradient() const;
  /// What was kept, or an Error{Version} that names it. `input`: which graph input it is, or -1.
  Tensor unpack(const SavedTensor& kept, int input) const;

  std::shared_ptr<const Variant> variant_;
  std::vector<SavedTensor> saved_;   // by Saved input of the backward
  std::vector<SavedTensor> inputs_;  // by graph input; undefined where no backward reads it
  bool released_ = false;
  // Of hooks that are not linear: the pass that last came to this call or to a backward of it,
  // which are nodes of their own, each with the hooks in it.
  std::shared_ptr<std::atomic<uint64_t>> last_pass_;
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_COMPILE_COMPILED_NODE_H
