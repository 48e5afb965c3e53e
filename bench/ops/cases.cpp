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

#define CALL(...) [](const Tensors& x) -> Tensor { return __VA_ARGS__; }

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
      // --- products
      {"matmul", factors, CALL(td::matmul(x[0], x[1]))},
      {"bmm", batches, CALL(td::matmul(x[0], x[1]))},
      {"linear", layer, CALL(td::linear(x[0], x[1], x[2]))},
      {"attention", heads, CALL(td::scaled_dot_product_attention(x[0], x[1], x[2], td::AttentionOptions{.is_causal = true}))},
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
  };
  return cases;
}
// clang-format on

}  // namespace bench
