// The tape's own nodes.
#ifndef TANDEM_RUNTIME_TAPE_NODES_H
#define TANDEM_RUNTIME_TAPE_NODES_H

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "autodiff/vjp.h"
#include "runtime/tape/autograd.h"
#include "runtime/trace/through_views.h"

namespace tandem::runtime {

/// One op: its VJP rule, and the operands and results that the rule reads.
struct OpNode final : Node {
  OpNode(ir::Op op, Edges edges, std::span<const ir::Type> operand_types,
         std::span<const ir::AttrValue> attrs, std::span<const ir::Type> result_types);

  /// Keeps what the rule reads. In place, operand 0 is about to be overwritten: a copy is kept.
  void save_operands(std::span<const Tensor> operands, bool in_place);
  void save_results(std::span<const Tensor> results);
  void renew_results();
  void renew_tangents(std::span<const Tensor> results) const;

  std::string name() const override;
  std::vector<Tensor> apply(std::vector<Tensor> grads, std::span<const bool> wanted) override;
  std::optional<Part> shown_part() const override;
  void release() override;

  bool overwrites_part = false;  // of a base, which takes care of what was there before

 private:
  struct Kept {
    ir::Type type;
    SavedTensor saved;  // undefined where not read
  };
  using KeptList = ir::InlineVector<Kept, 1>;
  static KeptList kept_of(std::span<const ir::Type> types);

  /// By compiled code, where that is worth it.
  std::optional<std::vector<Tensor>> apply_compiled(std::span<const Tensor> grads,
                                                    std::span<const bool> wanted);
  /// `self`: the node, for its own results.
  ir::ValueList add(const KeptList& values, class EagerSink& sink,
                    const std::shared_ptr<Node>& self) const;

  ir::Op op_;
  KeptList operands_, results_;
  std::vector<ir::AttrValue> attrs_;
  autodiff::Reads reads_;
  bool released_ = false;
};

/// The history of a base that was written through a view: edge 0 is the base's old history (which
/// gets no gradient for the written part), edge 1 what computed the written part.
struct RebaseNode final : Node {
  RebaseNode(Edges edges, WrittenPart written, bool overlaps)
      : Node(std::move(edges)), part(std::move(written)), base_overlaps(overlaps) {}
  std::string name() const override { return "write through a view"; }
  std::vector<Tensor> apply(std::vector<Tensor> grads, std::span<const bool> wanted) override;
  void release() override {}

  WrittenPart part;
  bool base_overlaps;  // elements of the base share memory: what was written shows elsewhere too
};

/// The end of the tape at a leaf: adds into its grad. Runs after all other nodes.
struct AccumulateGrad final : Node {
  explicit AccumulateGrad(const Tensor& leaf);
  std::string name() const override { return "accumulate grad"; }
  std::vector<Tensor> apply(std::vector<Tensor> grads, std::span<const bool> wanted) override;
  void release() override {}

  Tensor leaf;
  std::mutex mutex;
};

/// What a function that is differentiated by `t` sees: a leaf of its own, or, if grad mode was on
/// (`outer_mode`) and `t` has a gradient outside, what keeps a history that leads there.
Tensor watched_tensor(const Tensor& t, bool outer_mode);
/// Whether the history of `value` leads to a leaf that is none of `accumulators`.
bool leads_elsewhere(const Tensor& value, const std::unordered_set<const Node*>& accumulators);

/// The error of a node that is asked a second time for what it has freed.
[[noreturn]] void fail_released(const Node& node);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TAPE_NODES_H
