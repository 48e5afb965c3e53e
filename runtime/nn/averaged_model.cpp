// The update of an average is a function over lists of tensors, compiled like an optimizer's.
#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/nn/averaged_model.h>
#include <tandem/ops.h>

#include "ir/base/error.h"
#include "runtime/compile/library_function.h"

namespace tandem::nn::fields {
namespace {

struct Arguments {
  std::vector<Tensor> averaged, current;  // floating
  std::vector<Tensor> copied, originals;  // any
  Tensor n_averaged;
  std::optional<double> ema_decay;
  TANDEM_FIELDS(Arguments, averaged, current, copied, originals, n_averaged, ema_decay)
};

/// One graph for the first update and all later ones: the first has weight 1.
void update(const Arguments& a) {
  const Tensor count = a.n_averaged.to(f64);
  const Scalar weight(a.ema_decay
                          ? where(count == 0, ones({}, f64), full({}, 1 - *a.ema_decay, f64))
                          : 1 / (count + 1));
  for (size_t i = 0; i < a.averaged.size(); ++i) a.averaged[i].lerp_(a.current[i], weight);
  for (size_t i = 0; i < a.copied.size(); ++i) a.copied[i].copy_(a.originals[i]);
  a.n_averaged.add_(1);
}

[[noreturn]] void refuse(const std::string& expected, const std::string& got) {
  ir::fail(Errc::Argument,
           fmt::format("update_parameters: the model is not of the averaged one's structure; "
                       "expected {}, got {}",
                       expected, got));
}

void require_same(const NamedTensors& averaged, const NamedTensors& current) {
  const auto describe = [](const NamedTensors& tensors, size_t i) {
    return i >= tensors.size()
               ? "no more tensors"
               : fmt::format("\"{}\" {}", tensors[i].first, to_string(tensors[i].second.sizes()));
  };
  for (size_t i = 0; i < std::max(averaged.size(), current.size()); ++i) {
    const std::string expected = describe(averaged, i), got = describe(current, i);
    if (expected != got) refuse(expected, got);
  }
}

/// Adds the pairs of two lists of the same structure.
void add(Arguments& a, const NamedTensors& averaged, const NamedTensors& current, bool average) {
  require_same(averaged, current);
  for (size_t i = 0; i < averaged.size(); ++i) {
    const Tensor &to = averaged[i].second, &from = current[i].second;
    const bool copies = !average || !ir::is_floating(to.dtype());
    (copies ? a.copied : a.averaged).push_back(to);
    (copies ? a.originals : a.current).push_back(from.detach().to(to.dtype()));
  }
}

}  // namespace

struct Averaging {
  AveragingOptions options;
  Compiled<void (*)(const Arguments&), void, const Arguments&> update =
      runtime::compile_library_function(&fields::update, "average");
};

std::shared_ptr<const Averaging> make_averaging(const AveragingOptions& options) {
  if (options.ema_decay && !(*options.ema_decay >= 0 && *options.ema_decay <= 1))
    ir::fail(Errc::Argument, fmt::format("AveragedModel: expected 0 <= ema_decay <= 1, got {}",
                                         *options.ema_decay));
  return std::make_shared<Averaging>(Averaging{.options = options});
}

void update_average(const Averaging& averaging, const Fields& averaged, const Fields& current,
                    const Tensor& n_averaged) {
  const NoGrad no_grad;
  Arguments a{.n_averaged = n_averaged, .ema_decay = averaging.options.ema_decay};
  add(a, named_parameters(averaged), named_parameters(current), true);
  add(a, named_buffers(averaged), named_buffers(current), averaging.options.use_buffers);
  averaging.update(a);
}

FreshStatistics::FreshStatistics(const Fields& fields) {
  for (const std::type_info* type :
       {&typeid(BatchNorm1d), &typeid(BatchNorm2d), &typeid(BatchNorm3d)})
    for (void* found : modules(fields, *type)) {
      auto* norm = static_cast<ChannelNorm*>(found);  // their base, and first
      if (norm->running_mean.defined()) norms_.emplace_back(norm, norm->momentum);
    }
  if (!any()) return;
  for (auto& [norm, momentum] : norms_) {
    norm->running_mean.zero_();
    norm->running_var.fill_(1);
    norm->num_batches_tracked.zero_();
    norm->momentum.reset();
  }
  for (bool* flag : training_flags(fields)) modes_.emplace_back(flag, std::exchange(*flag, true));
}

bool FreshStatistics::any() const { return !norms_.empty(); }

FreshStatistics::~FreshStatistics() {
  for (const auto& [norm, momentum] : norms_) norm->momentum = momentum;
  for (const auto& [flag, mode] : modes_) *flag = mode;
}

}  // namespace tandem::nn::fields
