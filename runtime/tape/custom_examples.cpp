// A call of a custom function on one example, as one on all.
#include <fmt/format.h>
#include <tandem/ops.h>

#include <algorithm>
#include <utility>

#include "ir/base/error.h"
#include "runtime/levels/batched.h"
#include "runtime/levels/dual.h"
#include "runtime/tape/autograd.h"
#include "runtime/tape/custom_recording.h"

namespace tandem::runtime {
namespace {

/// What the operands are outside the level `depth` of vmap, and which of them are batched there.
std::vector<Tensor> physical_at(const std::vector<Tensor>& tensors, size_t depth,
                                std::vector<bool>* batched) {
  std::vector<Tensor> all;
  for (const Tensor& t : tensors) {
    const bool is_example = t.defined() && is_batched(t) && batch_depth(t) == depth;
    if (batched != nullptr) batched->push_back(is_example);
    all.push_back(is_example ? t.impl()->batched->physical : t);
  }
  return all;
}

}  // namespace

class CustomRecording::OfExamples final : public CustomRecording {
 public:
  OfExamples(const char* name, FunctionCall::Backward backward, const std::vector<Tensor>& inputs,
             std::vector<bool> batched, std::shared_ptr<void> owner, FunctionContext* context,
             const Batch& batch, size_t depth)
      : depth_(depth),
        outer_(std::make_shared<Context>(
            Context{{}, backward, std::move(owner), context, batch, std::move(batched), {}})),
        call_(name, &backward_of_all, inputs, outer_, outer_.get()) {}

  void finish(std::vector<Tensor>& outputs, FunctionContext& context, FunctionCall::Backward,
              const std::vector<Tensor>& inputs) override {
    std::vector<bool> batched;
    std::vector<Tensor> all = physical_at(outputs, depth_, &batched);
    std::vector<Tensor>& saved = context.to_save_;
    outer_->save_for_backward(physical_at(saved, depth_, &outer_->saved_batched));
    const std::vector<int> results = results_among(saved, outputs);
    std::vector<Tensor> kept = std::exchange(saved, {});
    for (Tensor& t : kept)
      if (!is_one_of(t, inputs)) t = Tensor();
    outputs.clear();  // who holds results of all examples shows their memory
    {
      const LevelDepth around(depth_ - 1);
      call_.finish(all);
    }
    const auto seen = [&](const Tensor& t, bool is_example) {
      return t.defined() && is_example ? one_example(t, depth_) : t;
    };
    for (size_t i = 0; i < all.size(); ++i) outputs.push_back(seen(all[i], batched[i]));
    for (size_t k = 0; k < results.size(); ++k)
      saved.push_back(kept[k].defined() ? kept[k]
                      : results[k] >= 0 ? outputs[static_cast<size_t>(results[k])]
                                        : seen(outer_->saved_[k], outer_->saved_batched[k]));
  }

  void widen_needs(FunctionContext& context) const override {
    for (size_t i = 0; i < context.needs_.size(); ++i)
      context.needs_[i] = context.needs_[i] || outer_->needs_[i];
  }

 private:
  struct Context : FunctionContext {
    FunctionCall::Backward backward;
    std::shared_ptr<void> owner;
    FunctionContext* of_one;
    Batch batch;
    std::vector<bool> batched, saved_batched;
  };

  /// Which output each saved tensor is, or -1.
  static std::vector<int> results_among(const std::vector<Tensor>& saved,
                                        const std::vector<Tensor>& outputs) {
    std::vector<int> found;
    for (const Tensor& t : saved) {
      const auto same = [&](const Tensor& output) { return is_one_of(output, {&t, 1}); };
      const auto output = std::ranges::find_if(outputs, same);
      found.push_back(output != outputs.end() ? static_cast<int>(output - outputs.begin()) : -1);
    }
    return found;
  }

  static std::vector<Tensor> backward_of_all(FunctionContext& context,
                                             const std::vector<Tensor>& grads) {
    const auto& c = static_cast<const Context&>(context);
    const LevelDepth seen(level_depth());
    enter_level(c.batch);
    const std::unique_ptr<void, void (*)(void*)> inside(&context, [](void*) { leave_level(); });
    const size_t depth = level_depth();
    const auto example = [&](const Tensor& all) { return one_example(all, depth); };
    std::vector<Tensor> of_one;
    for (const Tensor& g : grads) of_one.push_back(g.defined() ? example(in_current_trace(g)) : g);
    for (size_t k = 0; k < context.saved().size(); ++k) {
      const Tensor& t = context.saved()[k];
      c.of_one->saved_.push_back(c.saved_batched[k] ? example(in_current_trace(t)) : t);
    }
    std::vector<Tensor> gradients = c.backward(*c.of_one, of_one);
    c.of_one->saved_.clear();
    for (size_t i = 0; i < gradients.size() && i < c.batched.size(); ++i) {
      if (!gradients[i].defined()) continue;
      const Tensor all = all_examples(in_current_trace(gradients[i]), depth);
      const LevelDepth around(depth - 1);
      gradients[i] = c.batched[i] ? all : sum(all, {0});
    }
    return gradients;
  }

  const size_t depth_;
  std::shared_ptr<Context> outer_;
  FunctionCall call_;
};

std::unique_ptr<CustomRecording> CustomRecording::of_examples(
    const char* name, FunctionCall::Backward backward, const std::vector<Tensor>& inputs,
    std::shared_ptr<void> owner, FunctionContext* context, size_t depth) {
  std::vector<bool> batched;
  const std::vector<Tensor> all = physical_at(inputs, depth, &batched);
  const LevelDepth around(depth - 1);
  if (any_moves(all))
    ir::fail(Errc::Unsupported,
             fmt::format("{}: a custom function inside vmap, whose examples move along a tangent "
                         "outside of vmap; expected the derivative inside (vmap(jvp(fn)))",
                         name));
  const auto leads = [](const Tensor& t) { return t.defined() && is_differentiated(t); };
  if (!grad_enabled() || std::ranges::none_of(all, leads)) return nullptr;
  return std::make_unique<OfExamples>(name, backward, all, std::move(batched), std::move(owner),
                                      context, *level_at(depth).batch, depth);
}

}  // namespace tandem::runtime
