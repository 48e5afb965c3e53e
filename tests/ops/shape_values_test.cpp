// What views, joins, repetitions, paddings and indices give, and their gradients, is PyTorch's
// (tests/torch/shape_values.tsv): eager and compiled, contiguous, transposed and with gaps,
// integers too.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "ir/dim.h"

namespace tandem::testing {
namespace {

using Callee = std::function<Tensor(const Tensor& x)>;

Tensor written(const Tensor& x, const Indices& places, const Located& values) {
  const Tensor copy = x.clone();
  copy.index_put_(places, values);
  return copy;
}

Tensor row_numbers() { return tensor({2, 0, -1}); }

#define TANDEM_CALLEE(...)                                                                 \
  {#__VA_ARGS__, [](const Tensor& x) -> Tensor {                                           \
     [[maybe_unused]] const Tensor mask = (x % 3 == 0), i = row_numbers(),                 \
                                   j = tensor({0, 1}).view({2, 1}), n = tensor({1, 0, 2}); \
     return __VA_ARGS__;                                                                   \
   }},
#define NUMBER TANDEM_CALLEE
#define LINE TANDEM_CALLEE
#define MATRIX TANDEM_CALLEE
#define CUBE TANDEM_CALLEE
#define IMAGE TANDEM_CALLEE
#define EMPTY TANDEM_CALLEE
#define MASKED TANDEM_CALLEE

const std::map<std::string, Callee>& callees() {  // NOLINT(readability-function-size): a table
  static const std::map<std::string, Callee> all = {
#include "tests/ops/shape_values.inc"
  };
  return all;
}

struct Row {
  std::string call, kind, sizes, values, gradient;
};

std::vector<Row> rows() {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/torch/shape_values.tsv");
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    Row& row = rows.emplace_back();
    for (std::string* cell : {&row.call, &row.kind, &row.sizes, &row.values, &row.gradient})
      std::getline(in, *cell, '\t');
  }
  return rows;
}

Tensor made(const std::string& kind, DType dtype) {
  static const std::map<std::string, Shape> sizes = {
      {"NUMBER", {}},          {"LINE", {5}},     {"MATRIX", {3, 4}}, {"CUBE", {2, 3, 4}},
      {"IMAGE", {1, 2, 3, 4}}, {"EMPTY", {0, 3}}, {"MASKED", {3, 4}},
  };
  const Shape& of_kind = sizes.at(kind);
  return arange(1, ir::numel(of_kind) + 1).to(dtype).view(of_kind);
}

/// The same numbers elsewhere in memory.
Tensor transposed(const Tensor& x) { return x.T().clone().contiguous().T(); }
Tensor gapped(const Tensor& x) { return stack({x, x}, -1).select(-1, 1); }

void compare(const Tensor& got, const std::string& expected, const std::string& what) {
  std::istringstream in(expected == "-" ? "" : expected);
  for (const double have : got.to_vector<double>()) {
    double want = 0;
    ASSERT_TRUE(in >> want) << what << ": too many elements";
    EXPECT_LE(std::abs(have - want), 1e-12 * (1 + std::abs(want))) << what;
  }
  std::string rest;
  EXPECT_FALSE(in >> rest) << what << ": too few elements";
}

void check(const Row& row, const Callee& call, const Tensor& x, const std::string& how) {
  const std::string what = row.kind + "(" + row.call + ") " + how;
  const Tensor result = call(x);
  std::string sizes = ir::to_string(result.sizes());
  std::erase(sizes, ' ');
  EXPECT_EQ(sizes, row.sizes) << what;
  compare(result, row.values, what);
  if (!x.requires_grad()) return;
  EXPECT_EQ(result.requires_grad(), row.gradient != "none") << what;
  if (!result.requires_grad()) return;
  const Tensor weights = arange(1, result.numel() + 1).to(f64).view(result.sizes());
  compare(grad({(result * weights).sum()}, {x})[0], row.gradient, what + ", gradient");
}

TEST(ShapeValues, ArePyTorchs) {
  size_t met = 0;
  for (const Row& row : rows()) {
    ++met;
    const Callee& call = callees().at(row.call);
    const Tensor x = made(row.kind, f64);
    const auto leaf = [](const Tensor& t) { return t.detach().requires_grad_(); };
    check(row, call, leaf(x), "contiguous");
    check(row, call, leaf(transposed(x)), "transposed");
    check(row, call, leaf(gapped(x)), "with gaps");
    for (DType dtype : {i64, i16, f32}) check(row, call, x.to(dtype), "of another dtype");
  }
  EXPECT_GE(met, callees().size());
}

TEST(ShapeValues, CompiledArePyTorchs) {
  for (const Row& row : rows()) {
    if (row.kind == "MASKED") continue;  // of a size that depends on data
    const Tensor x = made(row.kind, f64);
    const auto compiled = compile(callees().at(row.call));
    const Callee call = [&](const Tensor& t) { return compiled(t); };
    check(row, call, x.detach().requires_grad_(), "compiled");
    check(row, call, gapped(x), "compiled with gaps");
  }
}

}  // namespace
}  // namespace tandem::testing
