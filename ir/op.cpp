// The op table of ops.def as constants: the compiler parses the rows' strings.
#include "ir/op.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/base/error.h"

namespace tandem::ir {
namespace {

struct Row {
  std::string_view name, operands, attributes;
  OpClass cls;
  OpLevel level;
  unsigned traits;
  Effect effect;
};

using enum row::Trait;
constexpr Row kRows[] = {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  {#name, operands, attributes, OpClass::class_, OpLevel::level, traits, Effect::effect},
#include "ir/ops.def"
};

struct AttrRow {
  std::string_view name;
  AttrType type;
};

constexpr AttrRow kAttrs[] = {
#define ATTR(name, type) {#name, AttrType::type},
#include "ir/ops.def"
};

constexpr Attr attribute(std::string_view name) {
  size_t i = 0;
  while (kAttrs[i].name != name) ++i;  // no constant, if ops.def names an unknown one
  return static_cast<Attr>(i);
}

/// Calls `use` with each of the words of `text`.
template <class Use>
constexpr void for_each_word(std::string_view text, Use use) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) use(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

constexpr std::string_view kArrow = "->";

constexpr void add_operand(OpInfo& op, std::string_view word) {
  const bool optional = word.ends_with('?');
  op.variadic = word.ends_with("...");
  word.remove_suffix(optional ? 1 : op.variadic ? 3 : 0);
  op.operands.push_back(word);
  op.min_operands += !optional;
}

constexpr void add_result(OpInfo& op, std::string_view word) {
  op.open_results = word.ends_with("...");
  word.remove_suffix(op.open_results ? 3 : 0);
  op.results.push_back(word);
}

/// "operands", or "operands -> results".
constexpr void add_values(OpInfo& op, std::string_view text) {
  const size_t arrow = text.find(kArrow);
  const bool is_named = arrow != std::string_view::npos;
  for_each_word(text.substr(0, arrow), [&](std::string_view word) { add_operand(op, word); });
  for_each_word(is_named ? text.substr(arrow + kArrow.size()) : "result",
                [&](std::string_view word) { add_result(op, word); });
}

constexpr OpInfo parse_row(const Row& row) {
  OpInfo op{row.name,
            row.cls,
            row.level,
            {},
            0,
            false,
            {},
            false,
            {},
            (row.traits & Commutative) != 0,
            (row.traits & InPlace) != 0,
            (row.traits & Overwrites) != 0,
            (row.traits & Moves) != 0,
            (row.traits & Inlined) != 0,
            row.effect,
            {}};
  add_values(op, row.operands);
  for_each_word(row.attributes,
                [&](std::string_view word) { op.attrs.push_back(attribute(word)); });
  op.positions.fill(-1);
  for (size_t i = 0; i < op.attrs.size(); ++i)
    op.positions[static_cast<size_t>(op.attrs[i])] = static_cast<int8_t>(i);
  return op;
}

constexpr std::array<OpInfo, kOpCount> parse_rows() {
  std::array<OpInfo, kOpCount> ops{};
  for (size_t i = 0; i < ops.size(); ++i) ops[i] = parse_row(kRows[i]);
  return ops;
}

}  // namespace

constinit const std::array<OpInfo, kOpCount> kOps = parse_rows();

std::string_view name(Op op) { return kRows[static_cast<size_t>(op)].name; }
std::string_view name(Attr attr) { return kAttrs[static_cast<size_t>(attr)].name; }
AttrType type_of(Attr attr) { return kAttrs[static_cast<size_t>(attr)].type; }

std::optional<Op> op_named(std::string_view name) {
  static const auto& index = *new auto([] {
    std::unordered_map<std::string_view, Op> all;
    for (int i = 0; i < kOpCount; ++i) all.emplace(kRows[i].name, static_cast<Op>(i));
    return all;
  }());
  const auto it = index.find(name);
  return it == index.end() ? std::nullopt : std::optional(it->second);
}

std::optional<Attr> attr_named(std::string_view name) {
  for (int i = 0; i < kAttrCount; ++i)
    if (kAttrs[i].name == name) return static_cast<Attr>(i);
  return std::nullopt;
}

std::string_view name(OpClass cls) {
  static constexpr std::string_view kNames[] = {"pointwise",   "reduction", "scan",    "linalg",
                                                "contraction", "view",      "shape",   "factory",
                                                "index",       "random",    "control", "external"};
  return kNames[static_cast<size_t>(cls)];
}

std::string_view name(Effect effect) {
  static constexpr std::string_view kNames[] = {"pure", "may fail", "random", "opaque", "ordered"};
  return kNames[static_cast<size_t>(effect)];
}

void fail_without_attr(Op op, Attr attr) {
  check_failed("has_attr(op, attr)", __FILE__, __LINE__,
               std::string(name(op)) + " has no attribute " + std::string(name(attr)));
}

Op copy_form(Op view) {
  static const auto& forms = *new auto([] {
    std::vector<std::optional<Op>> table(kOpCount);
    for (int i = 0; i < kOpCount; ++i)
      table[static_cast<size_t>(i)] = op_named(std::string(kRows[i].name) + "_copy");
    return table;
  }());
  const std::optional<Op> form = forms[static_cast<size_t>(view)];
  TANDEM_CHECK(is_view(view) && form, std::string(name(view)) + " has no copying form");
  return *form;
}

}  // namespace tandem::ir
