// What convolutions, pools, norms, losses and the like give, their gradients and second gradients
// are PyTorch's (tests/torch/network_values.tsv): eager and compiled, contiguous, transposed and
// with gaps, in all floating dtypes.
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

using Operands = std::vector<Tensor>;  // x w b y z i j m, undefined where there is none
using Callee = std::function<Tensor(const Operands&)>;
constexpr std::string_view kNames = "xwbyzijm";
constexpr size_t kFloats = 5;

/// What a norm gives, and what it made of copies of the running statistics.
template <class Norm>
Tensor with_running(Norm norm, const Tensor& x, const Tensor& mean, const Tensor& var,
                    const Tensor& w, const Tensor& b, bool training, double momentum) {
  const Tensor own_mean = mean.detach().clone(), own_var = var.detach().clone();
  const Tensor result =
      norm(x, own_mean, own_var, w, b, training, momentum, 1e-5, SourceLocation::current());
  return cat({result.reshape({-1}), own_mean, own_var});
}

#define CASE(operands, ...)                                                               \
  {std::string(operands) + "\t" + #__VA_ARGS__, [](const Operands& o) -> Tensor {         \
     [[maybe_unused]] const Tensor &x = o[0], &w = o[1], &b = o[2], &y = o[3], &z = o[4], \
                                   &i = o[5], &j = o[6], &m = o[7];                       \
     return __VA_ARGS__;                                                                  \
   }},

const std::map<std::string, Callee>& callees() {  // NOLINT(readability-function-size): a table
  static const std::map<std::string, Callee> all = {
#include "tests/ops/network_values.inc"
  };
  return all;
}

struct Row {
  std::string operands, call, result;
  std::vector<std::string> gradients;  // of the floating operands; then the second ones
};

std::vector<Row> rows() {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/torch/network_values.tsv");
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    Row& row = rows.emplace_back();
    for (std::string* cell : {&row.operands, &row.call, &row.result}) std::getline(in, *cell, '\t');
    for (std::string cell; std::getline(in, cell, '\t');) row.gradients.push_back(cell);
  }
  return rows;
}

/// Operand `name`, as network_values.py makes it.
Tensor made(char name, const std::string& text) {
  const size_t below = text.find('<');
  std::istringstream in(text.substr(0, below));
  Shape sizes;
  for (std::string size; std::getline(in, size, ',');) sizes.push_back(std::stoll(size));
  const Tensor n = arange(ir::numel(sizes)).view(sizes);
  if (name == 'm') return n % 3 != 1;
  if (name == 'i' || name == 'j') return (n * 7 + 3) % std::stoll(text.substr(below + 1));
  const auto k = static_cast<int64_t>(kNames.find(name));
  return ((n * 37 + k * 11) % 101 - 50).to(f64) / 16;
}

Operands operands_of(const Row& row) {
  Operands operands(kNames.size());
  std::istringstream in(row.operands);
  for (std::string word; in >> word;)
    operands[kNames.find(word[0])] = made(word[0], word.substr(2));
  return operands;
}

Operands mapped(const Operands& operands, const std::function<Tensor(const Tensor&)>& f) {
  Operands out;
  for (size_t k = 0; k < operands.size(); ++k)
    out.push_back(k < kFloats && operands[k].defined() ? f(operands[k]) : operands[k]);
  return out;
}

/// The same numbers elsewhere in memory.
Tensor transposed(const Tensor& x) { return x.T().clone().contiguous().T(); }
Tensor gapped(const Tensor& x) { return stack({x, x}, -1).select(-1, 1); }

/// The elements in order times small numbers that depend on their places.
Tensor weighted(const Tensor& t, int64_t step, int64_t modulus, int64_t plus) {
  const Tensor n = arange(t.numel()) * step % modulus + plus;
  return (t.reshape({-1}) * n.to(t.dtype())).sum();
}
Tensor first_sum(const Tensor& t) { return weighted(t, 13, 17, 1); }
Tensor second_sum(const Tensor& t) { return weighted(t, 5, 23, -11); }

