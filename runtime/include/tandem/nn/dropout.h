// Layers that drop elements, or whole channels, in training: `Dropout{0.1}`, `Dropout2d{.p = 0.2}`.
#ifndef TANDEM_NN_DROPOUT_H
#define TANDEM_NN_DROPOUT_H

#include <tandem/nn/options.h>
#include <tandem/ops/networks.h>
#include <tandem/structure.h>

namespace tandem::nn {

#define TANDEM_LAYER(Name, function)                                                          \
  struct Name {                                                                               \
    double p = 0.5;                                                                           \
    bool training = true;                                                                     \
    [[no_unique_address]] CheckedOptions checked = require_probability(p, #Name);             \
    TANDEM_LAZY_FIELDS(Name, p, training)                                                     \
    Tensor operator()(const Tensor& x, SourceLocation at = SourceLocation::current()) const { \
      return function(x, p, training, at);                                                    \
    }                                                                                         \
  };
/// Zeros elements with probability p and scales the others by 1 / (1 - p); the identity outside
/// training. Error{Argument} when made or called with a p outside [0, 1].
TANDEM_LAYER(Dropout, dropout)
/// The same of whole channels of x [n, channels, spatial...] or [channels, spatial...].
TANDEM_LAYER(Dropout1d, dropout1d)
TANDEM_LAYER(Dropout2d, dropout2d)
TANDEM_LAYER(Dropout3d, dropout3d)
/// Keeps mean and variance, for selu: what is dropped becomes the value that it saturates at.
TANDEM_LAYER(AlphaDropout, alpha_dropout)
/// The same of whole channels.
TANDEM_LAYER(FeatureAlphaDropout, feature_alpha_dropout)
#undef TANDEM_LAYER

}  // namespace tandem::nn

#endif  // TANDEM_NN_DROPOUT_H
