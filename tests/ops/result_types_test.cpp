// Dtypes, sizes and aliases of results are ATen's: every call of result_types.inc and of op_lists.h
// on every dtype, on several layouts, beside other tensors and numbers of every dtype, as
// tests/torch/result_types.tsv has them; and compiled as eager.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>

#include "ir/dtype.h"
#include "ir/text/spelling.h"
#include "runtime/backends/backends.h"

namespace tandem::testing {
namespace {

// --- the calls

struct Operands {
  Tensor x, y;
  Number n;
  Tensor mask, at, i;
};
using Callee = std::function<Tensor(const Operands&)>;

#define TANDEM_CALLEE(...)                                                            \
  {#__VA_ARGS__, [](const Operands& operands) -> Tensor {                             \
     [[maybe_unused]] const Tensor &x = operands.x, &y = operands.y, &i = operands.i, \
                                   &mask = operands.mask, &at = operands.at;          \
     [[maybe_unused]] const Number& n = operands.n;                                   \
     return __VA_ARGS__;                                                              \
   }},

const std::map<std::string, Callee>& callees() {  // NOLINT(readability-function-size): a table
  static const std::map<std::string, Callee> by_text = {
#define X(op) TANDEM_CALLEE(op(x))
      TANDEM_UNARY_IN_PLACE_OPS(X) TANDEM_UNARY_OPS(X) TANDEM_MADE_UNARY_IN_PLACE(X)
          TANDEM_MADE_UNARY(X)
#undef X
#define X(op) TANDEM_CALLEE(x.op##_())
              TANDEM_UNARY_IN_PLACE_OPS(X) TANDEM_MADE_UNARY_IN_PLACE(X)
#undef X
#define X(op) TANDEM_CALLEE(op(x, y)) TANDEM_CALLEE(op(x, n)) TANDEM_CALLEE(op(n, x))
                  TANDEM_BINARY_IN_PLACE_OPS(X) TANDEM_BINARY_OPS(X) TANDEM_MADE_BINARY_IN_PLACE(X)
                      TANDEM_MADE_BINARY(X)
#undef X
#define X(op) TANDEM_CALLEE(x.op##_(y)) TANDEM_CALLEE(x.op##_(n))
                          TANDEM_BINARY_IN_PLACE_OPS(X) TANDEM_COMPARISON_OPS(X)
                              TANDEM_MADE_BINARY_IN_PLACE(X)
#undef X
#define X(name, op) TANDEM_CALLEE(name(x)) TANDEM_CALLEE(x.name##_())
                                  TANDEM_UNARY_ALIASES(X)
#undef X
#define X(name, op)         \
  TANDEM_CALLEE(name(x, y)) \
  TANDEM_CALLEE(name(x, n)) TANDEM_CALLEE(x.name##_(y)) TANDEM_CALLEE(x.name##_(n))
                                      TANDEM_BINARY_ALIASES(X)
#undef X
#define UNARY TANDEM_CALLEE
#define BINARY TANDEM_CALLEE
#define NUMBER TANDEM_CALLEE
#include "tests/ops/result_types.inc"
  };
  return by_text;
}

// --- the table

/// Calls of the same results: by x's dtype "f32", "f32=" (x itself), "f32~" (in x's memory), "-"
/// (an Error) or "?" (ATen does not say).
struct Row {
  std::string form, sizes;
  std::vector<std::string> results, calls;
};

std::vector<std::string> split_at(const std::string& text, std::string_view separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t end; (end = text.find(separator, start)) != std::string::npos;
       start = end + separator.size())
    parts.push_back(text.substr(start, end - start));
  parts.push_back(text.substr(start));
  return parts;
}

std::vector<Row> rows() {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/torch/result_types.tsv");
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    const auto cells = split_at(line, "\t");
    rows.push_back(
        {cells.at(0), cells.at(1), split_at(cells.at(2), " "), split_at(cells.at(3), "; ")});
  }
  return rows;
}

Tensor laid_out(const std::string& layout, DType dtype) {
  if (layout == "matrix") return ones({2, 3}, dtype);
  if (layout == "transposed") return transpose(ones({3, 2}, dtype), 0, 1);
  if (layout == "gapped") return slice(ones({2, 6}, dtype), 1, {}, {}, 2);
  if (layout == "line") return ones({3}, dtype);
  if (layout == "row") return ones({1, 3}, dtype);
  if (layout == "empty") return ones({0, 3}, dtype);
  EXPECT_EQ(layout, "scalar");
  return ones({}, dtype);
}