void compare(const Tensor& got, const std::string& expected, double tolerance,
             const std::string& what) {
  std::string sizes = ir::to_string(got.sizes());
  std::erase(sizes, ' ');
  std::istringstream in(expected);
  std::string want;
  std::getline(in, want, ':');
  ASSERT_EQ(sizes, want) << what;
  const Tensor t = got.detach().to(f64);
  const double scale = 1 + (t.numel() > 0 ? 17 * t.abs().sum().item() : 0);
  for (const Tensor& sum : {first_sum(t), second_sum(t)}) {
    ASSERT_TRUE(std::getline(in, want, ':')) << what;
    EXPECT_LE(std::abs(sum.item() - std::stod(want)), tolerance * scale) << what;
  }
}

Operands leaves_of(const Operands& operands) {
  Operands leaves;
  for (size_t k = 0; k < kFloats; ++k)
    if (operands[k].defined()) leaves.push_back(operands[k]);
  return leaves;
}

/// Zeros may be undefined here, or in PyTorch.
void compare_gradient(const Tensor& got, const std::string& want, double tolerance,
                      const std::string& what) {
  if (want == "?") return;
  if (!got.defined()) {
    EXPECT_TRUE(want == "-" || want.ends_with(":0:0")) << what;
  } else if (want == "-") {
    EXPECT_EQ(got.abs().sum().item(), 0) << what;
  } else {
    compare(got, want, tolerance, what);
  }
}

void compare_all(const Operands& got, const Row& row, size_t first, double tolerance,
                 const std::string& what) {
  for (size_t k = 0; k < got.size(); ++k)
    compare_gradient(got[k], row.gradients[first + k], tolerance,
                     what + ", gradient " + std::to_string(first + k));
}

void check_gradients(const Row& row, const Tensor& result, const Operands& leaves, bool twice,
                     const std::string& what) {
  ASSERT_EQ(result.requires_grad(), !row.gradients.empty()) << what;
  if (row.gradients.empty()) return;
  const Operands found =
      grad({first_sum(result)}, leaves, {.create_graph = twice, .allow_unused = true});
  compare_all(found, row, 0, 1e-12, what);
  Tensor sum;
  for (const Tensor& g : found)
    if (twice && g.defined() && g.requires_grad())
      sum = sum.defined() ? sum + second_sum(g) : second_sum(g);
  if (sum.defined())
    // (Some of PyTorch's formulas add an epsilon.)
    compare_all(grad({sum}, leaves, {.allow_unused = true}), row, leaves.size(), 1e-10, what);
}

Operands as_leaves(const Operands& operands) {
  return mapped(operands, [](const Tensor& t) { return t.detach().requires_grad_(); });
}

TEST(NetworkValues, ArePyTorchs) {
  size_t met = 0;
  for (const Row& row : rows()) {
    ++met;
    const std::string what = row.operands + ": " + row.call;
    const Callee& call = callees().at(row.operands + "\t" + row.call);
    const Operands given = as_leaves(operands_of(row));
    const Tensor result = call(given);
    compare(result, row.result, 1e-13, what);
    check_gradients(row, result, leaves_of(given), true, what);
    const NoGrad no_grad;
    compare(call(mapped(given, transposed)), row.result, 1e-13, what + ", transposed");
    compare(call(mapped(given, gapped)), row.result, 1e-13, what + ", with gaps");
  }
  EXPECT_EQ(met, callees().size());
}

/// How far a dtype may be from f64, beside the result's magnitude.
const std::map<DType, double> kTolerances = {{f32, 1e-5}, {bf16, 0.1}, {f16, 0.02}};

TEST(NetworkValues, OfOtherDtypesAreNear) {
  const NoGrad no_grad;
  for (const Row& row : rows())
    for (const auto& [dtype, tolerance] : kTolerances) {
      const std::string what = row.operands + ": " + row.call + ", " + std::string(ir::name(dtype));
      const Operands given =
          mapped(operands_of(row), [dtype = dtype](const Tensor& t) { return t.to(dtype); });
      const Tensor result = callees().at(row.operands + "\t" + row.call)(given);
      compare(result, row.result, tolerance, what);
    }
}

TEST(NetworkValues, CompiledArePyTorchs) {
  for (const Row& row : rows()) {
    const std::string what = row.operands + ": " + row.call + ", compiled";
    const auto compiled = compile(callees().at(row.operands + "\t" + row.call));
    const Operands given = as_leaves(operands_of(row));
    const Tensor result = compiled(given);
    compare(result, row.result, 1e-13, what);
    check_gradients(row, result, leaves_of(given), false, what);
  }
}

}  // namespace
}  // namespace tandem::testing
