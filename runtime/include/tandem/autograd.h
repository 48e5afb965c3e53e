// Gradients: grad mode, gradients of any tensors with respect to any others, and functions with a
// backward of the user's own.
#ifndef TANDEM_AUTOGRAD_H
#define TANDEM_AUTOGRAD_H

#include <tandem/tensor.h>

namespace tandem {

namespace runtime {
struct CustomNode;
struct CustomRecording;
class LevelDepth;
}  // namespace runtime

/// Whether operations of this thread are recorded for backward.
TANDEM_API bool grad_enabled();

/// Grad mode is `enabled` in this thread while it lives.
class TANDEM_API GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};
struct EnableGrad : GradMode {
  EnableGrad() : GradMode(true) {}
};

struct GradOptions {
  std::vector<Tensor> grad_outputs = {};  // one per output; none: ones, for one-element outputs
  bool retain_graph = false;              // keep the graph for another backward
  bool create_graph = false;              // record the computation, for gradients of gradients
  bool allow_unused = false;              // an undefined gradient instead of an Error
};

/// d(sum of outputs * grad_outputs) / d(inputs); touches no .grad.
TANDEM_API std::vector<Tensor> grad(const std::vector<Tensor>& outputs,
                                    const std::vector<Tensor>& inputs,
                                    const GradOptions& options = {},
                                    SourceLocation at = SourceLocation::current());

/// What forward and backward of a custom function share.
class TANDEM_API FunctionContext {
 public:
  /// Keeps tensors for backward; inputs and outputs of the function must be kept this way. Any
  /// other is a constant to derivatives of backward, as in ATen: what second derivatives go through
  /// must be an input or an output.
  void save_for_backward(std::vector<Tensor> tensors) { to_save_ = std::move(tensors); }
  /// In backward and jvp: what was saved. Error{Version} if one was changed in place since.
  const std::vector<Tensor>& saved() const { return saved_; }
  /// Which tensor arguments, in order, need a gradient.
  bool needs_input_grad(size_t i) const { return i < needs_.size() && needs_[i]; }

 private:
  friend struct runtime::CustomNode;
  friend struct runtime::CustomRecording;
  friend class FunctionCall;
  std::vector<Tensor> to_save_, saved_;
  std::vector<bool> needs_;
};

/// The untyped half of Function::apply. Inside a trace, forward runs between constructor and finish
/// into a graph of its own, and the call becomes one equation with a forward and a backward.
class TANDEM_API FunctionCall {
 public:
  using Rule = std::vector<Tensor> (*)(FunctionContext&, const std::vector<Tensor>&);
  using Backward = Rule;
  /// `jvp`: may be null.
  FunctionCall(const char* name, Backward backward, std::vector<Tensor> inputs,
               std::shared_ptr<void> owner, FunctionContext* context, Rule jvp = nullptr);
  ~FunctionCall();
  FunctionCall(const FunctionCall&) = delete;
  FunctionCall& operator=(const FunctionCall&) = delete;
  /// Puts the outputs on the tape (as new tensors where they are inputs).
  void finish(std::vector<Tensor>& outputs);

 private:
  /// An input that a derivative is taken by, and its version before forward.
  struct Followed {
    Tensor input;
    uint64_t version;
  };
  void refuse_writes() const;
  void put_on_tape(std::vector<Tensor>& outputs, const std::vector<bool>& shown);
  void move(std::span<const Tensor> outputs, const std::vector<Tensor>& saved);

  const char* name_;
  Backward backward_;
  std::vector<Tensor> inputs_;
  std::shared_ptr<void> owner_;
  FunctionContext* context_;
  Rule jvp_;
  std::vector<Followed> followed_;
  size_t batch_depth_ = 0;
  std::shared_ptr<runtime::CustomNode> node_;
  std::unique_ptr<runtime::LevelDepth> around_;  // forward sees no tangents that jvp takes care of
  std::unique_ptr<runtime::CustomRecording> recording_;
};

/// A function with its own backward:
///   struct Cube : Function<Cube> {
///     static Tensor forward(FunctionContext& c, const Tensor& x) {
///       c.save_for_backward({x});
///       return x * x * x;
///     }
///     static std::vector<Tensor> backward(FunctionContext& c, const std::vector<Tensor>& grads) {
///       return {3 * c.saved()[0] * c.saved()[0] * grads[0]};
///     }
///   };
///   Tensor y = Cube::apply(x);
/// `forward` (returning a Tensor or a vector of them) runs without grad mode; `backward` returns
/// one gradient, maybe undefined, for each Tensor argument in order. `forward` may not write an
/// argument that requires grad. It may give back an argument, or a view of one, but then neither
/// may be written before the result was last used: an Error in grad mode. A function with a
///     static std::vector<Tensor> jvp(FunctionContext& c, const std::vector<Tensor>& tangents)
/// has a derivative along tangents too (jvp, jacfwd): from one for each Tensor argument, undefined
/// where zero, it gives one for each output. Where the function is batched (vmap) all three see one
/// example.
template <class Self>
struct Function {
  template <class... Args>
  static auto apply(Args&&... args) {
    std::vector<Tensor> inputs;
    (collect(inputs, args), ...);
    auto context = std::make_shared<FunctionContext>();
    FunctionCall call("custom function", &Self::backward, std::move(inputs), context, context.get(),
                      jvp_of_self());
    auto result = [&] {
      NoGrad guard;
      return Self::forward(*context, std::forward<Args>(args)...);
    }();
    if constexpr (std::is_same_v<decltype(result), Tensor>) {
      std::vector<Tensor> outputs{std::move(result)};
      call.finish(outputs);
      return std::move(outputs[0]);
    } else {
      call.finish(result);
      return result;
    }
  }

 private:
  static FunctionCall::Rule jvp_of_self() {
    if constexpr (requires { &Self::jvp; })
      return &Self::jvp;
    else
      return nullptr;
  }
  template <class T>
  static void collect(std::vector<Tensor>& inputs, const T& argument) {
    if constexpr (std::is_convertible_v<const T&, const Tensor&>) inputs.push_back(argument);
  }
};

}  // namespace tandem

#endif  // TANDEM_AUTOGRAD_H
