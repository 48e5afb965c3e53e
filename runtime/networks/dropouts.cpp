// Dropouts of whole channels, and those that keep mean and variance.
#include <cmath>

#include "ir/base/error.h"
#include "runtime/networks/images.h"

namespace tandem {
namespace {

void require_probability(double p) {
  if (!(p >= 0 && p <= 1))
    ir::fail(Errc::Argument,
             fmt::format("{}: expected a probability, got {}", ir::ErrorScope::function(), p));
}

/// The first two dimensions, and 1 for all others.
Shape channels_of(const Shape& sizes) {
  Shape channels = sizes;
  for (int d = 2; d < sizes.rank(); ++d) channels[d] = 1;
  return channels;
}

/// self * noise, of sizes that broadcast: 0 with probability p, else 1 / (1 - p).
Tensor with_noise(const Tensor& self, const Shape& sizes, double p, const SourceLocation& at) {
  const Tensor noise = dropout(ones(sizes, self.dtype(), at), p, true, at);
  return mul(Located(self, at), Located(noise, at));
}

Tensor feature_dropout(const Tensor& self, double p, bool training, int spatial,
                       const SourceLocation& at) {
  require_probability(p);
  if (!training || p == 0 || self.numel() == 0) return self;
  const int rank = self.dim();
  if (rank != spatial + 2 && rank != spatial + 1)
    ir::fail(Errc::Shape,
             fmt::format("{}: expected {} or {} dimensions, got {}", ir::ErrorScope::function(),
                         spatial + 1, spatial + 2, to_string(self.sizes())));
  // As in PyTorch, [n, channels, l] to dropout2d too.
  if (rank == spatial + 2 || (spatial == 2 && rank == 3))
    return with_noise(self, channels_of(self.sizes()), p, at);
  const Tensor batch = self.unsqueeze(0, at);
  return with_noise(batch, channels_of(batch.sizes()), p, at).squeeze({0}, at);
}

/// What is dropped becomes the value that selu saturates at; then mean and variance are brought
/// back.
Tensor alpha(const Tensor& self, const Shape& sizes, double p, bool training,
             const SourceLocation& at) {
  require_probability(p);
  if (!training || p == 0 || self.numel() == 0) return self;
  if (p == 1) return mul(Located(self, at), Located(0.0, at));
  constexpr double kSaturation = 1.7580993408473766;
  const double a = 1 / std::sqrt((kSaturation * kSaturation * p + 1) * (1 - p));
  const Tensor kept =
      mul(Located(dropout(ones(sizes, self.dtype(), at), p, true, at), at), Located(1 - p, at));
  const Tensor rest =
      mul(Located(sub(Located(kept, at), Located(1.0, at)), at), Located(kSaturation * a, at));
  const Tensor shift = add(Located(rest, at), Located(kSaturation * a * p, at));
  const Tensor scaled = mul(Located(self, at), Located(mul(Located(kept, at), Located(a, at)), at));
  return add(Located(scaled, at), Located(shift, at));
}

}  // namespace

#define TANDEM_DROPOUT(spatial)                                                                \
  Tensor dropout##spatial##d(const Tensor& self, double p, bool training, SourceLocation at) { \
    const ir::ErrorScope errors(at);                                                           \
    return feature_dropout(self, p, training, spatial, at);                                    \
  }
TANDEM_DROPOUT(1)
TANDEM_DROPOUT(2)
TANDEM_DROPOUT(3)
#undef TANDEM_DROPOUT

Tensor alpha_dropout(const Tensor& self, double p, bool training, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return alpha(self, self.sizes(), p, training, at);
}

Tensor feature_dropout(const Tensor& self, double p, bool training, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require_probability(p);
  if (!training || p == 0 || self.numel() == 0) return self;
  if (self.dim() < 2)
    ir::fail(Errc::Shape, fmt::format("feature_dropout: expected at least 2 dimensions, got {}",
                                      to_string(self.sizes())));
  return with_noise(self, channels_of(self.sizes()), p, at);
}

#define TANDEM_IN_PLACE(op)                                                             \
  const Tensor& op##_(const Tensor& self, double p, bool training, SourceLocation at) { \
    const ir::ErrorScope errors(at, #op, true);                                         \
    return self.copy_(Located(op(self, p, training, at), at));                          \
  }
TANDEM_IN_PLACE(dropout)
TANDEM_IN_PLACE(alpha_dropout)
TANDEM_IN_PLACE(feature_dropout)
TANDEM_IN_PLACE(feature_alpha_dropout)
#undef TANDEM_IN_PLACE

Tensor feature_alpha_dropout(const Tensor& self, double p, bool training, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return alpha(self, channels_of(self.sizes()), p, training, at);
}

}  // namespace tandem
