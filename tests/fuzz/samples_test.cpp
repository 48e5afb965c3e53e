// Random programs draw every row of ops.def and every public function that can stand in a program:
// what they cannot draw is listed here, with the reason.
#include "tests/support/random/samples.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "ir/op.h"
#include "tests/support/random/random_graph.h"

namespace tandem::testing {
namespace {

using ir::Op;

constexpr uint64_t kTries = 200;

template <class Make>
bool is_drawable(Make make) {
  for (uint64_t seed = 0; seed < kTries; ++seed)
    if (const auto sample = make(seed * 7919); sample && bounds_of(*sample, ir::DType::F32))
      return true;
  return false;
}

/// Draws of floats are steps of their own; subgraphs and tokens are made by the library around
/// functions of the user's; custom operators are the user's.
bool has_no_sample(Op op) {
  const ir::OpClass cls = ir::info(op).cls;
  return op == Op::rand || op == Op::randn || op == Op::dropout || cls == ir::OpClass::Control ||
         cls == ir::OpClass::External;
}

TEST(Samples, EveryRowIsDrawn) {
  const std::vector<Op> rows = sampled_rows();
  for (int i = 0; i < ir::kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    const bool is_sampled = std::ranges::find(rows, op) != rows.end();
    EXPECT_EQ(is_sampled, !has_no_sample(op)) << ir::name(op);
    if (!is_sampled) continue;
    EXPECT_TRUE(is_drawable([op](uint64_t s) { return row_sample(op, s, ir::DType::F32); }))
        << ir::name(op);
  }
}

/// The functions that `text` calls.
std::set<std::string> called(const std::string& text) {
  static const std::regex name("(\\w+)\\(");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it)
    names.insert((*it)[1]);
  return names;
}

std::set<std::string> drawn_functions() {
  std::set<std::string> names;
  for (size_t call = 0; call < call_count(); ++call) {
    if (!is_drawable([call](uint64_t s) { return call_sample(call, s, ir::DType::F32); })) continue;
    names.merge(called(call_text(call)));
  }
  for (const Op op : sampled_rows()) names.emplace(ir::name(op));
  return names;
}

/// The names in the first column, without what they are in.
std::set<std::string> documented_functions() {
  static const std::regex row("^\\| `(?:x\\.)?(?:\\w+::)*(\\w+)\\(");
  std::ifstream file(TANDEM_SOURCE_DIR "/docs/operators.md");
  std::set<std::string> names;
  std::smatch found;
  for (std::string line; std::getline(file, line);)
    if (std::regex_search(line, found, row)) names.insert(found[1]);
  return names;
}

/// What cannot stand in these programs, by the reason.
const std::map<std::string, std::set<std::string>>& undrawn() {
  static const std::map<std::string, std::set<std::string>> all = {
      {"looks at the elements: not inside a trace",
       {"allclose", "argwhere", "bincount", "equal", "masked_select", "nonzero", "unique",
        "unique_consecutive"}},
      {"draws in the dtype of its operand, which are other numbers in another",
       {"pca_lowrank", "svd_lowrank"}},
      {"contents that nobody wrote, or that are the caller's memory",
       {"empty", "from_blob", "from_numbers", "new_empty"}},
      {"changes the tensor itself, not its elements", {"resize_", "resize_as_", "set_"}},
      {"of sizes, not of tensors", {"broadcast_shapes"}},
      {"always an Error", {"imag"}},
  };
  return all;
}

TEST(Samples, EveryPublicFunctionIsDrawn) {
  const std::set<std::string> drawn = drawn_functions(), documented = documented_functions();
  EXPECT_GT(documented.size(), 500u);
  std::set<std::string> excepted;
  for (const auto& [reason, names] : undrawn())
    for (const std::string& name : names) {
      EXPECT_TRUE(documented.contains(name) && !drawn.contains(name)) << name << ": " << reason;
      excepted.insert(name);
    }
  for (const std::string& name : documented)
    EXPECT_TRUE(drawn.contains(name) || excepted.contains(name))
        << name << ": no call of tests/ops/*.inc or tests/support/random/more_calls.inc has it";
}

TEST(Samples, ProgramsDrawAllOfThem) {
  std::set<std::string> drawn;
  size_t count = 0;
  for (uint64_t seed = 0; seed < 500; ++seed)
    for (const std::string& name : random_program(seed, {.samples = true}).samples) {
      drawn.insert(name);
      ++count;
    }
  fmt::print("{} samples in 500 programs, {} different ones\n", count, drawn.size());
  EXPECT_GE(count, 500u);
  EXPECT_GE(2 * drawn.size(), count);
}

}  // namespace
}  // namespace tandem::testing
