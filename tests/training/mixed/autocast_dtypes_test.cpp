// The dtype of each function's result under autocast, against tests/torch/autocast.tsv.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>

namespace tandem {
namespace {

Tensor t(DType d, const Shape& sizes) {
  return (arange(1, 1 + int64_t{ir::numel(sizes)}).remainder(7).to(f64) / 8).view(sizes).to(d);
}
Tensor square(DType d) { return (eye(3) * 2 + 0.25).to(d); }
Tensor labels(const Shape& sizes) { return zeros(sizes, i64); }

/// Of the dtypes of its operands.
using Function = std::function<Tensor(DType, DType, DType)>;

// clang-format off
#define ROW(name, ...) {name, []([[maybe_unused]] DType a, [[maybe_unused]] DType b, [[maybe_unused]] DType c) -> Tensor { return __VA_ARGS__; }}

const std::map<std::string, Function> kFunctions{
    ROW("matmul", matmul(t(a, {2, 3}), t(b, {3, 4}))),
    ROW("mm", mm(t(a, {2, 3}), t(b, {3, 4}))),
    ROW("bmm", bmm(t(a, {2, 2, 3}), t(b, {2, 3, 4}))),
    ROW("linear", linear(t(a, {2, 3}), t(b, {4, 3}), t(c, {4}))),
    ROW("addmm", addmm(t(c, {2, 4}), t(a, {2, 3}), t(b, {3, 4}))),
    ROW("addbmm", addbmm(t(c, {2, 4}), t(a, {2, 2, 3}), t(b, {2, 3, 4}))),
    ROW("baddbmm", baddbmm(t(c, {2, 2, 4}), t(a, {2, 2, 3}), t(b, {2, 3, 4}))),
    ROW("vecdot", linalg::vecdot(t(a, {2, 3}), t(b, {2, 3}))),
    ROW("einsum", einsum("ij,jk->ik", {t(a, {2, 3}), t(b, {3, 4})})),
    ROW("tensordot", tensordot(t(a, {2, 3}), t(b, {3, 4}), 1)),
    ROW("inner", inner(t(a, {2, 3}), t(b, {4, 3}))),
    ROW("chain_matmul", chain_matmul({t(a, {2, 3}), t(b, {3, 4}), t(c, {4, 2})})),
    ROW("multi_dot", linalg::multi_dot({t(a, {2, 3}), t(b, {3, 4}), t(c, {4, 2})})),
    ROW("conv1d", conv1d(t(a, {1, 2, 5}), t(b, {3, 2, 2}), t(c, {3}))),
    ROW("conv2d", conv2d(t(a, {1, 2, 5, 5}), t(b, {3, 2, 2, 2}), t(c, {3}))),
    ROW("conv2d same", conv2d(t(a, {1, 2, 5, 5}), t(b, {3, 2, 2, 2}), t(c, {3}), {.padding = "same"})),
    ROW("conv3d", conv3d(t(a, {1, 2, 5, 5, 5}), t(b, {3, 2, 2, 2, 2}), t(c, {3}))),
    ROW("conv_transpose1d", conv_transpose1d(t(a, {1, 2, 5}), t(b, {2, 3, 2}), t(c, {3}))),
    ROW("conv_transpose2d", conv_transpose2d(t(a, {1, 2, 5, 5}), t(b, {2, 3, 2, 2}), t(c, {3}))),
    ROW("conv_transpose3d", conv_transpose3d(t(a, {1, 2, 5, 5, 5}), t(b, {2, 3, 2, 2, 2}), t(c, {3}))),
    ROW("prelu", prelu(t(a, {2, 3}), t(b, {3}))),
    ROW("scaled_dot_product_attention", scaled_dot_product_attention(t(a, {2, 3, 4}), t(b, {2, 5, 4}), t(c, {2, 5, 4}))),
    ROW("avg_pool3d", avg_pool3d(t(a, {1, 1, 4, 4, 4}), 2)),
    ROW("avg_pool2d", avg_pool2d(t(a, {1, 1, 4, 4}), 2)),
    ROW("max_pool3d", max_pool3d(t(a, {1, 1, 4, 4, 4}), 2)),
    ROW("max_pool2d", max_pool2d(t(a, {1, 1, 4, 4}), 2)),
    ROW("adaptive_avg_pool3d", adaptive_avg_pool3d(t(a, {1, 1, 4, 4, 4}), 2)),
    ROW("adaptive_avg_pool2d", adaptive_avg_pool2d(t(a, {1, 1, 4, 4}), 2)),
    ROW("adaptive_max_pool3d", adaptive_max_pool3d(t(a, {1, 1, 4, 4, 4}), 2)),
    ROW("max_unpool2d", max_unpool2d(t(a, {1, 1, 1, 1}), labels({1, 1, 1, 1}), 2)),
    ROW("max_unpool3d", max_unpool3d(t(a, {1, 1, 1, 1, 1}), labels({1, 1, 1, 1, 1}), 2)),
    ROW("grid_sample", grid_sample(t(a, {1, 1, 3, 3}), t(b, {1, 2, 2, 2}))),
    ROW("pad reflect", pad(t(a, {1, 3, 3}), {1, 1}, "reflect")),
    ROW("pad reflect 2d", pad(t(a, {1, 3, 3}), {1, 1, 1, 1}, "reflect")),
    ROW("pad reflect 3d", pad(t(a, {1, 1, 3, 3, 3}), {1, 1, 1, 1, 1, 1}, "reflect")),
    ROW("pad replicate", pad(t(a, {1, 3, 3}), {1, 1}, "replicate")),
    ROW("pad replicate 3d", pad(t(a, {1, 1, 3, 3, 3}), {1, 1, 1, 1, 1, 1}, "replicate")),
    ROW("pad circular", pad(t(a, {1, 3, 3}), {1, 1}, "circular")),
    ROW("pad constant", pad(t(a, {3, 3}), {1, 1})),
    ROW("prod", prod(t(a, {2, 3}))),
    ROW("prod of a dim", prod(t(a, {2, 3}), 1)),
    ROW("sum", sum(t(a, {2, 3}))),
    ROW("cumsum", cumsum(t(a, {2, 3}), 0)),
    ROW("quantile", quantile(t(a, {2, 3}), 0.3)),
    ROW("quantile of a tensor", quantile(t(a, {2, 3}), t(b, {2}))),
    ROW("nanquantile", nanquantile(t(a, {2, 3}), 0.3)),
    ROW("cdist", cdist(t(a, {2, 3}), t(b, {4, 3}))),
    ROW("trace", trace(t(a, {3, 3}))),
    ROW("cholesky", linalg::cholesky(square(a))),
    ROW("cholesky_ex", linalg::cholesky_ex(square(a)).result),
    ROW("cholesky_inverse", cholesky_inverse(square(a))),
    ROW("cholesky_solve", cholesky_solve(t(a, {3, 2}), square(b))),
    ROW("inv", linalg::inv(square(a))),
    ROW("inv_ex", linalg::inv_ex(square(a)).result),
    ROW("inverse", inverse(square(a))),
    ROW("pinverse", pinverse(square(a))),
    ROW("solve", linalg::solve(square(a), t(b, {3, 2}))),
    ROW("triangular_solve", triangular_solve(t(a, {3, 2}), square(b)).solution),
    ROW("tensorinv", linalg::tensorinv(square(a), 1)),
    ROW("tensorsolve", linalg::tensorsolve(square(a), t(b, {3}))),
    ROW("lstsq", linalg::lstsq(square(a), t(b, {3, 2})).solution),
    ROW("svd", linalg::svd(square(a)).s),
    ROW("svdvals", linalg::svdvals(square(a))),
    ROW("eigh", linalg::eigh(square(a)).eigenvalues),
    ROW("eigvalsh", linalg::eigvalsh(square(a))),
    ROW("qr", linalg::qr(square(a)).q),
    ROW("geqrf", geqrf(square(a)).a),
    ROW("householder_product", linalg::householder_product(square(a), t(b, {3}))),
    ROW("ormqr", ormqr(square(a), t(b, {3}), square(c))),
    ROW("cond", linalg::cond(square(a))),
    ROW("cond of a norm", linalg::cond(square(a), 1)),
    ROW("mse_loss", mse_loss(t(a, {2, 3}), t(b, {2, 3}))),
    ROW("l1_loss", l1_loss(t(a, {2, 3}), t(b, {2, 3}))),
    ROW("smooth_l1_loss", smooth_l1_loss(t(a, {2, 3}), t(b, {2, 3}))),
    ROW("huber_loss", huber_loss(t(a, {2, 3}), t(b, {2, 3}))),
    ROW("nll_loss", nll_loss(t(a, {2, 3}), labels({2}))),
    ROW("cross_entropy", cross_entropy(t(a, {2, 3}), labels({2}))),
    ROW("cross_entropy of probabilities", cross_entropy(t(a, {2, 3}), t(b, {2, 3}))),
    ROW("binary_cross_entropy", binary_cross_entropy(t(a, {2, 3}), t(b, {2, 3}))),
    ROW("binary_cross_entropy_with_logits", binary_cross_entropy_with_logits(t(a, {2, 3}), t(b, {2, 3}))),
    ROW("binary_cross_entropy_with_logits weighted", binary_cross_entropy_with_logits(t(a, {2, 3}), t(b, {2, 3}), {.weight = t(c, {3})})),
    ROW("kl_div", kl_div(t(a, {2, 3}), t(b, {2, 3}), "sum")),
    ROW("poisson_nll_loss", poisson_nll_loss(t(a, {2, 3}), t(b, {2, 3}))),
    ROW("hinge_embedding_loss", hinge_embedding_loss(t(a, {2, 3}), t(b, {2, 3}))),
    ROW("soft_margin_loss", soft_margin_loss(t(a, {2, 3}), t(b, {2, 3}))),
    ROW("margin_ranking_loss", margin_ranking_loss(t(a, {3}), t(b, {3}), t(c, {3}))),
    ROW("cosine_embedding_loss", cosine_embedding_loss(t(a, {2, 3}), t(b, {2, 3}), labels({2}) + 1)),
    ROW("triplet_margin_loss", triplet_margin_loss(t(a, {2, 3}), t(b, {2, 3}), t(c, {2, 3}))),
    ROW("multi_margin_loss", multi_margin_loss(t(a, {2, 3}), labels({2}))),
    ROW("multilabel_margin_loss", multilabel_margin_loss(t(a, {2, 3}), labels({2, 3}))),
    ROW("cat", cat({t(a, {2, 3}), t(b, {2, 3})})),
    ROW("stack", stack({t(a, {2, 3}), t(b, {2, 3})})),
    ROW("index_copy", index_copy(t(a, {2, 3}), 0, ones({1}, i64), t(b, {1, 3}))),
    ROW("add", t(a, {2, 3}) + t(b, {2, 3})),
    ROW("softmax", softmax(t(a, {2, 3}), 1)),
    ROW("log_softmax", log_softmax(t(a, {2, 3}), 1)),
    ROW("layer_norm", layer_norm(t(a, {2, 3}), {3})),
    ROW("gelu", gelu(t(a, {2, 3}))),
    ROW("exp", exp(t(a, {2, 3}))),
    ROW("norm", norm(t(a, {2, 3}))),
    ROW("mean", mean(t(a, {2, 3}))),
    ROW("mv", mv(t(a, {2, 3}), t(b, {3}))),
    ROW("dot", dot(t(a, {3}), t(b, {3}))),
    ROW("outer", outer(t(a, {3}), t(b, {3}))),
    ROW("addmm_", t(c, {2, 4}).addmm_(t(a, {2, 3}), t(b, {3, 4}))),
    ROW("matmul out", matmul_out(empty({2, 4}, c), t(a, {2, 3}), t(b, {3, 4}))),
    ROW("embedding", embedding(t(a, {2, 3}), labels({2}))),
};
#undef ROW
// clang-format on

DType dtype_named(const std::string& name) {
  for (const DType d : {f64, f32, bf16, f16})
    if (ir::name(d) == name) return d;
  ADD_FAILURE() << name;
  return f32;
}

std::vector<std::string> split(const std::string& line, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(line);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

/// "bf16: f32 bf16 f32"
struct Setting {
  explicit Setting(const std::string& text) {
    const auto words = split(text, ' ');
    region = dtype_named(words[0].substr(0, words[0].size() - 1));
    for (size_t i = 0; i < 3; ++i) operands[i] = dtype_named(words[i + 1]);
  }
  DType region, operands[3];
};

TEST(AutocastDtypes, AreAsPyTorchHasThem) {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/torch/autocast.tsv");
  std::string line;
  std::getline(file, line);
  std::getline(file, line);
  const auto settings = split(line, '\t');
  size_t rows = 0;
  while (std::getline(file, line)) {
    const auto fields = split(line, '\t');
    const Function& function = kFunctions.at(fields[0]);
    ++rows;
    for (size_t i = 1; i < fields.size(); ++i) {
      if (fields[i] == "-") continue;
      const Setting s(settings[i]);
      const Autocast region(s.region);
      try {
        const Tensor result = function(s.operands[0], s.operands[1], s.operands[2]);
        EXPECT_EQ(ir::name(result.dtype()), fields[i]) << fields[0] << " in " << settings[i];
      } catch (const Error& error) {
        ADD_FAILURE() << fields[0] << " in " << settings[i] << ": " << error.what();
      }
    }
  }
  EXPECT_EQ(rows, kFunctions.size());
}

}  // namespace
}  // namespace tandem
