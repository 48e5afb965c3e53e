// The JSON form, read strictly: every field must be there and nothing else, every equation fits its
// op's row, and the whole passes the verifier.
#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "ir/base/error.h"
#include "ir/json/json_tape.h"
#include "ir/verify/check_equation.h"
#include "ir/verify/verify.h"

namespace tandem::ir {
namespace {

constexpr size_t kMaxFileBytes = 4096;
constexpr int64_t kMaxIndex = std::numeric_limits<int32_t>::max();

/// The number of the flag "region N", or 0.
uint32_t region_of(std::string_view flag) {
  constexpr std::string_view kPrefix = "region ";
  uint32_t number = 0;
  if (!flag.starts_with(kPrefix)) return 0;
  flag.remove_prefix(kPrefix.size());
  const auto [end, error] = std::from_chars(flag.data(), flag.data() + flag.size(), number);
  const bool spelled_as_written = error == std::errc() && end == flag.data() + flag.size() &&
                                  flag.front() != '0' && number <= kMaxRegion;
  return spelled_as_written ? number : 0;
}

class GraphReader {
 public:
  GraphReader(const JsonLimits& limits, size_t& equations_left)
      : limits_(limits), equations_left_(equations_left) {}

  Graph read(const JsonValue& json);

 private:
  struct PendingInput {
    uint32_t id;
    Input input;
    Type type;
  };

  void read_inputs(const JsonValue& json);
  void read_locations(const JsonValue& json);
  void read_equations(const JsonValue& json);
  void read_equation(const JsonValue& json);
  void read_flags(const JsonValue& json, Equation& flags);
  void read_result(const JsonValue& json, std::vector<Type>& types, std::vector<uint32_t>& ids,
                   std::vector<std::string>& hints);
  std::vector<ValueId> read_operands(const JsonValue& json);
  void read_output(const JsonValue& json);
  InputChange read_input_change(const JsonValue& json);
  void read_epilogue(const JsonValue& json);
  ResultSource read_result_source(const JsonValue& json);

  std::string text(const JsonValue& json) { return json.as_string(limits_.max_name_bytes); }
  int index(const JsonValue& json, int least = 0) {
    return static_cast<int>(json.as_integer(least, kMaxIndex));
  }
  Op op(const JsonValue& json);
  DType dtype(const JsonValue& json);
  Type type(const JsonValue& dtype, const JsonValue& sizes);
  template <class List>
  List numbers(const JsonValue& json);
  Shape shape(const JsonValue& json);
  Strides strides(const JsonValue& json, const Type& type);
  Number number(const JsonValue& json);
  std::vector<AttrValue> attrs(Op op, const JsonValue& json);
  AttrValue attr(AttrType type, const JsonValue& json);

  /// Adds the inputs that are numbered next and below `bound`.
  void add_inputs_below(size_t bound);
  ValueId defined(const JsonValue& json);

