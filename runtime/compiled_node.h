// The tape node of one call of a compiled function: what it saved, and how its compiled backward
// runs.
#ifndef TANDEM_RUNTIME_COMPILED_NODE_H
#define TANDEM_RUNTIME_COMPILED_NODE_H

#include <memory>
#include <string>
#include <vector>

#include "runtime/autograd.h"
#include "runtime/variant.h"

namespace tandem::runtime {

class CompiledNode final : public Node {
 public:
  /// `inputs` are the graph's input tensors, before the epilogue writes any. One result per
  /// tangent, one edge per gradient.
  CompiledNode(std::shared_ptr<const Variant> variant, std::span<const Tensor* const> inputs);

  /// Keeps a value that the backward reads (in the order of the Saved inputs).
  void save(const Tensor& tensor) { saved_.emplace_back(tensor); }
  /// Keeps the inputs' handles, for a backward that is itself differentiated.
  void save_primals(std::span<const Tensor* const> inputs, const Tensor& rng);

  /// The node's result number for an output of the forward graph, or -1 if no gradient can arrive
  /// there.
  int result_of_output(int output) const;

  std::string name() const override;
  std::vector<Tensor> apply(std::vector<Tensor> grads) override;
  void release() override;

 private:
  std::vector<Tensor> run_backward(const std::vector<Tensor>& tangents);
  std::vector<Tensor> differentiable_backward(std::vector<Tensor> tangents);
  /// Zeros for missing gradients, contiguous copies of strided ones.
  std::vector<Tensor> tangents_of(std::vector<Tensor> grads) const;

  std::shared_ptr<const Variant> variant_;
  std::vector<SavedTensor> saved_, primals_;
  Tensor rng_;
  bool released_ = false;
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_COMPILED_NODE_H
