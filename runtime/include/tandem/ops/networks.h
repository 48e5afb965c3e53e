// What networks are made of: convolutions, pools, norms, losses, resampling. Named and defined as
// in ATen and torch.nn.functional.
#ifndef TANDEM_OPS_NETWORKS_H
#define TANDEM_OPS_NETWORKS_H

#include <tandem/ops.h>

namespace tandem {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

/// One number for all spatial dimensions, or one for each: `2`, `{2, 1}`.
class Spatial {
 public:
  Spatial() = default;  // left out
  template <std::integral I>
  Spatial(I all) : dims_{Dim(all)} {}  // NOLINT(google-explicit-constructor)
  Spatial(Dim all) : dims_{all} {}     // NOLINT(google-explicit-constructor)
  Spatial(std::initializer_list<Dim> each) : dims_(each) {}
  Spatial(const Shape& each) : dims_(each) {}  // NOLINT(google-explicit-constructor)
  const Shape& dims() const { return dims_; }

 private:
  Shape dims_;
};

/// Zeros on both sides of each spatial dimension; or "valid" (none), or "same": as many as give a
/// result of the input's sizes.
class ConvPadding {
 public:
  template <std::integral I>
  ConvPadding(I all) : amount_(all) {}    // NOLINT
  ConvPadding(Dim all) : amount_(all) {}  // NOLINT
  ConvPadding(std::initializer_list<Dim> each) : amount_(each) {}
  ConvPadding(const Shape& each) : amount_(each) {}    // NOLINT
  ConvPadding(const char* mode) : mode_(mode) {}       // NOLINT
  ConvPadding(std::string_view mode) : mode_(mode) {}  // NOLINT
  const Spatial& amount() const { return amount_; }
  const std::string& mode() const { return mode_; }

 private:
  Spatial amount_ = 0;
  std::string mode_;
};

// --- convolutions: input [n, channels, spatial...] or [channels, spatial...]
struct ConvOptions {
  Spatial stride = 1;
  ConvPadding padding = 0;
  Spatial dilation = 1;
  int64_t groups = 1;
};
struct ConvTransposeOptions {
  Spatial stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  Spatial dilation = 1;
};
/// weight [out, in / groups, kernel...], bias [out] or undefined.
TANDEM_API Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                         const ConvOptions& options = {}, TANDEM_AT);
TANDEM_API Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                         const ConvOptions& options = {}, TANDEM_AT);
TANDEM_API Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                         const ConvOptions& options = {}, TANDEM_AT);
/// weight [in, out / groups, kernel...].
TANDEM_API Tensor conv_transpose1d(const Tensor& input, const Tensor& weight,
                                   const Tensor& bias = {},
                                   const ConvTransposeOptions& options = {}, TANDEM_AT);
TANDEM_API Tensor conv_transpose2d(const Tensor& input, const Tensor& weight,
                                   const Tensor& bias = {},
                                   const ConvTransposeOptions& options = {}, TANDEM_AT);
TANDEM_API Tensor conv_transpose3d(const Tensor& input, const Tensor& weight,
                                   const Tensor& bias = {},
                                   const ConvTransposeOptions& options = {}, TANDEM_AT);

// --- pools: self [n, channels, spatial...] or [channels, spatial...]; a stride that is left out is
// the window's size
struct AvgPoolOptions {
  Spatial stride{}, padding = 0;
  bool ceil_mode = false, count_include_pad = true;
  std::optional<int64_t> divisor_override{};
};
struct MaxPoolOptions {
  Spatial stride{}, padding = 0, dilation = 1;
  bool ceil_mode = false;
};
struct LpPoolOptions {
  Spatial stride{};
  bool ceil_mode = false;
};
struct MaxUnpoolOptions {
  Spatial stride{}, padding = 0;
  Spatial output_size{};  // the spatial sizes; left out: what stride and padding give
};
struct FractionalMaxPoolOptions {
  Spatial output_size{};               // the spatial sizes, or
  std::vector<double> output_ratio{};  // what part of the input's they are, one number or one each
  Tensor random_samples{};  // [n, channels, spatial] in [0, 1), of self's dtype; else drawn
};
/// Maxima over `output_size` windows along each dimension, which begin in steps of two neighbouring
/// sizes, at random for each channel (Graham 2014). With the places of the maxima in each channel.
TANDEM_API Tensor fractional_max_pool2d(const Tensor& self, const Spatial& kernel_size,
                                        const FractionalMaxPoolOptions& options, TANDEM_AT);
