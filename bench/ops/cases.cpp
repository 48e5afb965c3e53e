#include "bench/ops/cases.h"

namespace bench {
namespace {

namespace td = tandem;
using td::Tensor;

// --- what the functions are given
Tensors square() { return {td::randn({1024, 1024})}; }
Tensors positive() { return {td::rand({1024, 1024}) + 0.1}; }
Tensors two() { return {td::randn({1024, 1024}), td::randn({1024, 1024}) + 3}; }
Tensors three() {
  return {td::randn({1024, 1024}), td::randn({1024, 1024}), td::randn({1024, 1024})};
}
Tensors row() { return {td::randn({1024, 1024}), td::randn({1024})}; }
Tensors masked() {
  return {td::randn({1024, 1024}) > 0, td::randn({1024, 1024}), td::randn({1024, 1024})};
}
Tensors factors() { return {td::randn({512, 512}), td::randn({512, 512})}; }
Tensors batches() { return {td::randn({32, 128, 64}), td::randn({32, 64, 128})}; }
Tensors layer() { return {td::randn({256, 1024}), td::randn({512, 1024}), td::randn({512})}; }
Tensors norm() { return {td::randn({1024, 1024}), td::randn({1024}), td::randn({1024})}; }
Tensors images() { return {td::randn({8, 64, 56, 56})}; }
Tensors channels() { return {td::randn({8, 64, 56, 56}), td::randn({64}), td::randn({64})}; }
Tensors conv() { return {td::randn({8, 32, 32, 32}), td::randn({64, 32, 3, 3}), td::randn({64})}; }
Tensors depthwise() {
  return {td::randn({8, 64, 56, 56}), td::randn({64, 1, 3, 3}), td::randn({64})};
}
Tensors line() { return {td::randn({8, 64, 512}), td::randn({64, 64, 3}), td::randn({64})}; }
Tensors transposed() {
  return {td::randn({8, 32, 16, 16}), td::randn({32, 32, 4, 4}), td::randn({32})};
}
Tensors heads() {
  return {td::randn({2, 8, 128, 64}), td::randn({2, 8, 128, 64}), td::randn({2, 8, 128, 64})};
}
Tensors logits() { return {td::randn({512, 1024}), td::randint(0, 1024, {512})}; }
Tensors chances() { return {td::randn({1024, 1024}), td::rand({1024, 1024})}; }
Tensors table() { return {td::randn({10000, 128}), td::randint(0, 10000, {32, 128})}; }
Tensors rows() { return {td::randn({1024, 1024}), td::randint(0, 1024, {512})}; }
Tensors places() { return {td::randn({1024, 1024}), td::randint(0, 1024, {1024, 512})}; }
Tensors added() {
  return {td::randn({1024, 1024}), td::randint(0, 1024, {1024, 512}), td::randn({1024, 512})};
}
Tensor definite_matrix(const td::Shape& sizes) {
  const Tensor x = td::randn(sizes);
  return td::matmul(x, x.mT()) + td::eye(sizes.back()) * 10;
}
Tensors fractions() { return {td::rand({1024, 1024}) * 1.8 - 0.9}; }
Tensors fractions_up() { return {td::rand({1024, 1024})}; }
Tensors weights() { return {td::rand({512, 1024})}; }
Tensors integers() {
  return {td::randint(0, 1000, {1024, 1024}), td::randint(0, 1000, {1024, 1024})};
}
Tensors digits() { return {td::randint(0, 100, {256, 1024})}; }
Tensors numbers() { return {td::randint(0, 1000, {100000})}; }
Tensors numbers_few() { return {td::randint(0, 1000, {1024})}; }
Tensors halves() { return {td::randn({1024, 1024}, td::bf16), td::randn({1024, 1024}, td::bf16)}; }
Tensors half() { return {td::randn({1024, 1024}, td::bf16)}; }
Tensors doubles() { return {td::randn({1024, 1024}, td::f64)}; }
Tensors cube() { return {td::randn({64, 128, 128})}; }
Tensors masks() { return {td::randn({1024, 1024}) > 0}; }
Tensors sorted() { return {td::sort(td::randn({10000}), 0).values, td::randn({100000})}; }
Tensors tested() { return {td::randint(0, 10000, {100000}), td::randint(0, 10000, {1000})}; }
Tensors long_rows() { return {td::randn({1000000}), td::randn({1000000})}; }
Tensors short_rows() { return {td::randn({1024}), td::randn({1024})}; }
Tensors row_alone() { return {td::randn({1024})}; }
Tensors one_row() { return {td::randn({1, 1024}), td::randn({1024, 1024})}; }
Tensors few_rows() { return {td::randn({8, 1024}), td::randn({1024, 1024})}; }
Tensors half_factors() {
  return {td::randn({512, 512}, td::bf16), td::randn({512, 512}, td::bf16)};
}
Tensors double_factors() {
  return {td::randn({512, 512}, td::f64), td::randn({512, 512}, td::f64)};
}
Tensors tall() { return {td::randn({100000, 16}), td::randn({16, 16})}; }
Tensors small_batches() { return {td::randn({4096, 8, 8}), td::randn({4096, 8, 8})}; }
Tensors added_batches() {
  return {td::randn({32, 128, 128}), td::randn({32, 128, 64}), td::randn({32, 64, 128})};
}
Tensors joined() { return {td::randn({32, 64, 64}), td::randn({32, 64, 64}), td::randn({32, 64})}; }
Tensors little() { return {td::randn({32, 32}), td::randn({32, 32})}; }
Tensors points() { return {td::randn({1000, 16}), td::randn({1000, 16})}; }
Tensors pairs() { return {td::randn({128, 64}), td::randn({128, 64}), td::randn({32, 64, 64})}; }
Tensors definite() { return {definite_matrix({256, 256})}; }
Tensors many_definite() { return {definite_matrix({256, 16, 16})}; }
Tensors equations() { return {definite_matrix({256, 256}), td::randn({256, 64})}; }
Tensors generators() { return {td::randn({64, 64}) * 0.1}; }
Tensors conv_1x1() {
  return {td::randn({8, 64, 28, 28}), td::randn({256, 64, 1, 1}), td::randn({256})};
}
Tensors first_layer() {
  return {td::randn({4, 3, 112, 112}), td::randn({64, 3, 7, 7}), td::randn({64})};
}
Tensors conv_5x5() {
  return {td::randn({4, 32, 28, 28}), td::randn({32, 32, 5, 5}), td::randn({32})};
}
Tensors conv_grouped() {
  return {td::randn({8, 64, 28, 28}), td::randn({64, 16, 3, 3}), td::randn({64})};
}
Tensors depthwise_5x5() {
  return {td::randn({8, 64, 28, 28}), td::randn({64, 1, 5, 5}), td::randn({64})};
}
Tensors line_depthwise() {
  return {td::randn({8, 64, 512}), td::randn({64, 1, 7}), td::randn({64})};
}
Tensors line_alone() { return {td::randn({8, 64, 2048})}; }
Tensors volume_conv() {
  return {td::randn({2, 16, 16, 16, 16}), td::randn({32, 16, 3, 3, 3}), td::randn({32})};
}
Tensors volumes() { return {td::randn({4, 16, 32, 32, 32})}; }
Tensors columns() { return {td::randn({4, 288, 3136})}; }
Tensors sampled() { return {td::randn({4, 32, 56, 56}), td::rand({4, 56, 56, 2}) * 2 - 1}; }
Tensors bags() { return {td::randn({10000, 128}), td::randint(0, 10000, {128, 32})}; }
Tensors spoken() {
  return {td::log_softmax(td::randn({100, 16, 50}), 2), td::randint(1, 50, {16, 20})};
}
Tensors heads_flat() { return {td::randn({4, 256, 8, 64})}; }
Tensors indexed() {
  return {td::randn({1024, 1024}), td::randint(0, 1024, {100000}), td::randint(0, 1024, {100000})};
}
Tensors put_pairs() {
  return {td::randn({1024, 1024}), td::randint(0, 1024, {100000}), td::randint(0, 1024, {100000}),
          td::randn({100000})};
}
Tensors added_rows() {
  return {td::randn({1024, 1024}), td::randperm(512), td::randn({512, 1024})};
}
Tensors graph() {
  return {td::randn({5000, 64}), td::randint(0, 5000, {50000, 1}), td::randn({50000, 64})};
}
Tensors small_two() { return {td::randn({32, 32}), td::randn({32, 32})}; }
Tensors small_layer() { return {td::randn({8, 32}), td::randn({32, 32}), td::randn({32})}; }
Tensors small_logits() { return {td::randn({8, 10}), td::randint(0, 10, {8})}; }
Tensors small_table() { return {td::randn({100, 16}), td::randint(0, 100, {8})}; }
Tensors small_conv() { return {td::randn({1, 4, 8, 8}), td::randn({4, 4, 3, 3}), td::randn({4})}; }
Tensors small_equations() { return {definite_matrix({8, 8}), td::randn({8, 2})}; }
Tensors small_heads() { return {td::randn({1, 2, 8, 16})}; }

#define CALL(...) []([[maybe_unused]] const Tensors& x) -> Tensor { return __VA_ARGS__; }

}  // namespace

// clang-format off
const std::vector<OpCase>& op_cases() {  // NOLINT(readability-function-size): a table
  static const std::vector<OpCase> cases = {
      // --- pointwise
      {"add", two, CALL(x[0] + x[1])},
      {"sub_scaled", two, CALL(td::sub(x[0], x[1], 0.5))},
      {"mul", two, CALL(x[0] * x[1])},
      {"div", two, CALL(x[0] / x[1])},
      {"mul_number", square, CALL(x[0] * 0.5)},
      {"add_row", row, CALL(x[0] + x[1])},
      {"maximum", two, CALL(td::maximum(x[0], x[1]))},
      {"pow", positive, CALL(td::pow(x[0], 1.7))},
      {"square", square, CALL(td::square(x[0]))},
      {"sqrt", positive, CALL(td::sqrt(x[0]))},
      {"exp", square, CALL(td::exp(x[0]))},
      {"log", positive, CALL(td::log(x[0]))},
      {"sin", square, CALL(td::sin(x[0]))},
      {"tanh", square, CALL(td::tanh(x[0]))},
      {"sigmoid", square, CALL(td::sigmoid(x[0]))},
      {"erf", square, CALL(td::erf(x[0]))},
      {"abs", square, CALL(td::abs(x[0]))},
      {"clamp", square, CALL(td::clamp(x[0], -0.5, 0.5))},
      {"where", masked, CALL(td::where(x[0], x[1], x[2]))},
      {"gt", two, CALL(x[0] > x[1]), false},
      {"addcmul", three, CALL(td::addcmul(x[0], x[1], x[2], 0.5))},
      {"masked_fill", masked, CALL(td::masked_fill(x[1], x[0], 0))},
      {"relu", square, CALL(td::relu(x[0]))},
      {"leaky_relu", square, CALL(td::leaky_relu(x[0]))},
      {"gelu", square, CALL(td::gelu(x[0]))},
      {"silu", square, CALL(td::silu(x[0]))},
      {"softplus", square, CALL(td::softplus(x[0]))},
      {"hardswish", square, CALL(td::hardswish(x[0]))},
      {"dropout", square, CALL(td::dropout(x[0], 0.1))},
      {"floor", square, CALL(td::floor(x[0]))},
      {"remainder", two, CALL(td::remainder(x[0], x[1]))},
      {"fmod", two, CALL(td::fmod(x[0], x[1]))},
      {"atan2", two, CALL(td::atan2(x[0], x[1]))},
      {"hypot", two, CALL(td::hypot(x[0], x[1]))},
      {"lerp", three, CALL(td::lerp(x[0], x[1], x[2]))},
      {"logaddexp", two, CALL(td::logaddexp(x[0], x[1]))},
      {"xlogy", chances, CALL(td::xlogy(x[0], x[1]))},
      {"lgamma", positive, CALL(td::lgamma(x[0]))},
      {"digamma", positive, CALL(td::digamma(x[0]))},
      {"erfinv", fractions, CALL(td::erfinv(x[0]))},
      {"i0", square, CALL(td::i0(x[0]))},
      {"nan_to_num", square, CALL(td::nan_to_num(x[0]))},
      {"elu", square, CALL(td::elu(x[0]))},
      {"mish", square, CALL(td::mish(x[0]))},
      {"log_sigmoid", square, CALL(td::log_sigmoid(x[0]))},
      {"hardtanh", square, CALL(td::hardtanh(x[0]))},
      {"prelu", row, CALL(td::prelu(x[0], x[1]))},
      {"glu", square, CALL(td::glu(x[0]))},
      {"bitwise_and", integers, CALL(td::bitwise_and(x[0], x[1])), false},
      {"add_integers", integers, CALL(x[0] + x[1]), false},
      {"add_bf16", halves, CALL(x[0] + x[1])},
      {"gelu_bf16", half, CALL(td::gelu(x[0]))},
      {"exp_f64", doubles, CALL(td::exp(x[0]))},
      {"tanh_f64", doubles, CALL(td::tanh(x[0]))},
      {"to_bf16", square, CALL(x[0].to(td::bf16))},
      {"add_transposed", two, CALL(x[0] + x[1].T())},
      {"exp_of_every_other", square, CALL(td::exp(x[0].index({td::ellipsis, td::Slice{0, {}, 2}})))},
      // --- reductions, scans, sorts
      {"sum", square, CALL(td::sum(x[0]))},
      {"sum_rows", square, CALL(td::sum(x[0], {1}))},
      {"sum_columns", square, CALL(td::sum(x[0], {0}))},
      {"mean", square, CALL(td::mean(x[0], {1}))},
      {"var", square, CALL(td::var(x[0], {1}))},
      {"amax", square, CALL(td::amax(x[0], {1}))},
      {"argmax", square, CALL(td::argmax(x[0], 1)), false},
      {"norm", square, CALL(td::norm(x[0]))},
      {"softmax", square, CALL(td::softmax(x[0], 1))},
      {"log_softmax", square, CALL(td::log_softmax(x[0], 1))},
      {"logsumexp", square, CALL(td::logsumexp(x[0], {1}))},
      {"cumsum", square, CALL(td::cumsum(x[0], 1))},
      {"sort", square, CALL(td::sort(x[0], 1).values)},
      {"topk", square, CALL(td::topk(x[0], 16).values)},
      {"prod", square, CALL(td::prod(x[0], {1}))},
      {"std", square, CALL(td::std(x[0], {1}))},
      {"sum_middle", cube, CALL(td::sum(x[0], {1}))},
      {"sum_outer", cube, CALL(td::sum(x[0], {0, 2}))},
      {"sum_bf16", half, CALL(td::sum(x[0], {1}))},
      {"var_columns", square, CALL(td::var(x[0], {0}))},
      {"amax_columns", square, CALL(td::amax(x[0], {0}))},
      {"argmax_columns", square, CALL(td::argmax(x[0], 0)), false},
      {"softmax_columns", square, CALL(td::softmax(x[0], 0))},
      {"any_rows", masks, CALL(td::any(x[0], {1})), false},
      {"count_nonzero", square, CALL(td::count_nonzero(x[0])), false},
      {"nansum", square, CALL(td::nansum(x[0]))},
      {"norm_p1", square, CALL(td::norm(x[0], 1, {1}))},
      {"median", square, CALL(td::median(x[0], 1).values)},
      {"median_of_all", square, CALL(td::median(x[0]))},
      {"kthvalue", square, CALL(td::kthvalue(x[0], 100).values)},
      {"mode", digits, CALL(td::mode(x[0]).values), false},
      {"quantile", square, CALL(td::quantile(x[0], 0.3, 1))},
      {"cumprod", square, CALL(td::cumprod(x[0], 1))},
      {"cummax", square, CALL(td::cummax(x[0], 1).values)},
      {"logcumsumexp", square, CALL(td::logcumsumexp(x[0], 1))},
      {"cumsum_columns", square, CALL(td::cumsum(x[0], 0))},
      {"diff", square, CALL(td::diff(x[0]))},
      {"sort_columns", square, CALL(td::sort(x[0], 0).values)},
      {"argsort_integers", digits, CALL(td::argsort(x[0])), false},
      {"topk_columns", square, CALL(td::topk(x[0], 16, 0).values)},
      {"histc", square, CALL(td::histc(x[0], 100, -3, 3)), false},
      {"bincount", numbers, CALL(td::bincount(x[0], {}, 1000)), false, false},
      {"searchsorted", sorted, CALL(td::searchsorted(x[0], x[1])), false},
      {"unique", numbers, CALL(td::unique(x[0]).values), false, false},
      {"isin", tested, CALL(td::isin(x[0], x[1])), false},
      // --- products
      {"matmul", factors, CALL(td::matmul(x[0], x[1]))},
      {"bmm", batches, CALL(td::matmul(x[0], x[1]))},
      {"linear", layer, CALL(td::linear(x[0], x[1], x[2]))},
      {"attention", heads, CALL(td::scaled_dot_product_attention(x[0], x[1], x[2], td::AttentionOptions{.is_causal = true}))},
      {"mv", row, CALL(td::mv(x[0], x[1]))},
      {"vector_matrix", row, CALL(td::matmul(x[1], x[0]))},
      {"dot", long_rows, CALL(td::dot(x[0], x[1]))},
      {"outer", short_rows, CALL(td::outer(x[0], x[1]))},
      {"linear_of_one", one_row, CALL(td::linear(x[0], x[1]))},
      {"linear_of_few", few_rows, CALL(td::linear(x[0], x[1]))},
      {"matmul_bf16", half_factors, CALL(td::matmul(x[0], x[1]))},
      {"matmul_f64", double_factors, CALL(td::matmul(x[0], x[1]))},
      {"matmul_tall", tall, CALL(td::matmul(x[0], x[1]))},
      {"bmm_small", small_batches, CALL(td::matmul(x[0], x[1]))},
      {"baddbmm", added_batches, CALL(td::baddbmm(x[0], x[1], x[2]))},
      {"einsum", joined, CALL(td::einsum("bij,bkj,bk->bi", {x[0], x[1], x[2]}))},
      {"kron", little, CALL(td::kron(x[0], x[1]))},
      {"cdist", points, CALL(td::cdist(x[0], x[1]))},
      {"cdist_p1", points, CALL(td::cdist(x[0], x[1], 1))},
      {"cosine_similarity", two, CALL(td::cosine_similarity(x[0], x[1]))},
      {"bilinear", pairs, CALL(td::bilinear(x[0], x[1], x[2]))},
      // --- linear algebra
      {"cholesky", definite, CALL(td::linalg::cholesky(x[0]))},
      {"inverse", definite, CALL(td::inverse(x[0]))},
      {"det", definite, CALL(td::det(x[0] * 0.004))},
      {"solve", equations, CALL(td::linalg::solve(x[0], x[1]))},
      {"solve_triangular", equations, CALL(td::linalg::solve_triangular(x[0], x[1], {}))},
      {"qr", definite, CALL(td::linalg::qr(x[0]).r)},
      {"eigh", definite, CALL(td::linalg::eigh(x[0]).eigenvalues)},
      {"svdvals", definite, CALL(td::linalg::svdvals(x[0]))},
      {"matrix_exp", generators, CALL(td::matrix_exp(x[0]))},
      {"cholesky_of_many", many_definite, CALL(td::linalg::cholesky(x[0]))},
      {"inverse_of_many", many_definite, CALL(td::inverse(x[0]))},
      // --- networks
      {"layer_norm", norm, CALL(td::layer_norm(x[0], {1024}, x[1], x[2]))},
      {"rms_norm", norm, CALL(td::rms_norm(x[0], {1024}, x[1]))},
      {"batch_norm", channels, CALL(td::batch_norm(x[0], {}, {}, x[1], x[2], true))},
      {"group_norm", channels, CALL(td::group_norm(x[0], 8, x[1], x[2]))},
      {"conv2d", conv, CALL(td::conv2d(x[0], x[1], x[2], {.padding = 1}))},
      {"conv2d_depthwise", depthwise, CALL(td::conv2d(x[0], x[1], x[2], {.padding = 1, .groups = 64}))},
      {"conv1d", line, CALL(td::conv1d(x[0], x[1], x[2], {.padding = 1}))},
      {"conv_transpose2d", transposed, CALL(td::conv_transpose2d(x[0], x[1], x[2], {.stride = 2, .padding = 1}))},
      {"max_pool2d", images, CALL(td::max_pool2d(x[0], 2))},
      {"avg_pool2d", images, CALL(td::avg_pool2d(x[0], 2))},
      {"adaptive_avg_pool2d", images, CALL(td::adaptive_avg_pool2d(x[0], 1))},
      {"interpolate_bilinear", images, CALL(td::interpolate(x[0], {.scale_factor = {2}, .mode = "bilinear"}))},
      {"interpolate_nearest", images, CALL(td::interpolate(x[0], {.scale_factor = {2}}))},
      {"cross_entropy", logits, CALL(td::cross_entropy(x[0], x[1]))},
      {"mse_loss", two, CALL(td::mse_loss(x[0], x[1]))},
      {"bce_with_logits", chances, CALL(td::binary_cross_entropy_with_logits(x[0], x[1]))},
      {"smooth_l1_loss", two, CALL(td::smooth_l1_loss(x[0], x[1]))},
      {"instance_norm", channels, CALL(td::instance_norm(x[0], {}, {}, x[1], x[2]))},
      {"local_response_norm", images, CALL(td::local_response_norm(x[0], 5))},
      {"normalize", square, CALL(td::normalize(x[0]))},
      {"conv2d_1x1", conv_1x1, CALL(td::conv2d(x[0], x[1], x[2]))},
      {"conv2d_strided", conv, CALL(td::conv2d(x[0], x[1], x[2], {.stride = 2, .padding = 1}))},
      {"conv2d_dilated", conv, CALL(td::conv2d(x[0], x[1], x[2], {.padding = 2, .dilation = 2}))},
      {"conv2d_first", first_layer, CALL(td::conv2d(x[0], x[1], x[2], {.stride = 2, .padding = 3}))},
      {"conv2d_5x5", conv_5x5, CALL(td::conv2d(x[0], x[1], x[2], {.padding = 2}))},
      {"conv2d_grouped", conv_grouped, CALL(td::conv2d(x[0], x[1], x[2], {.padding = 1, .groups = 4}))},
      {"conv2d_depthwise_5x5", depthwise_5x5, CALL(td::conv2d(x[0], x[1], x[2], {.padding = 2, .groups = 64}))},
      {"conv1d_dilated", line, CALL(td::conv1d(x[0], x[1], x[2], {.padding = 4, .dilation = 4}))},
      {"conv1d_depthwise", line_depthwise, CALL(td::conv1d(x[0], x[1], x[2], {.padding = 3, .groups = 64}))},
      {"conv3d", volume_conv, CALL(td::conv3d(x[0], x[1], x[2], {.padding = 1}))},
      {"max_pool1d", line_alone, CALL(td::max_pool1d(x[0], 2))},
      {"max_pool2d_3x3", images, CALL(td::max_pool2d(x[0], 3, {.stride = 2, .padding = 1}))},
      {"max_pool3d", volumes, CALL(td::max_pool3d(x[0], 2))},
      {"avg_pool3d", volumes, CALL(td::avg_pool3d(x[0], 2))},
      {"avg_pool2d_3x3", images, CALL(td::avg_pool2d(x[0], 3, {.stride = 1, .padding = 1}))},
      {"adaptive_max_pool2d", images, CALL(td::adaptive_max_pool2d(x[0], 7))},
      {"lp_pool2d", images, CALL(td::lp_pool2d(x[0], 2, 2))},
      {"im2col", images, CALL(td::im2col(x[0], 3, {.padding = 1}))},
      {"fold", columns, CALL(td::fold(x[0], 56, 3, {.padding = 1}))},
      {"pixel_shuffle", images, CALL(td::pixel_shuffle(x[0], 2))},
      {"grid_sample", sampled, CALL(td::grid_sample(x[0], x[1]))},
      {"interpolate_bicubic", images, CALL(td::interpolate(x[0], {.scale_factor = {2}, .mode = "bicubic"}))},
      {"interpolate_area", images, CALL(td::interpolate(x[0], {.size = 28, .mode = "area"}))},
      {"embedding_bag", bags, CALL(td::embedding_bag(x[0], x[1]))},
      {"nll_loss", logits, CALL(td::nll_loss(x[0], x[1]))},
      {"kl_div", chances, CALL(td::kl_div(x[0], x[1]))},
      {"huber_loss", two, CALL(td::huber_loss(x[0], x[1]))},
      {"triplet_margin_loss", three, CALL(td::triplet_margin_loss(x[0], x[1], x[2]))},
      {"ctc_loss", spoken, CALL(td::ctc_loss(x[0], x[1], std::vector<td::Dim>(16, 100), std::vector<td::Dim>(16, 20)))},
      // --- shapes, indexing
      {"cat", two, CALL(td::cat({x[0], x[1]}, 1))},
      {"stack", two, CALL(td::stack({x[0], x[1]}, 0))},
      {"transpose", square, CALL(x[0].T().contiguous())},
      {"flip", square, CALL(td::flip(x[0], {1}))},
      {"roll", square, CALL(td::roll(x[0], {100}, {1}))},
      {"pad", square, CALL(td::pad(x[0], {3, 3, 3, 3}))},
      {"tril", square, CALL(td::tril(x[0]))},
      {"embedding", table, CALL(td::embedding(x[0], x[1]))},
      {"index_select", rows, CALL(td::index_select(x[0], 0, x[1]))},
      {"gather", places, CALL(td::gather(x[0], 1, x[1]))},
      {"scatter_add", added, CALL(td::scatter_add(x[0], 1, x[1], x[2]))},
      {"repeat", square, CALL(x[0].repeat({2, 2}))},
      {"repeat_interleave", square, CALL(td::repeat_interleave(x[0], 2, 1))},
      {"rot90", square, CALL(td::rot90(x[0]))},
      {"permute", cube, CALL(x[0].permute({2, 0, 1}).contiguous())},
      {"heads_swapped", heads_flat, CALL(x[0].transpose(1, 2).contiguous())},
      {"split_and_joined", square, CALL(td::cat(td::chunk(x[0], 4, 1), 0))},
      {"one_hot", numbers_few, CALL(td::one_hot(x[0], 1000)), false},
      {"diag", row_alone, CALL(td::diag(x[0]))},
      {"index_rows", rows, CALL(x[0].index({x[1]}))},
      {"index_pairs", indexed, CALL(x[0].index({x[1], x[2]}))},
      {"masked_select", masked, CALL(td::masked_select(x[1], x[0])), true, false},
      {"masked_scatter", masked, CALL(td::masked_scatter(x[1], x[0], x[2]))},
      {"nonzero", masks, CALL(td::nonzero(x[0])), false, false},
      {"index_add", added_rows, CALL(td::index_add(x[0], 0, x[1], x[2]))},
      {"index_copy", added_rows, CALL(td::index_copy(x[0], 0, x[1], x[2]))},
      {"index_put_accumulate", put_pairs, CALL(td::index_put(x[0], {x[1], x[2]}, x[3], true))},
      {"scatter", added, CALL(td::scatter(x[0], 1, x[1], x[2]))},
      {"scatter_reduce_amax", added, CALL(td::scatter_reduce(x[0], 1, x[1], x[2], "amax"))},
      {"scatter_add_rows", graph, CALL(td::scatter_add(x[0], 0, td::expand(x[1], {-1, 64}), x[2]))},
      {"take_along_dim", places, CALL(td::take_along_dim(x[0], x[1], 1))},
      // --- random
      {"randn", row_alone, CALL(td::randn({1024, 1024})), false, false},
      {"rand", row_alone, CALL(td::rand({1024, 1024})), false, false},
      {"randperm", row_alone, CALL(td::randperm(1000000)), false, false},
      {"bernoulli", fractions_up, CALL(td::bernoulli(x[0])), false},
      {"multinomial", weights, CALL(td::multinomial(x[0], 10, true)), false},
      // --- of a few elements: what a call costs
      {"add_small", small_two, CALL(x[0] + x[1])},
      {"mul_number_small", small_two, CALL(x[0] * 0.5)},
      {"exp_small", small_two, CALL(td::exp(x[0]))},
      {"sum_small", small_two, CALL(td::sum(x[0]))},
      {"softmax_small", small_two, CALL(td::softmax(x[0], 1))},
      {"matmul_small", small_two, CALL(td::matmul(x[0], x[1].T()))},
      {"linear_small", small_layer, CALL(td::linear(x[0], x[1], x[2]))},
      {"layer_norm_small", small_layer, CALL(td::layer_norm(x[0], {32}, x[2], x[2]))},
      {"gelu_small", small_two, CALL(td::gelu(x[0]))},
      {"cat_small", small_two, CALL(td::cat({x[0], x[1]}, 0))},
      {"index_small", small_two, CALL(x[0][3])},
      {"transpose_small", small_two, CALL(x[0].T().contiguous())},
      {"cross_entropy_small", small_logits, CALL(td::cross_entropy(x[0], x[1]))},
      {"embedding_small", small_table, CALL(td::embedding(x[0], x[1]))},
      {"conv2d_small", small_conv, CALL(td::conv2d(x[0], x[1], x[2], {.padding = 1}))},
      {"max_pool2d_small", small_conv, CALL(td::max_pool2d(x[0], 2))},
      {"where_small", small_two, CALL(td::where(x[0] > 0, x[0], x[1]))},
      {"topk_small", small_two, CALL(td::topk(x[0], 3).values)},
      {"sort_small", small_two, CALL(td::sort(x[0]).values)},
      {"cumsum_small", small_two, CALL(td::cumsum(x[0], 1))},
      {"var_small", small_two, CALL(td::var(x[0], {1}))},
      {"mse_loss_small", small_two, CALL(td::mse_loss(x[0], x[1]))},
      {"solve_small", small_equations, CALL(td::linalg::solve(x[0], x[1]))},
      {"attention_small", small_heads, CALL(td::scaled_dot_product_attention(x[0], x[0], x[0]))},
  };
  return cases;
}
// clang-format on

}  // namespace bench
