// The published JSON Schema of the graph form. Strict: every field is required, none may be added,
// and each op has its own attributes.
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/json/json.h"
#include "ir/op.h"

namespace tandem::ir {
namespace {

using Json = nlohmann::ordered_json;
using Members = std::vector<std::pair<std::string, Json>>;

Json object(const Members& members) {
  Json properties = Json::object(), required = Json::array();
  for (const auto& [key, schema] : members) {
    properties[key] = schema;
    required.push_back(key);
  }
  return {{"type", "object"},
          {"required", required},
          {"properties", properties},
          {"additionalProperties", false}};
}

Json array_of(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }
Json reference(const std::string& name) { return {{"$ref", "#/$defs/" + name}}; }
Json boolean() { return {{"type", "boolean"}}; }
Json integer(int64_t least = std::numeric_limits<int64_t>::min(),
             int64_t most = std::numeric_limits<int64_t>::max()) {
  return {{"type", "integer"}, {"minimum", least}, {"maximum", most}};
}
/// An index into another list; -1 stands for none where `least` says so.
Json index(int least = 0) { return integer(least, std::numeric_limits<int32_t>::max()); }
Json text(size_t most) { return {{"type", "string"}, {"maxLength", most}}; }
Json name() { return text(JsonLimits().max_name_bytes); }

/// The names of the first `count` values of an enum.
template <class E>
Json names(int count) {
  Json all = Json::array();
  for (int i = 0; i < count; ++i) all.push_back(ir::name(static_cast<E>(i)));
  return {{"enum", all}};
}

Json dtype(bool or_token) {
  Json schema = names<DType>(kDTypeCount);
  if (or_token) schema["enum"].push_back("token");
  return schema;
}

Json floating() { return {{"anyOf", {{{"type", "number"}}, {{"enum", {"nan", "inf", "-inf"}}}}}}; }

Json number() {
  return {{"anyOf",
           {object({{"bool", boolean()}}), object({{"int", integer()}}),
            object({{"float", reference("float")}})}}};
}

Json attribute(AttrType type) {
  switch (type) {
    case AttrType::Bool:
      return boolean();
    case AttrType::Int:
    case AttrType::Dim:
      return reference("int64");
    case AttrType::Dims:
    case AttrType::Axes:
      return array_of(reference("int64"));
    case AttrType::Float:
      return reference("float");
    case AttrType::Number:
      return reference("number");
    case AttrType::Type:
      return dtype(false);
    case AttrType::Text:
      return name();
    case AttrType::Graph:
      break;
  }
  return index();
}

/// An op with its attributes: one alternative for each list of attributes among the ops that are
/// `wanted`.
template <class F>
Json op_with_attributes(F wanted) {
  std::map<std::vector<Attr>, Json> ops;
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& row = info(static_cast<Op>(i));
    if (wanted(static_cast<Op>(i))) ops[{row.attrs.begin(), row.attrs.end()}].push_back(row.name);
  }
  Json alternatives = Json::array();
  for (const auto& [attrs, op_names] : ops) {
    Members members;
    for (Attr a : attrs) members.emplace_back(ir::name(a), attribute(type_of(a)));
    alternatives.push_back(
        {{"properties", {{"op", {{"enum", op_names}}}, {"attrs", object(members)}}}});
  }
  return alternatives;
}

Json equation() {
  Json flags = array_of(
      {{"type", "string"},
       {"pattern", "^(in_place|no_grad|backward|save|recompute|region [1-9][0-9]{0,8})$"}});
  flags["uniqueItems"] = true;
  Json schema = object({{"op", true},
                        {"flags", flags},
                        {"operands", array_of(index())},
                        {"attrs", true},
                        {"results", array_of(reference("result"))},
                        {"location", index(-1)}});
  schema["anyOf"] = op_with_attributes([](Op) { return true; });
  return schema;
}

Json view_step() {
  Json schema = object({{"op", true}, {"attrs", true}, {"no_grad", boolean()}});
  schema["anyOf"] = op_with_attributes([](Op op) { return is_view(op); });
  return schema;
}

Json sizes() {
  Json schema = array_of(integer(0));
  schema["maxItems"] = kMaxRank;
  return schema;
}

Json epilogue() {
  const Json write = object({{"output", index()},
                             {"input", index()},
                             {"version_bumps", index()},
                             {"no_grad", boolean()}});
  const Json result = object({{"kind", names<ResultSource::Kind>(4)},
                              {"index", index()},
                              {"chain", array_of(reference("view_step"))},
                              {"requires_grad", boolean()},
                              {"history", index(-1)}});
  const Json grad = object({{"input", index()}, {"output", index(-1)}});
  const Json change = object({{"input", index()},
                              {"result", index(-1)},
                              {"resized", boolean()},
                              {"version_bumps", index()},
                              {"detached", boolean()},
                              {"requires_grad", integer(-1, 1)}});
  return object({{"writes", array_of(write)},
                 {"results", array_of(result)},
                 {"changes", array_of(change)},
                 {"grads", array_of(grad)},
                 {"rng_draws", integer(0)}});
}

Json graph() {
  const Json location =
      object({{"file", text(4096)}, {"line", integer(0, std::numeric_limits<uint32_t>::max())}});
  return object({{"name", name()},
                 {"level", names<Level>(6)},
                 {"subgraphs", array_of(reference("graph"))},
                 {"inputs", array_of(reference("input"))},
                 {"equations", array_of(reference("equation"))},
                 {"locations", array_of(location)},
                 {"outputs", array_of(reference("output"))},
                 {"epilogue", reference("epilogue")}});
}

Json definitions() {
  const Json role = names<Role>(9);
  const Json alias =
      object({{"input", index(-1)}, {"offset", reference("int64")}, {"detached", boolean()}});
  return {{"int64", integer()},
          {"float", floating()},
          {"number", number()},
          {"sizes", sizes()},
          {"graph", graph()},
          {"input", object({{"id", index()},
                            {"name", name()},
                            {"role", role},
                            {"dtype", dtype(true)},
                            {"sizes", reference("sizes")},
                            {"strides", reference("sizes")},
                            {"requires_grad", boolean()},
                            {"alias_of", alias},
                            {"target", index(-1)}})},
          {"equation", equation()},
          {"result", object({{"id", index()},
                             {"hint", name()},
                             {"dtype", dtype(true)},
                             {"sizes", reference("sizes")}})},
          {"output", object({{"value", index()},
                             {"role", role},
                             {"name", name()},
                             {"requires_grad", boolean()},
                             {"strides", reference("sizes")},
                             {"target", index(-1)}})},
          {"view_step", view_step()},
          {"epilogue", epilogue()}};
}

}  // namespace

std::string json_schema() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "tandem.graph/1"}};
  schema.update(object(
      {{"schema", {{"const", "tandem.graph/1"}}}, {"graphs", array_of(reference("graph"))}}));
  schema["$defs"] = definitions();
  return schema.dump(1) + "\n";
}

}  // namespace tandem::ir