TANDEM_API Tensor fractional_max_pool3d(const Tensor& self, const Spatial& kernel_size,
                                        const FractionalMaxPoolOptions& options, TANDEM_AT);
TANDEM_API ValuesAndIndices
fractional_max_pool2d_with_indices(const Tensor& self, const Spatial& kernel_size,
                                   const FractionalMaxPoolOptions& options, TANDEM_AT);
TANDEM_API ValuesAndIndices
fractional_max_pool3d_with_indices(const Tensor& self, const Spatial& kernel_size,
                                   const FractionalMaxPoolOptions& options, TANDEM_AT);
#define X(dims)                                                                                  \
  TANDEM_API Tensor avg_pool##dims(const Tensor& self, const Spatial& kernel_size,               \
                                   const AvgPoolOptions& options = {}, TANDEM_AT);               \
  TANDEM_API Tensor max_pool##dims(const Tensor& self, const Spatial& kernel_size,               \
                                   const MaxPoolOptions& options = {}, TANDEM_AT);               \
  TANDEM_API ValuesAndIndices max_pool##dims##_with_indices(                                     \
      const Tensor& self, const Spatial& kernel_size, const MaxPoolOptions& options = {},        \
      TANDEM_AT);                                                                                \
  TANDEM_API Tensor lp_pool##dims(const Tensor& self, double norm_type,                          \
                                  const Spatial& kernel_size, const LpPoolOptions& options = {}, \
                                  TANDEM_AT);                                                    \
  /* Of output_size -1 keeps a size. */                                                          \
  TANDEM_API Tensor adaptive_avg_pool##dims(const Tensor& self, const Spatial& output_size,      \
                                            TANDEM_AT);                                          \
  TANDEM_API Tensor adaptive_max_pool##dims(const Tensor& self, const Spatial& output_size,      \
                                            TANDEM_AT);                                          \
  TANDEM_API ValuesAndIndices adaptive_max_pool##dims##_with_indices(                            \
      const Tensor& self, const Spatial& output_size, TANDEM_AT);                                \
  TANDEM_API Tensor max_unpool##dims(const Tensor& self, const Tensor& indices,                  \
                                     const Spatial& kernel_size,                                 \
                                     const MaxUnpoolOptions& options = {}, TANDEM_AT);           \
  /* Zeros whole channels with probability p. */                                                 \
  TANDEM_API Tensor dropout##dims(const Tensor& self, double p = 0.5, bool training = true,      \
                                  TANDEM_AT);
X(1d)
X(2d)
X(3d)
#undef X

// --- norms
/// Over all but dimension 1. In training by the batch's own statistics, of which running_mean and
/// running_var (if defined) take up `momentum`, in place; else by these.
TANDEM_API Tensor batch_norm(const Tensor& input, const Tensor& running_mean,
                             const Tensor& running_var, const Tensor& weight = {},
                             const Tensor& bias = {}, bool training = false, double momentum = 0.1,
                             double eps = 1e-5, TANDEM_AT);
/// batch_norm of each image by itself.
TANDEM_API Tensor instance_norm(const Tensor& input, const Tensor& running_mean = {},
                                const Tensor& running_var = {}, const Tensor& weight = {},
                                const Tensor& bias = {}, bool use_input_stats = true,
                                double momentum = 0.1, double eps = 1e-5, TANDEM_AT);
/// Over each group of neighbouring channels.
TANDEM_API Tensor group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight = {},
                             const Tensor& bias = {}, double eps = 1e-5, TANDEM_AT);