/// Of the form "matrix", "matrix, scalar f32" (x and y) or "matrix 0.5" (x and n).
Operands operands_of(const std::string& form, DType dtype) {
  const auto words = split_at(form, " ");
  Operands o;
  o.x = laid_out(split_at(words[0], ",")[0], dtype);
  if (words.size() == 3) o.y = laid_out(words[1], *ir::dtype_named(words[2]));
  if (words.size() == 2)
    o.n = words[1] == "true" ? Number(true) : words[1] == "2" ? Number(2) : Number(0.5);
  o.mask = ones(o.x.sizes(), boolean);
  o.at = zeros(o.x.sizes(), i64);
  o.i = zeros({1}, i64);
  return o;
}

// --- what a call gives

std::string described(const Tensor& result, const Tensor& x) {
  const char* alias = result.is_same(x) ? "=" : result.shares_storage(x) ? "~" : "";
  return fmt::format("{}{}", ir::name(result.dtype()), alias);
}

/// The result, or "-"; its sizes.
std::pair<std::string, std::string> outcome(const Callee& call, const Operands& operands) {
  try {
    const Tensor result = call(operands);
    std::string sizes = ir::to_string(result.sizes());
    std::erase(sizes, ' ');
    return {described(result, operands.x), sizes};
  } catch (const Error&) {
    return {"-", ""};
  } catch (const std::out_of_range&) {  // no such part
    return {"-", ""};
  }
}

/// The call as a compiled function of x and y, in the interpreter.
Callee compiled(const Callee& call) {
  return [call](const Operands& operands) {
    CompileOptions options;
    options.backend = runtime::interpreter_backend();
    const auto run = compile(
        [&](const Tensor& x, const Tensor& y) {
          Operands traced = operands;
          traced.x = x;
          traced.y = y;
          return call(traced);
        },
        options);
    return run(operands.x, operands.y.defined() ? operands.y : zeros({}));
  };
}

/// Fails if the call differs from the row on one of the dtypes.
void check(const Row& row, const Callee& call, const std::string& text,
           std::span<const int> dtypes) {
  std::string differences;
  for (int dtype : dtypes) {
    const std::string& expected = row.results.at(static_cast<size_t>(dtype));
    if (expected == "?") continue;
    const auto [result, sizes] = outcome(call, operands_of(row.form, static_cast<DType>(dtype)));
    if (result == expected && (result == "-" || sizes == row.sizes)) continue;
    differences += fmt::format("{}: {}{}, expected {}{}; ", ir::name(static_cast<DType>(dtype)),
                               result, sizes, expected, row.sizes);
  }
  if (!differences.empty()) ADD_FAILURE() << text << " on " << row.form << " of " << differences;
}

TEST(ResultTypes, EagerAsAten) {
  std::vector<int> dtypes(ir::kDTypeCount);
  std::iota(dtypes.begin(), dtypes.end(), 0);
  const std::vector<Row> table = rows();
  ASSERT_GT(table.size(), 500u);
  for (const Row& row : table)
    for (const std::string& call : row.calls) check(row, callees().at(call), call, dtypes);
}

TEST(ResultTypes, CompiledAsAten) {
  const auto is_sample = [](const std::string& form) {
    return form.ends_with(" f16") || form.ends_with(" i32") ||
           form.find(' ') == std::string::npos || form.ends_with(" 0.5");
  };
  constexpr int kDTypes[] = {static_cast<int>(DType::F32), static_cast<int>(DType::U8)};
  for (const Row& row : rows())
    for (const std::string& call : row.calls)
      if (is_sample(row.form))
        check(row, compiled(callees().at(call)), "compiled " + call, kDTypes);
}

TEST(ResultTypes, EveryCallStandsInTheTable) {
  std::map<std::string, int> seen;
  for (const Row& row : rows())
    for (const std::string& call : row.calls) ++seen[call];
  for (const auto& [call, callee] : callees()) EXPECT_GT(seen[call], 0) << call;
  EXPECT_EQ(seen.size(), callees().size());
}

}  // namespace
}  // namespace tandem::testing
