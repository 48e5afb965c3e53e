// The registry of custom operators: a documented singleton, since a graph names them in text.
#include "ir/interfaces/custom_operator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <mutex>

#include "ir/base/error.h"
#include "ir/shape/shape_rule_functions.h"

namespace tandem::ir {
namespace {

struct Refusal final : CustomOperator {
  std::vector<Type> result_types(std::span<const Type> operands, std::string_view) const override {
    if (operands.empty()) fail(Errc::Graph, "refuse: expected at least one operand, got none");
    return {operands.back()};
  }
  void run(std::span<const BufferView>, std::string_view arguments,
           std::span<const BufferView>) const override {
    const size_t end = std::min(arguments.find(' '), arguments.size());
    int code = static_cast<int>(Errc::Graph);
    std::from_chars(arguments.data(), arguments.data() + end, code);
    fail(static_cast<Errc>(code),
         std::string(arguments.substr(std::min(end + 1, arguments.size()))));
  }
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const CustomOperator>, std::less<>> operators{
      {std::string(kRefuse), std::make_shared<Refusal>()}};
};

Registry& registry() {
  static auto* const all = new Registry;  // graphs may run in threads that outlive main
  return *all;
}

}  // namespace

std::string refusal_text(Errc code, std::string_view message) {
  return fmt::format("{} {}", static_cast<int>(code), message);
}

void register_custom_operator(const std::string& name,
                              std::shared_ptr<const CustomOperator> custom) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (!all.operators.emplace(name, std::move(custom)).second)
    fail(Errc::Argument, fmt::format("{}: a custom operator of this name is registered already; "
                                     "expected another name",
                                     name));
}

std::shared_ptr<const CustomOperator> find_custom_operator(std::string_view name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.operators.find(name);
  if (found == all.operators.end())
    fail(Errc::Graph, fmt::format("{}: unknown custom operator; expected one that this process has "
                                  "registered",
                                  name));
  return found->second;
}

namespace shape_rule {

Type external(const ShapeContext& c) {
  reject(c, Errc::Graph, "it may have several results", "a call through its registration", "none");
}
std::array<Type, 2> ordered(const ShapeContext& c) { return {Type::token(), external(c)}; }

}  // namespace shape_rule

}  // namespace tandem::ir