/// By the root of the mean square over the trailing dimensions; eps: the dtype's epsilon if left
/// out.
TANDEM_API Tensor rms_norm(const Tensor& input, const Shape& normalized_shape,
                           const Tensor& weight = {}, std::optional<double> eps = {}, TANDEM_AT);
/// Over `size` neighbouring channels.
TANDEM_API Tensor local_response_norm(const Tensor& input, int64_t size, double alpha = 1e-4,
                                      double beta = 0.75, double k = 1, TANDEM_AT);
/// self / max(norm, eps) along `dims`.
TANDEM_API Tensor normalize(const Tensor& self, double p = 2, const DimList& dims = {1},
                            double eps = 1e-12, TANDEM_AT);

// --- distances
TANDEM_API Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim = 1,
                                    double eps = 1e-8, TANDEM_AT);
TANDEM_API Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p = 2,
                                    double eps = 1e-6, bool keepdim = false, TANDEM_AT);
/// Between each two rows of a matrix.
TANDEM_API Tensor pdist(const Tensor& self, double p = 2, TANDEM_AT);

// --- losses; reduction: "none", "mean" or "sum"
struct CrossEntropyOptions {
  Tensor weight{};  // [c], of the classes
  int64_t ignore_index = -100;
  std::string_view reduction = "mean";
  double label_smoothing = 0;
};
struct NllOptions {
  Tensor weight{};
  int64_t ignore_index = -100;
  std::string_view reduction = "mean";
};
struct LogitsOptions {
  Tensor weight{};      // of the elements
  Tensor pos_weight{};  // of positive ones
  std::string_view reduction = "mean";
};
TANDEM_API Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                                const CrossEntropyOptions& options, TANDEM_AT);
TANDEM_API Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                           const NllOptions& options, TANDEM_AT);
TANDEM_API Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                                   const LogitsOptions& options, TANDEM_AT);
TANDEM_API Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                                       const Tensor& weight = {},
                                       std::string_view reduction = "mean", TANDEM_AT);
/// reduction may be "batchmean" too.
TANDEM_API Tensor kl_div(const Tensor& input, const Tensor& target,
                         std::string_view reduction = "mean", bool log_target = false, TANDEM_AT);
TANDEM_API Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                                 std::string_view reduction = "mean", double beta = 1, TANDEM_AT);
TANDEM_API Tensor huber_loss(const Tensor& input, const Tensor& target,
                             std::string_view reduction = "mean", double delta = 1, TANDEM_AT);
TANDEM_API Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                                    bool full = false, double eps = 1e-6,
                                    std::string_view reduction = "mean", TANDEM_AT);
TANDEM_API Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input = true,
                                   bool full = false, double eps = 1e-8,
                                   std::string_view reduction = "mean", TANDEM_AT);
TANDEM_API Tensor soft_margin_loss(const Tensor& input, const Tensor& target,
                                   std::string_view reduction = "mean", TANDEM_AT);
TANDEM_API Tensor multi_margin_loss(const Tensor& input, const Tensor& target, int64_t p = 1,
                                    double margin = 1, const Tensor& weight = {},
                                    std::string_view reduction = "mean", TANDEM_AT);
TANDEM_API Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                                         std::string_view reduction = "mean", TANDEM_AT);
TANDEM_API Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                              const Tensor& weight = {},
                                              std::string_view reduction = "mean", TANDEM_AT);
TANDEM_API Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2,
                                      const Tensor& target, double margin = 0,
                                      std::string_view reduction = "mean", TANDEM_AT);
TANDEM_API Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin = 1,
                                       std::string_view reduction = "mean", TANDEM_AT);
TANDEM_API Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2,
                                        const Tensor& target, double margin = 0,
                                        std::string_view reduction = "mean", TANDEM_AT);
struct TripletOptions {
  double margin = 1, p = 2, eps = 1e-6;
  bool swap = false;
  std::string_view reduction = "mean";
};
TANDEM_API Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive,
                                      const Tensor& negative, const TripletOptions& options = {},
                                      TANDEM_AT);
