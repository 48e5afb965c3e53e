// Activations: `ReLU{}`, `LeakyReLU{0.2}`, `GELU{.approximate = "tanh"}`. Named, with options and
// defaults as in PyTorch. inplace: x itself is written and given back. (Compiled code needs no such
// word to reuse memory.)
#ifndef TANDEM_NN_ACTIVATION_H
#define TANDEM_NN_ACTIVATION_H

#include <tandem/nn/options.h>
#include <tandem/ops.h>
#include <tandem/structure.h>

namespace tandem::nn {

#define TANDEM_LAYER(Name, ...)                       \
  TANDEM_LAZY_FIELDS(Name __VA_OPT__(, ) __VA_ARGS__) \
  Tensor operator()(const Tensor& x, SourceLocation at = SourceLocation::current()) const

#define TANDEM_MAYBE_IN_PLACE(function, ...)          \
  if (inplace) return x.function##_(__VA_ARGS__, at); \
  return tandem::function(x, __VA_ARGS__, at)

#define TANDEM_PLAIN(Name, function)               \
  struct Name {                                    \
    TANDEM_LAYER(Name) { return function(x, at); } \
  };
#define TANDEM_PLAIN_IN_PLACE(Name, function)                                                     \
  struct Name {                                                                                   \
    bool inplace = false;                                                                         \
    TANDEM_LAYER(Name, inplace) { return inplace ? Tensor(x.function##_(at)) : function(x, at); } \
  };
TANDEM_PLAIN_IN_PLACE(ReLU, relu)
TANDEM_PLAIN_IN_PLACE(ReLU6, relu6)
TANDEM_PLAIN_IN_PLACE(SELU, selu)
TANDEM_PLAIN_IN_PLACE(SiLU, silu)
TANDEM_PLAIN_IN_PLACE(Mish, mish)
TANDEM_PLAIN_IN_PLACE(Hardswish, hardswish)
TANDEM_PLAIN_IN_PLACE(Hardsigmoid, hardsigmoid)
TANDEM_PLAIN(Softsign, softsign)
TANDEM_PLAIN(Tanh, tanh)
TANDEM_PLAIN(Sigmoid, sigmoid)
TANDEM_PLAIN(LogSigmoid, log_sigmoid)
TANDEM_PLAIN(Tanhshrink, tanhshrink)
#undef TANDEM_PLAIN
#undef TANDEM_PLAIN_IN_PLACE

struct LeakyReLU {
  double negative_slope = 0.01;
  bool inplace = false;
  TANDEM_LAYER(LeakyReLU, negative_slope, inplace) {
    TANDEM_MAYBE_IN_PLACE(leaky_relu, negative_slope);
  }
};
struct ELU {
  double alpha = 1;
  bool inplace = false;
  TANDEM_LAYER(ELU, alpha, inplace) { TANDEM_MAYBE_IN_PLACE(elu, alpha); }
};
struct CELU {
  double alpha = 1;
  bool inplace = false;
  TANDEM_LAYER(CELU, alpha, inplace) { TANDEM_MAYBE_IN_PLACE(celu, alpha); }
};
/// approximate: "none" or "tanh".
struct GELU {
  std::string approximate = "none";
  TANDEM_LAYER(GELU, approximate) { return gelu(x, approximate, at); }
};
struct Softplus {
  double beta = 1, threshold = 20;
  TANDEM_LAYER(Softplus, beta, threshold) { return softplus(x, beta, threshold, at); }
};
/// Error{Argument} when made or called with min_val above max_val.
struct Hardtanh {
  double min_val = -1, max_val = 1;
  bool inplace = false;
  [[no_unique_address]] CheckedOptions checked = require_order(min_val, max_val, "Hardtanh");
  TANDEM_LAYER(Hardtanh, min_val, max_val, inplace) {
    TANDEM_MAYBE_IN_PLACE(hardtanh, min_val, max_val);
  }
};
struct Hardshrink {
  double lambd = 0.5;
  TANDEM_LAYER(Hardshrink, lambd) { return hardshrink(x, lambd, at); }
};
struct Softshrink {
  double lambd = 0.5;
  TANDEM_LAYER(Softshrink, lambd) { return softshrink(x, lambd, at); }
};
/// `value` where x <= threshold.
struct Threshold {
  double threshold = 0, value = 0;
  bool inplace = false;
  TANDEM_LAYER(Threshold, threshold, value, inplace) {
    TANDEM_MAYBE_IN_PLACE(threshold, threshold, value);
  }
};
/// The first half along dim times the sigmoid of the second.
struct GLU {
  int64_t dim = -1;
  TANDEM_LAYER(GLU, dim) { return glu(x, dim, at); }
};
struct Softmax {
  int64_t dim = -1;
  TANDEM_LAYER(Softmax, dim) { return softmax(x, dim, at); }
};
struct LogSoftmax {
  int64_t dim = -1;
  TANDEM_LAYER(LogSoftmax, dim) { return log_softmax(x, dim, at); }
};
struct Softmin {
  int64_t dim = -1;
  TANDEM_LAYER(Softmin, dim) { return softmin(x, dim, at); }
};
/// Over the channels of x [n, channels, h, w] or [channels, h, w].
struct Softmax2d {
  TANDEM_LAYER(Softmax2d) { return softmax(x, -3, at); }
};
/// A slope for negative elements that is drawn between the bounds in training, else their mean.
struct RReLU {
  double lower = 1.0 / 8, upper = 1.0 / 3;
  bool training = true, inplace = false;
  TANDEM_LAYER(RReLU, lower, upper, training, inplace) {
    TANDEM_MAYBE_IN_PLACE(rrelu, lower, upper, training);
  }
};
/// A trained slope for negative elements: weight [1], or one for each channel, `init` at first.
struct PReLU {
  Tensor weight;
  PReLU() : PReLU(1) {}
  TANDEM_API explicit PReLU(Dim num_parameters, double init = 0.25, DType dtype = f32);
  TANDEM_LAYER(PReLU, weight) { return prelu(x, weight, at); }
};

#undef TANDEM_MAYBE_IN_PLACE
#undef TANDEM_LAYER

}  // namespace tandem::nn

#endif  // TANDEM_NN_ACTIVATION_H