  const JsonLimits& limits_;
  size_t& equations_left_;
  Graph graph_;
  std::vector<PendingInput> inputs_;
  size_t next_input_ = 0;
  std::vector<LocationId> locations_;
};

/// Runs `f`; what it throws gets the place of `json` and becomes a parse error.
template <class F>
auto located(const JsonValue& json, F f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error& error) {
    json.fail(error.what());
  }
}

/// Looks a name up with `find`; `what` names the set for the message.
template <class F>
auto named(const JsonValue& json, std::string_view what, F find) {
  const std::string text = json.as_string(64);
  const auto found = find(std::string_view(text));
  if (!found) json.fail(fmt::format("unknown {} \"{}\"", what, text));
  return *found;
}

Role role(const JsonValue& json) { return named(json, "role", role_named); }

Graph GraphReader::read(const JsonValue& json) {
  static constexpr std::string_view kKeys[] = {"name",      "level",     "subgraphs", "inputs",
                                               "equations", "locations", "outputs",   "epilogue"};
  const auto [name, level, subgraphs, inputs, equations, locations, outputs, epilogue] =
      json.members(kKeys);
  graph_.name = text(name);
  graph_.level = named(level, "level", level_named);
  subgraphs.for_each([&](const JsonValue& subgraph) {
    graph_.add_subgraph(GraphReader(limits_, equations_left_).read(subgraph));
  });
  inputs.for_each([&](const JsonValue& input) { read_inputs(input); });
  read_locations(locations);
  read_equations(equations);
  add_inputs_below(ValueId::kNone);
  if (next_input_ < inputs_.size())
    inputs.fail(fmt::format("id {} is not the next one; expected {}", inputs_[next_input_].id,
                            graph_.num_values()));
  outputs.for_each([&](const JsonValue& output) { read_output(output); });
  read_epilogue(epilogue);
  return std::move(graph_);
}

// --- names, types, attributes

Op GraphReader::op(const JsonValue& json) { return named(json, "op", op_named); }
DType GraphReader::dtype(const JsonValue& json) { return named(json, "element type", dtype_named); }

template <class List>
List GraphReader::numbers(const JsonValue& json) {
  List out;
  json.for_each([&](const JsonValue& number) { out.push_back(number.as_integer()); });
  return out;
}

Shape GraphReader::shape(const JsonValue& json) {
  return located(json, [&] { return Shape(numbers<Dims>(json)); });
}

Strides GraphReader::strides(const JsonValue& json, const Type& type) {
  return located(json, [&] {
    const Strides strides(numbers<Dims>(json));
    check_layout(type, strides);
    return strides;
  });
}

Type GraphReader::type(const JsonValue& dtype_json, const JsonValue& sizes) {
  const bool is_token = dtype_json.as_string(64) == "token";
  if (is_token && sizes.size() > 0) sizes.fail("a token has no sizes");
  const Type type = is_token ? Type::token() : Type{dtype(dtype_json), shape(sizes)};
  located(sizes, [&] { check_type(type); });
  return type;
}

Number GraphReader::number(const JsonValue& json) {
  const JsonValue value = json.only_member();
  if (value.key() == "bool") return value.as_bool();
  if (value.key() == "int") return value.as_integer();
  if (value.key() == "float") return value.as_float();
  json.fail(fmt::format("unknown key \"{}\"; expected bool, int or float", value.key()));
}

AttrValue GraphReader::attr(AttrType type, const JsonValue& json) {
  switch (type) {
    case AttrType::Bool:
      return json.as_bool();
    case AttrType::Int:
      return json.as_integer();
    case AttrType::Dim:
      return Dim(json.as_integer());
    case AttrType::Dims:
      return numbers<Dims>(json);
    case AttrType::Axes:
      return numbers<Axes>(json);
    case AttrType::Float:
      return json.as_float();
    case AttrType::Number:
      return number(json);
    case AttrType::Type:
      return dtype(json);
    case AttrType::Text:
      return text(json);
    case AttrType::Graph:
      break;
  }
  const auto most = static_cast<int64_t>(graph_.subgraphs().size()) - 1;
  return SubgraphId{static_cast<uint32_t>(json.as_integer(0, most))};
}

std::vector<AttrValue> GraphReader::attrs(Op op, const JsonValue& json) {
  const auto& row = info(op).attrs;
  std::vector<std::string_view> keys;
  for (Attr a : row) keys.push_back(name(a));
  const std::vector<JsonValue> members = json.members(keys);
  std::vector<AttrValue> out;
  for (size_t i = 0; i < row.size(); ++i) out.push_back(attr(type_of(row[i]), members[i]));
  return out;
}

// --- inputs, equations, outputs

void GraphReader::read_inputs(const JsonValue& json) {
  static constexpr std::string_view kKeys[] = {
      "id", "name", "role", "dtype", "sizes", "strides", "requires_grad", "alias_of", "target"};
  static constexpr std::string_view kAliasKeys[] = {"input", "offset", "detached"};
  const auto [id, name, role_json, dtype, sizes, strides_json, requires_grad, alias_of, target] =
      json.members(kKeys);
  const auto [alias_input, offset, detached] = alias_of.members(kAliasKeys);
  Input input;
  input.name = text(name);
  input.role = role(role_json);
  input.requires_grad = requires_grad.as_bool();
  const Type declared = type(dtype, sizes);
  input.strides = strides(strides_json, declared);
  input.target = index(target, -1);
  const AliasOf alias{index(alias_input, -1), offset.as_integer(), detached.as_bool()};
  if (alias.input >= 0) input.alias_of = alias;
  if (alias.input < 0 && alias.offset != 0) offset.fail("an offset without an input; expected 0");
  inputs_.push_back({static_cast<uint32_t>(index(id)), std::move(input), declared});
}

void GraphReader::read_locations(const JsonValue& json) {
  static constexpr std::string_view kKeys[] = {"file", "line"};
  json.for_each([&](const JsonValue& location) {
    const auto [file, line] = location.members(kKeys);
    locations_.push_back(
        graph_.add_location({file.as_string(kMaxFileBytes),
                             static_cast<uint32_t>(line.as_integer(0, ValueId::kNone))}));
  });
}

void GraphReader::add_inputs_below(size_t bound) {
  while (next_input_ < inputs_.size() && inputs_[next_input_].id == graph_.num_values() &&
         graph_.num_values() < bound) {
    PendingInput& next = inputs_[next_input_++];
    graph_.add_input(std::move(next.input), next.type);
  }
}

ValueId GraphReader::defined(const JsonValue& json) {
  const int id = index(json);
  if (static_cast<size_t>(id) >= graph_.num_values())
    json.fail(fmt::format("value {} is not defined before", id));
  return {static_cast<uint32_t>(id)};
}

std::vector<ValueId> GraphReader::read_operands(const JsonValue& json) {
  std::vector<ValueId> out;
  json.for_each([&](const JsonValue& operand) {
    add_inputs_below(static_cast<size_t>(index(operand)) + 1);
    out.push_back(defined(operand));
  });
  return out;
}

void GraphReader::read_flags(const JsonValue& json, Equation& flags) {
  json.for_each([&](const JsonValue& flag) {
    const std::string text = flag.as_string(64);
    if (text == "in_place" && !flags.in_place)
      flags.in_place = true;
    else if (text == "no_grad" && flags.grad_enabled)
      flags.grad_enabled = false;
    else if (text == "backward" && !flags.is_backward)
      flags.is_backward = true;
    else if ((text == "save" || text == "recompute") && flags.mark == Mark::Auto)
      flags.mark = *mark_named(text);
    else if (const uint32_t region = region_of(text); region != 0 && flags.region == 0)
      flags.region = region;
    else
      flag.fail(
          fmt::format("unknown or repeated flag; expected in_place, no_grad, backward, save or "
                      "recompute, or region and its number, got \"{}\"",
                      text));
  });
}

void GraphReader::read_result(const JsonValue& json, std::vector<Type>& types,
                              std::vector<uint32_t>& ids, std::vector<std::string>& hints) {
  static constexpr std::string_view kKeys[] = {"id", "hint", "dtype", "sizes"};
  const auto [id, hint, dtype, sizes] = json.members(kKeys);
  ids.push_back(static_cast<uint32_t>(index(id)));
  hints.push_back(text(hint));
  types.push_back(type(dtype, sizes));
  if (ids.size() == 1) add_inputs_below(ids[0]);
  const size_t next = graph_.num_values() + ids.size() - 1;
  if (ids.back() != next)
    id.fail(fmt::format("id {} is not the next one; expected {}", ids.back(), next));
}

void GraphReader::read_equations(const JsonValue& json) {
  const size_t count = json.size();
  if (count > equations_left_)
    json.fail(fmt::format("too many equations; expected at most {}", limits_.max_equations));
  equations_left_ -= count;
  json.for_each([&](const JsonValue& equation) { read_equation(equation); });
}

void GraphReader::read_equation(const JsonValue& json) {
  static constexpr std::string_view kKeys[] = {"op",    "flags",   "operands",
                                               "attrs", "results", "location"};
  const auto [op_json, flags_json, operands_json, attrs_json, results_json, location] =
      json.members(kKeys);
  const Op the_op = op(op_json);
  Equation flags;
  read_flags(flags_json, flags);
  const std::vector<ValueId> operands = read_operands(operands_json);
  std::vector<AttrValue> values = attrs(the_op, attrs_json);
  std::vector<Type> operand_types, types;
  std::vector<uint32_t> ids;
  std::vector<std::string> hints;
  results_json.for_each([&](const JsonValue& r) { read_result(r, types, ids, hints); });
  for (ValueId v : operands) operand_types.push_back(graph_.type(v));
  located(json, [&] { check_equation(the_op, flags.in_place, operand_types, values, types); });

  const EquationId id = graph_.append(the_op, operands, values, types, flags.in_place);
  graph_.equation(id).grad_enabled = flags.grad_enabled;
  graph_.equation(id).is_backward = flags.is_backward;
  graph_.equation(id).mark = flags.mark;
  graph_.equation(id).region = flags.region;
  for (size_t i = 0; i < hints.size(); ++i)
    graph_.set_hint(graph_.result(id, static_cast<int>(i)), std::move(hints[i]));
  const int64_t place = location.as_integer(-1, static_cast<int64_t>(locations_.size()) - 1);
  if (place >= 0) graph_.set_location(id, locations_[place]);
}

void GraphReader::read_output(const JsonValue& json) {
  static constexpr std::string_view kKeys[] = {"value",         "role",    "name",
                                               "requires_grad", "strides", "target"};
  const auto [value_json, role_json, name, requires_grad, strides_json, target] =
      json.members(kKeys);
  const ValueId value = defined(value_json);
  graph_.add_output({value, role(role_json), text(name), requires_grad.as_bool(),
                     strides(strides_json, graph_.type(value)), index(target, -1)});
}

// --- the epilogue

ResultSource GraphReader::read_result_source(const JsonValue& json) {
  static constexpr std::string_view kKeys[] = {"kind", "index", "chain", "requires_grad",
                                               "history"};
  static constexpr std::string_view kStepKeys[] = {"op", "attrs", "no_grad"};
  const auto [kind, index_json, chain, requires_grad, history] = json.members(kKeys);
  ResultSource result;
  result.kind = named(kind, "kind", result_kind_named);
  result.index = index(index_json);
  result.requires_grad = requires_grad.as_bool();
  result.history = index(history, -1);
  chain.for_each([&](const JsonValue& step) {
    const auto [step_op, step_attrs, no_grad] = step.members(kStepKeys);
    const Op the_op = op(step_op);
    if (!is_view(the_op)) step_op.fail("not a view; a chain is made of views");
    result.chain.push_back({the_op, attrs(the_op, step_attrs), no_grad.as_bool()});
  });
  return result;
}

InputChange GraphReader::read_input_change(const JsonValue& json) {
  static constexpr std::string_view kKeys[] = {"input",         "result",   "resized",
                                               "version_bumps", "detached", "requires_grad"};
  const auto [input, result, resized, version_bumps, detached, requires_grad] = json.members(kKeys);
  InputChange change{index(input),         index(result, -1),  resized.as_bool(),
                     index(version_bumps), detached.as_bool(), {}};
  const int64_t flag = requires_grad.as_integer();
  if (flag < -1 || flag > 1) requires_grad.fail("expected -1 (not set), 0 or 1");
  if (flag >= 0) change.requires_grad = flag == 1;
  return change;
}

void GraphReader::read_epilogue(const JsonValue& json) {
  static constexpr std::string_view kKeys[] = {"writes", "results", "changes", "grads",
                                               "rng_draws"};
  static constexpr std::string_view kWriteKeys[] = {"output", "input", "version_bumps", "no_grad"};
  static constexpr std::string_view kGradKeys[] = {"input", "output"};
  const auto [writes, results, changes, grads, rng_draws] = json.members(kKeys);
  Epilogue& epilogue = graph_.epilogue;
  writes.for_each([&](const JsonValue& write) {
    const auto [output, input, version_bumps, no_grad] = write.members(kWriteKeys);
    epilogue.writes.push_back(
        {index(output), index(input), index(version_bumps), no_grad.as_bool()});
  });
  results.for_each(
      [&](const JsonValue& result) { epilogue.results.push_back(read_result_source(result)); });
  changes.for_each(
      [&](const JsonValue& change) { epilogue.changes.push_back(read_input_change(change)); });
  grads.for_each([&](const JsonValue& grad) {
    const auto [input, output] = grad.members(kGradKeys);
    epilogue.grads.push_back({index(input), index(output, -1)});
  });
  epilogue.rng_draws = rng_draws.as_integer();
}

}  // namespace

std::vector<Graph> from_json(std::string_view text, const JsonLimits& limits) {
  static constexpr std::string_view kKeys[] = {"schema", "graphs"};
  const JsonTape tape(text, limits);
  const JsonValue document(tape);
  const auto [schema, graphs_json] = document.members(kKeys);
  if (schema.as_string(64) != "tandem.graph/1")
    schema.fail("unknown schema; expected \"tandem.graph/1\"");
  std::vector<Graph> graphs;
  size_t equations_left = limits.max_equations;
  graphs_json.for_each([&](const JsonValue& graph) {
    graphs.push_back(GraphReader(limits, equations_left).read(graph));
    verify(graphs.back());
  });
  return graphs;
}

}  // namespace tandem::ir
