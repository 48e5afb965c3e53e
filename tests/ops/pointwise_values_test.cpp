// Values and gradients of pointwise functions on special and ordinary numbers are PyTorch's
// (tests/torch/pointwise_values.tsv), eager and compiled, contiguous and not.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

namespace tandem::testing {
namespace {

using Callee = std::function<Tensor(const Tensor& x, const Tensor& y)>;

#define TANDEM_CALLEE(...) \
  {#__VA_ARGS__,           \
   [](const Tensor& x, [[maybe_unused]] const Tensor& y) -> Tensor { return __VA_ARGS__; }},
#define UNARY TANDEM_CALLEE
#define BINARY TANDEM_CALLEE
#define INTEGERS TANDEM_CALLEE

const std::vector<std::pair<std::string, Callee>>& callees() {
  static const std::vector<std::pair<std::string, Callee>> all = {
#include "tests/ops/pointwise_values.inc"
  };
  return all;
}

/// The columns of one call: x, (y,) the result, a gradient for each operand.
struct Table {
  bool floating = false;
  size_t operands = 0;
  std::vector<std::vector<std::string>> columns;
};

bool is_integer(const std::string& cell) {
  return cell.find_first_not_of("-0123456789") == std::string::npos;
}

double number(const std::string& cell) {
  if (cell == "True" || cell == "False") return cell == "True" ? 1 : 0;
  return std::strtod(cell.c_str(), nullptr);  // (stod refuses subnormal numbers)
}

/// The tables of a call, in the order of the file: one for floats, or one for integers.
std::map<std::string, std::vector<Table>> read_tables() {
  std::map<std::string, std::vector<Table>> tables;
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/torch/pointwise_values.tsv");
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, '\t');) cells.push_back(cell);
    const bool floating = !is_integer(cells.at(1));
    std::vector<Table>& of_call = tables[cells[0]];
    if (of_call.empty() || of_call.back().floating != floating)
      of_call.push_back({floating, (cells.size() - 2) / 2, {}});
    std::vector<std::vector<std::string>>& columns = of_call.back().columns;
    columns.resize(cells.size() - 1);
    for (size_t i = 1; i < cells.size(); ++i) columns[i - 1].push_back(cells[i]);
  }
  return tables;
}

Tensor operand(const Table& table, size_t i, bool gapped) {
  std::vector<Number> values;
  for (const std::string& cell : table.columns[i])
    values.push_back(table.floating ? Number(std::stod(cell)) : Number(int64_t{std::stoll(cell)}));
  const auto n = static_cast<int64_t>(values.size());
  const Tensor line = from_numbers(values, {n}, table.floating ? f64 : i64);
  if (!gapped) return line;
  const Tensor wide = full({n, 2}, 7, line.dtype());
  wide.select(1, 1).copy_(line);
  return wide.select(1, 1);
}

/// Whether PyTorch's zeros have signs that do not depend on its vector units. (Between a bound of 0
/// and -0 clamp gives either.)
bool has_signs(const std::string& call) { return !call.starts_with("clamp(x, "); }

void compare(const Tensor& got, const std::vector<std::string>& column, const Table& table,
             const std::string& what) {
  const std::vector<double> values = got.to_vector<double>();
  ASSERT_EQ(values.size(), column.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    if (column[i] == "?") continue;
    const double want = number(column[i]), have = values[i];
    const bool same = std::isnan(want)   ? std::isnan(have)
                      : std::isinf(want) ? have == want
                                         : std::abs(have - want) <= 1e-10 * (1 + std::abs(want));
    const bool has_sign = want != 0 || have != 0 || std::signbit(have) == std::signbit(want);
    EXPECT_TRUE(same && (has_sign || !has_signs(what)))
        << what << " of " << table.columns[0][i] << ", "
        << (table.operands > 1 ? table.columns[1][i] : "") << ": " << have << ", expected " << want;
  }
}

void check(const std::string& name, const Callee& call, const Table& table, bool gapped) {
  Tensor x = operand(table, 0, gapped);
  Tensor y = table.operands > 1 ? operand(table, 1, gapped) : x;
  if (table.floating) {
    x = x.detach().requires_grad_();
    y = table.operands > 1 ? y.detach().requires_grad_() : x;
  }
  const Tensor result = call(x, y);
  compare(result, table.columns[table.operands], table, name);
  const Tensor inputs[] = {x, y};
  if (table.columns[table.operands + 1][0] == "none") return;
  ASSERT_TRUE(result.requires_grad()) << name;
  const auto grads =
      grad({result.sum()}, {inputs, inputs + table.operands}, {.allow_unused = true});
  for (size_t i = 0; i < table.operands; ++i) {
    const auto& column = table.columns[table.operands + 1 + i];
    ASSERT_EQ(grads[i].defined(), column[0] != "none") << name << ", operand " << i;
    if (grads[i].defined())
      compare(grads[i], column, table, name + fmt::format(", gradient {}", i));
  }
}

TEST(PointwiseValues, ArePyTorchs) {
  const auto tables = read_tables();
  size_t met = 0;
  for (const auto& [name, call] : callees())
    for (const Table& table : tables.at(name)) {
      ++met;
      check(name, call, table, false);
      check(name + " with gaps", call, table, true);
      const auto compiled = compile(call);
      check(
          name + " compiled", [&](const Tensor& x, const Tensor& y) { return compiled(x, y); },
          table, false);
    }
  EXPECT_GE(met, callees().size());
}

}  // namespace
}  // namespace tandem::testing
