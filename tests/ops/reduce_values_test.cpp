// What reductions, scans, sorts and searches give, and their first and second gradients, is
// PyTorch's (tests/torch/reduce_values.tsv): eager and compiled, contiguous, transposed and with
// gaps.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <sstream>

#include "ir/dim.h"

namespace tandem::testing {
namespace {

using Callee = std::function<Tensor(const Tensor& x)>;

/// What stands beside x in the calls.
struct Others {
  Tensor w = tensor({1, 2, 1, 3}, f64), n = tensor({2, 1, 3, 1}), i = tensor({3, -1, 0}),
         j = tensor({{0, 2}, {1, 0}, {2, 2}});
};
const Others& others() {
  static const Others all;
  return all;
}

#define TANDEM_CALLEE(...)                                        \
  {#__VA_ARGS__, []([[maybe_unused]] const Tensor& x) -> Tensor { \
     [[maybe_unused]] const auto& [w, n, i, j] = others();        \
     return __VA_ARGS__;                                          \
   }},
#define NUMBER TANDEM_CALLEE
#define LINE TANDEM_CALLEE
#define MATRIX TANDEM_CALLEE
#define CUBE TANDEM_CALLEE
#define EMPTY TANDEM_CALLEE
#define ZEROS TANDEM_CALLEE
#define SPECIAL TANDEM_CALLEE
#define INTS TANDEM_CALLEE
#define BYTES TANDEM_CALLEE
#define FLAGS TANDEM_CALLEE
#define HALVES TANDEM_CALLEE
#define SINGLES TANDEM_CALLEE

const std::map<std::string, Callee>& callees() {  // NOLINT(readability-function-size): a table
  static const std::map<std::string, Callee> all = {
#include "tests/ops/reduce_values.inc"
  };
  return all;
}

struct Row {
  std::string call, kind, dtype, sizes, values, gradient, second;
};

std::vector<Row> rows() {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/torch/reduce_values.tsv");
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    Row& r = rows.emplace_back();
    for (std::string* cell :
         {&r.call, &r.kind, &r.dtype, &r.sizes, &r.values, &r.gradient, &r.second})
      std::getline(in, *cell, '\t');
  }
  return rows;
}

/// As reduce_values.py makes it.
Tensor distinct(const Shape& sizes) {
  std::vector<Number> values;
  for (int64_t k = 0; k < ir::numel(sizes); ++k)
    values.emplace_back(static_cast<double>((7 * k + 3) % 29) / 10 - 1.4);
  return from_numbers(values, sizes, f64);
}

Tensor made(const std::string& kind) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = INFINITY;
  static const std::map<std::string, DType> tied = {
      {"INTS", i64}, {"BYTES", u8}, {"FLAGS", boolean}, {"HALVES", bf16}, {"SINGLES", f32}};
  static const std::map<std::string, Shape> sizes = {
      {"NUMBER", {}}, {"LINE", {7}}, {"MATRIX", {3, 4}}, {"CUBE", {2, 3, 4}}, {"EMPTY", {0, 3}}};
  if (kind == "ZEROS") return tensor({{0.5, 0, -1.5, 2}, {0, 0, 0.75, 0}, {1.25, 0, 3, -0.5}}, f64);
  if (kind == "SPECIAL") return tensor({1, 2, kNan, -1, kInf, 2, -kInf, 0, -0.0, 2, -3, 0.5}, f64);
  if (const auto dtype = tied.find(kind); dtype != tied.end())
    return tensor({3, 0, 3, 1, 0, 2, 1, 2, 3, 1, 3, 0}).view({3, 4}).to(dtype->second);
  return distinct(sizes.at(kind));
}

/// The same numbers elsewhere in memory.
Tensor transposed(const Tensor& x) { return x.T().clone().contiguous().T(); }
Tensor gapped(const Tensor& x) { return stack({x, x}, -1).select(-1, 1); }

double number(const std::string& text) {
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf" || text == "-inf") return text == "inf" ? INFINITY : -INFINITY;
  return std::stod(text);
}

bool is_close(double have, double want, double tolerance) {
  if (std::isnan(want) || std::isinf(want)) return have == want || (have != have && want != want);
  return std::abs(have - want) <= tolerance * (1 + std::abs(want));
}

/// may_be_nan: where PyTorch has NaN, it has no value.
void compare(const Tensor& got, const std::string& expected, const std::string& what,
             bool may_be_nan = false) {
  const double tolerance = got.dtype() == bf16 ? 4e-3 : got.dtype() == f32 ? 1e-6 : 1e-10;
  std::istringstream in(expected == "-" ? "" : expected);
  for (const double have : got.to_vector<double>()) {
    std::string want;
    ASSERT_TRUE(in >> want) << what << ": too many elements";
    if (may_be_nan && want == "nan") continue;
    EXPECT_TRUE(is_close(have, number(want), tolerance)) << what << ": " << have << ", " << want;
  }
  std::string rest;
  EXPECT_FALSE(in >> rest) << what << ": too few elements";
}

void check_gradients(const Row& row, const Tensor& result, const Tensor& x,
                     const std::string& what) {
  if (!result.requires_grad()) return;
  const Tensor weights = arange(1, result.numel() + 1).to(f64).view(result.sizes());
  const Tensor first = grad({(result * weights).sum()}, {x}, {.create_graph = true})[0];
  compare(first, row.gradient, what + ", gradient");
  if (row.second == "none" || !first.requires_grad()) return;
  compare(grad({(first * first).sum()}, {x})[0], row.second, what + ", second gradient", true);
}

void check(const Row& row, const Callee& call, const Tensor& given, const std::string& how) {
  const std::string what = row.kind + "(" + row.call + ") " + how;
  SCOPED_TRACE(what);
  const bool differentiates = given.dtype() == f64;
  const Tensor x = differentiates ? given.detach().requires_grad_() : given;
  const Tensor result = call(x);
  std::string sizes = ir::to_string(result.sizes());
  std::erase(sizes, ' ');
  EXPECT_EQ(sizes, row.sizes) << what;
  EXPECT_EQ(result.dtype() == boolean ? "boolean" : std::string(ir::name(result.dtype())),
            row.dtype)
      << what;
  compare(result, row.values, what);
  if (!differentiates) return;
  EXPECT_EQ(result.requires_grad(), row.gradient != "none") << what;
  check_gradients(row, result, x, what);
}

TEST(ReduceValues, ArePyTorchs) {
  size_t met = 0;
  for (const Row& row : rows()) {
    ++met;
    const Callee& call = callees().at(row.call);
    const Tensor x = made(row.kind);
    check(row, call, x, "contiguous");
    check(row, call, transposed(x), "transposed");
    check(row, call, gapped(x), "with gaps");
  }
  EXPECT_GE(met, callees().size());
}

/// Whether its size depends on data, or it writes what it reads.
bool is_eager_only(const std::string& call) {
  for (const char* name : {"bincount", "nonzero", "argwhere", "masked_select", "unique", "one_hot"})
    if (call.starts_with(name) && !call.starts_with("count")) return true;
  return call.find("max_norm") != std::string::npos;
}

TEST(ReduceValues, CompiledArePyTorchs) {
  others();  // made outside the traces
  for (const Row& row : rows()) {
    if (is_eager_only(row.call) || (row.kind != "MATRIX" && row.kind != "INTS")) continue;
    const auto compiled = compile(callees().at(row.call));
    check(row, [&](const Tensor& t) { return compiled(t); }, gapped(made(row.kind)), "compiled");
  }
}

}  // namespace
}  // namespace tandem::testing
