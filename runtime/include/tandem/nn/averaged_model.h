// Averages of a model's parameters over its training: torch.optim.swa_utils.
#ifndef TANDEM_NN_AVERAGED_MODEL_H
#define TANDEM_NN_AVERAGED_MODEL_H

#include <tandem/autograd.h>
#include <tandem/nn/module.h>
#include <tandem/nn/normalization.h>
#include <tandem/ops.h>

#include <memory>
#include <optional>
#include <utility>

namespace tandem::nn {

struct AveragingOptions {
  /// An exponential moving average (get_ema_multi_avg_fn): averaged = decay averaged + (1 - decay)
  /// current. Left out: the mean of all updates (SWA).
  std::optional<double> ema_decay = {};
  /// Buffers are averaged as parameters are; else they are copied. Integers are always copied.
  bool use_buffers = false;
};

namespace fields {
/// The compiled update of one average.
struct Averaging;
/// Error{Argument} unless 0 <= ema_decay <= 1.
TANDEM_API std::shared_ptr<const Averaging> make_averaging(const AveragingOptions& options);
/// Error{Argument}, and nothing changed, if the two modules differ in names or sizes.
TANDEM_API void update_average(const Averaging& averaging, const Fields& averaged,
                               const Fields& current, const Tensor& n_averaged);

/// While it lives, a module is in training, and the running statistics of its batch norms, which
/// start anew, are the means over all batches.
class TANDEM_API FreshStatistics {
 public:
  explicit FreshStatistics(const Fields& fields);
  ~FreshStatistics();
  FreshStatistics(const FreshStatistics&) = delete;
  FreshStatistics& operator=(const FreshStatistics&) = delete;
  /// Whether there are any.
  bool any() const;

 private:
  std::vector<std::pair<ChannelNorm*, std::optional<double>>> norms_;  // and their momenta
  std::vector<std::pair<bool*, bool>> modes_;
};
}  // namespace fields

/// torch.optim.swa_utils.AveragedModel: a copy of a model (`module.` in the state) that follows its
/// parameters, and how many updates it took (n_averaged, i64 []).
template <class M>
class AveragedModel {
 public:
  M module;
  Buffer n_averaged;

  /// Error{Argument} for a decay outside [0, 1].
  explicit AveragedModel(const M& model, const AveragingOptions& options = {})
      : module(clone(model)),
        n_averaged(zeros({}, i64)),
        options_(options),
        averaging_(fields::make_averaging(options)) {}
  TANDEM_NAMED_FIELDS(AveragedModel, "n_averaged, module, ema_decay, use_buffers", n_averaged,
                      module, options_.ema_decay, options_.use_buffers)

  /// Takes the model's parameters into the average; the first time they are copied. Eager or inside
  /// a compiled function. Error{Argument}, and nothing changed, for a model of another structure.
  void update_parameters(const M& model) const {
    fields::update_average(*averaging_, structure::fields_of(module), structure::fields_of(model),
                           n_averaged);
  }

  template <class... A>
  auto operator()(const A&... arguments) const {
    return module(arguments...);
  }

 private:
  AveragingOptions options_;
  std::shared_ptr<const fields::Averaging> averaging_;
};

/// torch.optim.swa_utils.update_bn: the running statistics of a model's batch norms become those of
/// the batches that `loader` gives, of which the model is called with the first part; as an average
/// needs whose parameters no batch has seen. Without batch norms nothing is read.
template <class Loader, class M>
void update_bn(Loader&& loader, M& model) {
  const NoGrad no_grad;
  const fields::FreshStatistics fresh(structure::fields_of(model));
  if (!fresh.any()) return;
  for (auto&& batch : loader)
    if constexpr (structure::TupleLike<std::remove_cvref_t<decltype(batch)>>)
      model(std::get<0>(batch));
    else
      model(batch);
}

}  // namespace tandem::nn

#endif  // TANDEM_NN_AVERAGED_MODEL_H
