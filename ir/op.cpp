// The op table of ops.def as values, parsed once from the rows' strings.
#include "ir/op.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "ir/error.h"

namespace tandem::ir {
namespace {

enum Traits : unsigned { None = 0, Commutative = 1, InPlace = 2, MayFail = 4 };

struct Row {
  std::string_view name, operands, attributes;
  OpClass cls;
  OpLevel level;
  unsigned traits;
};

constexpr Row kRows[] = {
#define OP(name, class_, level, operands, attributes, shape, traits) \
  {#name, operands, attributes, OpClass::class_, OpLevel::level, traits},
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

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

OpInfo parse_row(const Row& row) {
  OpInfo op{row.name,
            row.cls,
            row.level,
            {},
            0,
            false,
            {},
            (row.traits & Commutative) != 0,
            (row.traits & InPlace) != 0,
            (row.traits & MayFail) != 0};
  for (std::string_view word : words(row.operands)) {
    const bool optional = word.ends_with('?');
    op.variadic = word.ends_with("...");
    word.remove_suffix(optional ? 1 : op.variadic ? 3 : 0);
    op.operands.push_back(word);
    op.min_operands += !optional;
  }
  for (std::string_view word : words(row.attributes)) {
    const auto attr = attr_named(word);
    TANDEM_CHECK(attr, "ops.def names an unknown attribute");
    op.attrs.push_back(*attr);
  }
  return op;
}

const std::vector<OpInfo>& table() {
  static const std::vector<OpInfo> ops = [] {
    std::vector<OpInfo> all;
    for (const Row& row : kRows) all.push_back(parse_row(row));
    return all;
  }();
  return ops;
}

}  // namespace

const OpInfo& info(Op op) { return table()[static_cast<size_t>(op)]; }
std::string_view name(Op op) { return kRows[static_cast<size_t>(op)].name; }
std::string_view name(Attr attr) { return kAttrs[static_cast<size_t>(attr)].name; }
AttrType type_of(Attr attr) { return kAttrs[static_cast<size_t>(attr)].type; }

std::optional<Op> op_named(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string_view, Op> all;
    for (int i = 0; i < kOpCount; ++i) all.emplace(kRows[i].name, static_cast<Op>(i));
    return all;
  }();
  const auto it = index.find(name);
  return it == index.end() ? std::nullopt : std::optional(it->second);
}

std::optional<Attr> attr_named(std::string_view name) {
  for (int i = 0; i < kAttrCount; ++i)
    if (kAttrs[i].name == name) return static_cast<Attr>(i);
  return std::nullopt;
}

std::string_view name(OpClass cls) {
  static constexpr std::string_view kNames[] = {"pointwise", "reduction", "contraction", "view",
                                                "shape",     "factory",   "index",       "random",
                                                "control",   "external"};
  return kNames[static_cast<size_t>(cls)];
}

bool has_attr(Op op, Attr attr) { return std::ranges::count(info(op).attrs, attr) > 0; }

int attr_index(Op op, Attr attr) {
  const auto& attrs = info(op).attrs;
  const auto it = std::ranges::find(attrs, attr);
  TANDEM_CHECK(it != attrs.end(),
               std::string(name(op)) + " has no attribute " + std::string(name(attr)));
  return static_cast<int>(it - attrs.begin());
}

Op copy_form(Op view) {
  static const std::vector<std::optional<Op>> forms = [] {
    std::vector<std::optional<Op>> table(kOpCount);
    for (int i = 0; i < kOpCount; ++i)
      table[static_cast<size_t>(i)] = op_named(std::string(kRows[i].name) + "_copy");
    return table;
  }();
  const std::optional<Op> form = forms[static_cast<size_t>(view)];
  TANDEM_CHECK(is_view(view) && form, std::string(name(view)) + " has no copying form");
  return *form;
}

}  // namespace tandem::ir
