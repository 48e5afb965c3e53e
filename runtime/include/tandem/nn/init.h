// torch.nn.init: initial values, written in place and without history; the tensor comes back.
// Random ones are drawn from the library's generator. Of a tensor of two or more dimensions fan_in
// is size(1), fan_out size(0), each times the sizes behind. Error{Argument} or Error{Shape}, and
// nothing changed, for what a recipe does not take.
#ifndef TANDEM_NN_INIT_H
#define TANDEM_NN_INIT_H

#include <tandem/tensor.h>

#include <optional>
#include <string_view>

namespace tandem::nn::init {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

/// What keeps the variance through a nonlinearity: 1 ("linear", "conv1d" and its like, "sigmoid"),
/// 5/3 ("tanh"), sqrt(2) ("relu"), sqrt(2 / (1 + param^2)) ("leaky_relu", param 0.01 if it is left
/// out), 3/4 ("selu").
TANDEM_API double calculate_gain(std::string_view nonlinearity, std::optional<double> param = {},
                                 TANDEM_AT);

TANDEM_API const Tensor& uniform_(const Tensor& tensor, double a = 0, double b = 1, TANDEM_AT);
TANDEM_API const Tensor& normal_(const Tensor& tensor, double mean = 0, double std = 1, TANDEM_AT);
/// Normal, of the values in [a, b] alone.
TANDEM_API const Tensor& trunc_normal_(const Tensor& tensor, double mean = 0, double std = 1,
                                       double a = -2, double b = 2, TANDEM_AT);
TANDEM_API const Tensor& constant_(const Tensor& tensor, const Number& value, TANDEM_AT);
TANDEM_API const Tensor& ones_(const Tensor& tensor, TANDEM_AT);
TANDEM_API const Tensor& zeros_(const Tensor& tensor, TANDEM_AT);
/// The identity matrix, cut to the sizes; two dimensions.
TANDEM_API const Tensor& eye_(const Tensor& tensor, TANDEM_AT);
/// A convolution of weight [out, in, kernel...], of 1 to 3 spatial dimensions, that hands on each
/// input channel of a group, as many as there are.
TANDEM_API const Tensor& dirac_(const Tensor& tensor, int64_t groups = 1, TANDEM_AT);

/// Glorot & Bengio 2010: uniform in +-gain sqrt(6 / (fan_in + fan_out)).
TANDEM_API const Tensor& xavier_uniform_(const Tensor& tensor, double gain = 1, TANDEM_AT);
/// Normal of deviation gain sqrt(2 / (fan_in + fan_out)).
TANDEM_API const Tensor& xavier_normal_(const Tensor& tensor, double gain = 1, TANDEM_AT);

struct KaimingOptions {
  double a = 0;                                  // the slope of leaky_relu
  std::string_view mode = "fan_in";              // or "fan_out"
  std::string_view nonlinearity = "leaky_relu";  // of calculate_gain
};
/// He et al. 2015: uniform in +-gain sqrt(3 / fan). An empty tensor stays as it is.
TANDEM_API const Tensor& kaiming_uniform_(const Tensor& tensor, const KaimingOptions& options = {},
                                          TANDEM_AT);
/// Normal of deviation gain / sqrt(fan). An empty tensor stays as it is.
TANDEM_API const Tensor& kaiming_normal_(const Tensor& tensor, const KaimingOptions& options = {},
                                         TANDEM_AT);

/// Saxe et al. 2014: as a matrix [size(0), the rest] with orthogonal rows or columns, whichever are
/// fewer, times gain.
TANDEM_API const Tensor& orthogonal_(const Tensor& tensor, double gain = 1, TANDEM_AT);
/// Martens 2010: in each column of a matrix ceil(sparsity * rows) zeros, elsewhere normal of
/// deviation std.
TANDEM_API const Tensor& sparse_(const Tensor& tensor, double sparsity, double std = 0.01,
                                 TANDEM_AT);

#undef TANDEM_AT

}  // namespace tandem::nn::init

#endif  // TANDEM_NN_INIT_H
