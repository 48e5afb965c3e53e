#include "codegen/cost/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "codegen/loops/scalar_ops.h"
#include "ir/base/error.h"

namespace tandem::codegen {
namespace {

using ir::Op;

constexpr double kOther = 0.03;
constexpr double kRandomBits = 0.3;

std::array<double, ir::kOpCount> make_table() {
  std::array<double, ir::kOpCount> table;
  for (size_t i = 0; i < table.size(); ++i) table[i] = op_cost(static_cast<Op>(i));
  return table;
}

}  // namespace

double op_cost(Op op) {
  if (op == Op::random_bits) return kRandomBits;
  const bool is_scalar = ir::is_pointwise(op) && !ir::is_composite(op);
  return is_scalar ? scalar_op(op).nanoseconds : kOther;
}

namespace {

/// The entries that are not operators.
constexpr std::pair<std::string_view, double CostTable::*> kEntries[] = {
    {"@indirect_ns", &CostTable::indirect_ns},
    {"@near_byte_ns", &CostTable::near_byte_ns},
    {"@shared_byte_ns", &CostTable::shared_byte_ns},
    {"@byte_ns", &CostTable::byte_ns},
    {"@near_bytes", &CostTable::near_bytes},
    {"@shared_bytes", &CostTable::shared_bytes},
    {"@library_flops", &CostTable::library_flops},
    {"@generated_flops", &CostTable::generated_flops},
};

double* entry_named(CostTable& table, std::string_view name) {
  for (const auto& [known, member] : kEntries)
    if (known == name) return &(table.*member);
  const auto op = ir::op_named(name);
  return op ? &table.element_ns[static_cast<size_t>(*op)] : nullptr;
}

}  // namespace

std::string print(const CostTable& table) {
  std::string out;
  for (const auto& [name, member] : kEntries)
    out += fmt::format("{} {:.6g}\n", name, table.*member);
  for (size_t i = 0; i < ir::kOpCount; ++i)
    out += fmt::format("{} {:.6g}\n", ir::name(static_cast<Op>(i)), table.element_ns[i]);
  return out;
}

namespace {

/// Guesses, for what `tandem calibrate` does not measure.
CostTable rough_costs() {
  CostTable t;
  t.element_ns = make_table();
  t.indirect_ns = kIndirectCost;
  t.near_byte_ns = 0.012;
  t.shared_byte_ns = 0.025;
  t.byte_ns = 0.045;
  t.near_bytes = 2 << 20;
  t.shared_bytes = 32 << 20;
  t.library_flops = 190e9;
  t.generated_flops = 30e9;
  return t;
}

[[noreturn]] void refuse_line(int number, std::string_view line, const char* expected) {
  constexpr size_t kMost = 80;
  const std::string_view shown = line.substr(0, kMost);
  ir::fail(ir::Errc::File,
           fmt::format("costs: line {}: expected {}, got '{}'", number, expected, shown));
}

/// Finite and not negative; of a speed not zero.
std::optional<double> cost_of(std::string_view text, bool is_speed) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  const bool fits = std::isfinite(value) && !std::signbit(value) && (value > 0 || !is_speed);
  return whole && fits ? std::optional(value) : std::nullopt;
}

CostTable parsed_over(CostTable table, std::string_view text) {
  std::set<std::string_view> seen;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t blank = line.find(' ');
    const std::string_view name = line.substr(0, blank);
    double* entry = entry_named(table, name);
    if (blank == line.npos || !entry)
      refuse_line(number, line, "the name of an operator, a blank and a number");
    const auto cost = cost_of(line.substr(blank + 1), name.ends_with("_flops"));
    if (!cost) refuse_line(number, line, "a cost of 0 or more (a speed above 0)");
    if (!seen.insert(name).second) refuse_line(number, line, "each operator once");
    *entry = *cost;
  }
  return table;
}

// What `./dev calibrate` wrote on a quiet machine with two cores and AVX-512.
constexpr std::string_view kShipped =
#include "codegen/cost/shipped_costs.inc"
    ;

}  // namespace

const CostTable& shipped_costs() {
  static const CostTable table = parsed_over(rough_costs(), kShipped);
  return table;
}

CostTable parse_costs(std::string_view text) { return parsed_over(shipped_costs(), text); }

const CostTable& machine_costs() {
  static const CostTable table = [] {
    const char* path = std::getenv("TANDEM_COSTS");
    if (!path || !*path) return shipped_costs();
    std::ifstream file(path);
    if (!file) ir::fail(ir::Errc::File, fmt::format("costs: cannot open {}", path));
    std::ostringstream text;
    if (!(text << file.rdbuf()))  // also if there is nothing
      ir::fail(ir::Errc::File, fmt::format("costs: {} has nothing to read; expected what `tandem "
                                           "calibrate` writes",
                                           path));
    return parse_costs(text.str());
  }();
  return table;
}

double node_cost(const Node& node) {
  if (node.kind == Node::Kind::Fold) return op_cost(node.op) * static_cast<double>(node.parts - 1);
  return op_cost(node.op) + (traits_of(node.kind).reads_table ? kIndirectCost : 0);
}

}  // namespace tandem::codegen