struct CtcOptions {
  int64_t blank = 0;
  std::string_view reduction = "mean";
  bool zero_infinity = false;
};
/// log_probabilities [t, n, c] or [t, c]; targets [n, s], or all after each other; lengths: of
/// each. The gradient is the loss's own; PyTorch's has the probabilities added, which the gradient
/// of a log_softmax before it takes away.
TANDEM_API Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets,
                           const std::vector<Dim>& input_lengths,
                           const std::vector<Dim>& target_lengths, const CtcOptions& options = {},
                           TANDEM_AT);

// --- resampling
struct InterpolateOptions {
  Spatial size{};                      // the result's spatial sizes, or
  std::vector<double> scale_factor{};  // how much larger they are: one number, or one for each
  /// "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"
  std::string_view mode = "nearest";
  bool align_corners = false;
  bool recompute_scale_factor = false;
  bool antialias = false;
};
TANDEM_API Tensor interpolate(const Tensor& input, const InterpolateOptions& options, TANDEM_AT);
struct GridOptions {
  std::string_view mode = "bilinear";       // or "nearest", "bicubic"
  std::string_view padding_mode = "zeros";  // or "border", "reflection"
  bool align_corners = false;
};
/// input [n, c, h, w] at grid [n, y, x, 2] of places (x, y), -1 to 1; or with one more dimension.
TANDEM_API Tensor grid_sample(const Tensor& input, const Tensor& grid,
                              const GridOptions& options = {}, TANDEM_AT);
/// The grid of theta [n, 2, 3] for images of `size` [n, c, h, w]; or with one more dimension.
TANDEM_API Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners = false,
                              TANDEM_AT);
TANDEM_API Tensor pixel_shuffle(const Tensor& self, int64_t upscale_factor, TANDEM_AT);
TANDEM_API Tensor pixel_unshuffle(const Tensor& self, int64_t downscale_factor, TANDEM_AT);
TANDEM_API Tensor channel_shuffle(const Tensor& self, int64_t groups, TANDEM_AT);
struct BlockOptions {
  Spatial dilation = 1, padding = 0, stride = 1;
};
/// torch.nn.functional.unfold: the windows of images [n, c, h, w] as columns [n, c * kernel,
/// windows].
TANDEM_API Tensor im2col(const Tensor& self, const Spatial& kernel_size,
                         const BlockOptions& options = {}, TANDEM_AT);
/// Its transpose (torch.nn.functional.fold): columns added up to images of `output_size`.
TANDEM_API Tensor col2im(const Tensor& self, const Spatial& output_size, const Spatial& kernel_size,
                         const BlockOptions& options = {}, TANDEM_AT);
TANDEM_API Tensor fold(const Tensor& self, const Spatial& output_size, const Spatial& kernel_size,
                       const BlockOptions& options = {}, TANDEM_AT);

// --- dropout
TANDEM_API Tensor alpha_dropout(const Tensor& self, double p = 0.5, bool training = false,
                                TANDEM_AT);
TANDEM_API Tensor feature_alpha_dropout(const Tensor& self, double p = 0.5, bool training = false,
                                        TANDEM_AT);
/// Of whole channels: of all dimensions behind the first two.
TANDEM_API Tensor feature_dropout(const Tensor& self, double p = 0.5, bool training = true,
                                  TANDEM_AT);
TANDEM_API const Tensor& alpha_dropout_(const Tensor& self, double p = 0.5, bool training = false,
                                        TANDEM_AT);
TANDEM_API const Tensor& feature_alpha_dropout_(const Tensor& self, double p = 0.5,
                                                bool training = false, TANDEM_AT);
TANDEM_API const Tensor& feature_dropout_(const Tensor& self, double p = 0.5, bool training = true,
                                          TANDEM_AT);

// --- attention
struct AttentionOptions {
  Tensor attn_mask{};
  double dropout_p = 0;
  bool is_causal = false;
  std::optional<double> scale{};
  bool enable_gqa = false;  // one head of keys and values for several of queries
};
TANDEM_API Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key,
                                               const Tensor& value, const AttentionOptions& options,
                                               TANDEM_AT);

#undef TANDEM_AT

}  // namespace tandem

#endif  // TANDEM_OPS_NETWORKS_H
