// The layouts of fresh results against PyTorch's (tests/torch/result_strides.tsv), eager and
// compiled.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include "runtime/backends/backends.h"

namespace tandem::testing {
namespace {

using Operands = std::vector<Tensor>;
using Function = std::function<Tensor(const Operands&)>;

Tensor places(Dim n) { return zeros({n}, i64); }
Tensor mask(const Tensor& x) { return ones(x.sizes(), boolean); }

/// The operators of tests/torch/result_strides.py.
const std::map<std::string, Function>& functions() {
  using X = const Operands&;
  static const std::map<std::string, Function> all{
      {"neg", [](X x) { return -x[0]; }},
      {"clone", [](X x) { return clone(x[0]); }},
      {"relu", [](X x) { return relu(x[0]); }},
      {"gelu", [](X x) { return gelu(x[0]); }},
      {"square", [](X x) { return square(x[0]); }},
      {"to_f64", [](X x) { return to(x[0], f64); }},
      {"isnan", [](X x) { return isnan(x[0]); }},
      {"add_number", [](X x) { return x[0] + 1; }},
      {"less_number", [](X x) { return x[0] < 1; }},
      {"clamp", [](X x) { return clamp(x[0], 0, 1); }},
      {"nan_to_num", [](X x) { return nan_to_num(x[0]); }},
      {"masked_fill", [](X x) { return masked_fill(x[0], mask(x[0]), 2); }},
      {"where", [](X x) { return where(mask(x[0]), x[0], x[0]); }},
      {"dropout", [](X x) { return dropout(x[0]); }},
      {"empty_like", [](X x) { return empty_like(x[0]); }},
      {"zeros_like", [](X x) { return zeros_like(x[0]); }},
      {"full_like", [](X x) { return full_like(x[0], 2); }},
      {"randn_like", [](X x) { return randn_like(x[0]); }},
      {"contiguous_result", [](X x) { return x[0].contiguous(); }},
      {"sum_first", [](X x) { return sum(x[0], 0); }},
      {"sum_last_keepdim", [](X x) { return sum(x[0], -1, true); }},
      {"mean_first", [](X x) { return mean(x[0], 0); }},
      {"amax_last", [](X x) { return amax(x[0], -1); }},
      {"max_first", [](X x) { return max(x[0], 0).values; }},
      {"argmax_last", [](X x) { return argmax(x[0], -1); }},
      {"any_first", [](X x) { return any(x[0] > 0, 0); }},
      {"var_first", [](X x) { return var(x[0], 0); }},
      {"std_last_keepdim", [](X x) { return tandem::std(x[0], -1, 1, true); }},
      {"logsumexp_first", [](X x) { return logsumexp(x[0], 0); }},
      {"softmax_last", [](X x) { return softmax(x[0], -1); }},
      {"log_softmax_first", [](X x) { return log_softmax(x[0], 0); }},
      {"layer_norm", [](X x) { return layer_norm(x[0], {x[0].size(-1)}); }},
      {"tril", [](X x) { return tril(x[0]); }},
      {"triu", [](X x) { return triu(x[0], 1); }},
      {"flip", [](X x) { return flip(x[0], 0); }},
      {"pad", [](X x) { return pad(x[0], {1, 2}); }},
      {"reshape", [](X x) { return reshape(x[0], {-1}); }},
      {"index_select", [](X x) { return index_select(x[0], 0, places(2)); }},
      {"gather", [](X x) { return gather(x[0], 0, zeros(x[0].sizes(), i64)); }},
      {"scatter", [](X x) { return scatter(x[0], 0, zeros(x[0].sizes(), i64), x[0]); }},
      {"scatter_add", [](X x) { return scatter_add(x[0], 0, zeros(x[0].sizes(), i64), x[0]); }},
      {"index_add", [](X x) { return index_add(x[0], 0, places(x[0].size(0)), x[0]); }},
      {"index_copy", [](X x) { return index_copy(x[0], 0, arange(x[0].size(0)), x[0]); }},
      {"index_fill", [](X x) { return index_fill(x[0], 0, places(1), 2); }},
      {"index_put", [](X x) { return index_put(x[0], {places(2)}, 1); }},
      {"masked_scatter", [](X x) { return masked_scatter(x[0], mask(x[0]), x[0]); }},
      {"cat", [](X x) { return cat({x[0], x[0]}, 0); }},
      {"stack", [](X x) { return stack({x[0], x[0]}, 0); }},
      {"embedding", [](X x) { return embedding(x[0], places(2)); }},
      {"slice_scatter",
       [](X x) { return slice_scatter(x[0], zeros_like(x[0].slice(0, 0, 1)), 0, 0, 1); }},
      {"select_scatter",
       [](X x) { return select_scatter(x[0], zeros_like(x[0].select(0, 0)), 0, 0); }},
      {"diagonal_scatter", [](X x) { return diagonal_scatter(x[0], zeros_like(x[0].diagonal())); }},
      {"mse_loss", [](X x) { return mse_loss(x[0], x[0], "none"); }},
      {"linear", [](X x) { return linear(x[0], ones({6, x[0].size(-1)})); }},
      {"linear_bias", [](X x) { return linear(x[0], ones({6, x[0].size(-1)}), ones({6})); }},
      {"matmul_matrix", [](X x) { return matmul(x[0], ones({x[0].size(-1), 6})); }},
      {"matmul_vector", [](X x) { return matmul(x[0], ones({x[0].size(-1)})); }},
      {"matmul_from_left", [](X x) { return matmul(ones({6, x[0].size(-2)}), x[0]); }},
      {"matmul_batches", [](X x) { return matmul(x[0], x[0].mT()); }},
      {"attention", [](X x) { return scaled_dot_product_attention(x[0], x[0], x[0]); }},
      {"add", [](X x) { return x[0] + x[1]; }},
      {"where_first", [](X x) { return where(x[0] > 0, x[0], x[1]); }},
  };
  return all;
}

struct Layout {
  Shape sizes;
  Strides strides;
};

std::vector<Dim> numbers(const std::string& text, char separator) {
  std::vector<Dim> out;
  std::istringstream in(text);
  for (std::string number; text != "none" && std::getline(in, number, separator);)
    out.emplace_back(std::stoll(number));
  return out;
}

Layout layout_of(const std::string& text) {
  const size_t at = text.find('@');
  return {numbers(text.substr(0, at), 'x'), numbers(text.substr(at + 1), ',')};
}

Tensor operand_of(const std::string& text) {
  const Layout layout = layout_of(text);
  Dim span = 1;
  for (int d = 0; d < layout.sizes.rank(); ++d) span += (layout.sizes[d] - 1) * layout.strides[d];
  return arange(span, f32).as_strided(layout.sizes, layout.strides).detach();
}

struct Row {
  std::string op, operands, result;
};

std::vector<Row> rows() {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/torch/result_strides.tsv");
  std::vector<Row> all;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream in(line);
    Row& row = all.emplace_back();
    std::getline(in, row.op, '\t');
    std::getline(in, row.operands, '\t');
    std::getline(in, row.result, '\t');
  }
  return all;
}

Operands operands_of(const Row& row) {
  Operands operands;
  std::istringstream in(row.operands);
  for (std::string text; in >> text;) operands.push_back(operand_of(text));
  return operands;
}

/// "" if `t` lies as PyTorch's result does. (How far apart the elements of a dimension of one lie
/// says nothing.)
std::string difference(const Tensor& t, const Layout& expected) {
  bool same = t.sizes() == expected.sizes;
  for (int d = 0; same && d < expected.sizes.rank(); ++d)
    same = expected.sizes[d] == 1 || t.strides()[d] == expected.strides[d];
  return same ? "" : fmt::format("{} of {}", to_string(t.strides()), to_string(t.sizes()));
}

/// Runs every row whose number is `first` modulo `step`.
void walk(const std::function<Tensor(const Row&, const Function&)>& run, size_t first,
          size_t step) {
  const std::vector<Row> all = rows();
  ASSERT_GT(all.size(), 4000u);
  int wrong = 0;
  for (size_t i = first; i < all.size() && wrong < 40; i += step) {
    const Row& row = all[i];
    const std::string got = difference(run(row, functions().at(row.op)), layout_of(row.result));
    wrong += got.empty() ? 0 : 1;
    EXPECT_EQ(got, "") << row.op << " of " << row.operands << ": expected " << row.result;
  }
}

Tensor compiled(const Row& row, const Function& function, const CompileOptions& options) {
  return compile<Tensor(const Operands&)>(function, options)(operands_of(row));
}

TEST(ResultStrides, Eager) {
  walk([](const Row& row, const Function& f) { return f(operands_of(row)); }, 0, 1);
}

TEST(ResultStrides, Interpreted) {
  CompileOptions options;
  options.backend = runtime::interpreter_backend();
  walk([&](const Row& row, const Function& f) { return compiled(row, f, options); }, 0, 1);
}

TEST(ResultStrides, Compiled) {
  walk([](const Row& row, const Function& f) { return compiled(row, f, {}); }, 7, 23);
}

}  // namespace
}  // namespace tandem::testing
