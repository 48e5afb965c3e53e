// The text form, read: recursive descent, one function per production of the grammar in
// ir/README.md. Only the nesting of subgraphs recurses, and it is bounded.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>

#include "ir/base/error.h"
#include "ir/text/spelling.h"
#include "ir/text/text.h"
#include "ir/text/text_cursor.h"
#include "ir/verify/check_equation.h"
#include "ir/verify/verify.h"

namespace tandem::ir {
namespace {

class GraphParser {
 public:
  GraphParser(TextCursor& cursor, int depth) : in_(cursor), depth_(depth) {}

  Graph graph();
  /// The spelling of the graph's name, which is how the owner's equations refer to it.
  std::string_view spelled_name() const { return spelled_name_; }

 private:
  struct Declared {
    std::string_view spelled;
    Type type;
    size_t at;
  };

  void statement();
  void subgraph(size_t at);
  void input();
  void output();
  void equation();
  void flag(Equation& equation);
  uint32_t region();
  void epilogue();
  void change();

  Declared declaration();
  Type type();
  template <class List>
  List numbers();
  void define(const Declared& declared, ValueId value);
  ValueId value();
  Op op(bool& in_place);
  std::vector<AttrValue> attrs(Op op);
  AttrValue attr(AttrType type);
  SubgraphId subgraph_reference();
  Role role();
  Strides strides_or_contiguous(const Type& type);
  void alias_of();
  void resolve_aliases();
  int input_reference();
  int target(std::string_view kind);

  void write();
  void result();
  void grad_write();
  std::vector<ViewStep> chain();

  /// What a word names, if it names anything.
  template <class T>
  T known(const std::optional<T>& named, size_t at, std::string_view what, std::string_view word) {
    if (!named) in_.fail_at(at, fmt::format("unknown {} '{}'", what, word));
    return *named;
  }

  /// Runs `f`; what it throws gets the place `at` and becomes a parse error.
  template <class F>
  auto located(size_t at, F f) -> decltype(f()) {
    try {
      return f();
    } catch (const Error& error) {
      in_.fail_at(at, error.what());
    }
  }

  struct PendingAlias {
    size_t input, at;
    std::string_view spelled;
  };

  TextCursor& in_;
  int depth_;
  Graph graph_;
  std::string_view spelled_name_;
  std::unordered_map<std::string_view, ValueId> values_;
  std::unordered_map<std::string_view, SubgraphId> subgraphs_;
  std::vector<PendingAlias> pending_aliases_;  // an input may be a view of a later one
};

Graph GraphParser::graph() {
  in_.expect('@');
  spelled_name_ = in_.spelled_name();
  graph_.name = stem_of(spelled_name_);
  const size_t at = in_.here();
  const std::string_view level = in_.word("a level");
  graph_.level = known(level_named(level), at, "level", level);
  in_.expect('{');
  while (!in_.accept('}')) statement();
  resolve_aliases();
  return std::move(graph_);
}

void GraphParser::statement() {
  const size_t at = in_.here();
  if (in_.accept_word("graph")) return subgraph(at);
  if (in_.accept_word("in")) return input();
  if (in_.accept_word("out")) return output();
  if (in_.accept_word("epilogue")) return epilogue();
  equation();
}

void GraphParser::subgraph(size_t at) {
  if (depth_ == kMaxNesting)
    in_.fail_at(at, fmt::format("subgraphs nested too deeply; expected at most {}", kMaxNesting));
  GraphParser parser(in_, depth_ + 1);
  const SubgraphId id = graph_.add_subgraph(parser.graph());
  if (!subgraphs_.emplace(parser.spelled_name(), id).second)
    in_.fail_at(at, fmt::format("subgraph @{} is defined twice", parser.spelled_name()));
}

// --- values and types

GraphParser::Declared GraphParser::declaration() {
  const size_t at = in_.here();
  in_.expect('%');
  const std::string_view spelled = in_.spelled_name();
  in_.expect(':');
  return {spelled, type(), at};
}

Type GraphParser::type() {
  const size_t at = in_.here();
  const std::string_view word = in_.word("a type");
  if (word == "token") return Type::token();
  const DType dtype = known(dtype_named(word), at, "element type", word);
  return located(at, [&] {
    const Type type{dtype, Shape(numbers<Dims>())};
    check_type(type);
    return type;
  });
}

template <class List>
List GraphParser::numbers() {
  List list;
  in_.expect('[');
  if (in_.accept(']')) return list;
  do list.push_back(in_.integer());
  while (in_.accept(','));
  in_.expect(']');
  return list;
}

void GraphParser::define(const Declared& declared, ValueId value) {
  if (!values_.emplace(declared.spelled, value).second)
    in_.fail_at(declared.at, fmt::format("%{} is defined twice", declared.spelled));
}

ValueId GraphParser::value() {
  const size_t at = in_.here();
  in_.expect('%');
  const std::string_view spelled = in_.spelled_name();
  const auto it = values_.find(spelled);
  if (it == values_.end()) in_.fail_at(at, fmt::format("%{} is not defined before", spelled));
  return it->second;
}

// --- inputs and outputs

Role GraphParser::role() {
  const size_t at = in_.here();
  const std::string_view word = in_.word("a role");
  return known(role_named(word), at, "role", word);
}

int GraphParser::target(std::string_view kind) {
  in_.expect_word(kind);
  return in_.int32();
}

Strides GraphParser::strides_or_contiguous(const Type& type) {
  const size_t at = in_.here();
  if (!in_.accept_word("strides")) return contiguous_strides(type.sizes);
  in_.expect('=');
  return located(at, [&] {
    const Strides strides(numbers<Dims>());
    check_layout(type, strides);
    return strides;
  });
}

void GraphParser::input() {
  const Declared declared = declaration();
  Input input;
  input.name = verbatim(declared.spelled);
  input.role = role();
  if (in_.accept_word("of")) input.target = target("output");
  input.requires_grad = in_.accept_word("requires_grad");
  input.strides = strides_or_contiguous(declared.type);
  define(declared, graph_.add_input(std::move(input), declared.type));
  if (in_.accept_word("alias_of")) alias_of();
}

void GraphParser::alias_of() {
  in_.expect('=');
  const size_t at = in_.here();
  in_.expect('%');
  const std::string_view spelled = in_.spelled_name();
  if (in_.peek() != '+' && in_.peek() != '-') in_.fail_expected("an offset as +N or -N");
  graph_.inputs().back().alias_of = AliasOf{-1, in_.integer(), false};
  graph_.inputs().back().alias_of->detached = in_.accept_word("detached");
  pending_aliases_.push_back({graph_.inputs().size() - 1, at, spelled});
}

void GraphParser::resolve_aliases() {
  std::unordered_map<uint32_t, int> position;
  for (size_t i = 0; i < graph_.inputs().size(); ++i)
    position.emplace(graph_.inputs()[i].value.index, static_cast<int>(i));
  for (const PendingAlias& alias : pending_aliases_) {
    const auto value = values_.find(alias.spelled);
    const auto it = value == values_.end() ? position.end() : position.find(value->second.index);
    if (it == position.end())
      in_.fail_at(alias.at, fmt::format("%{} is not an input", alias.spelled));
    graph_.inputs()[alias.input].alias_of->input = it->second;
  }
}

/// `%x`, or `input 3`.
int GraphParser::input_reference() {
  if (in_.peek() != '%') return target("input");
  const size_t at = in_.here();
  const int index = graph_.input_index(value());
  if (index < 0) in_.fail_at(at, "not an input of this graph");
  return index;
}

void GraphParser::output() {
  Output output;
  output.value = value();
  in_.expect(':');
  output.role = role();
  if (in_.accept_word("of")) output.target = input_reference();
  if (in_.accept_word("name")) {
    in_.expect('=');
    output.name = in_.name();
  }
  output.requires_grad = in_.accept_word("requires_grad");
  output.strides = strides_or_contiguous(graph_.type(output.value));
  graph_.add_output(std::move(output));
}

// --- equations

Op GraphParser::op(bool& in_place) {
  const size_t at = in_.here();
  const std::string_view word = in_.word("a statement");
  in_place = word.ends_with('_');
  return known(op_named(word.substr(0, word.size() - in_place)), at, "op", word);
}

void GraphParser::equation() {
  const size_t at = in_.here();
  std::vector<Declared> results;
  if (in_.peek() == '%') {
    do results.push_back(declaration());
    while (in_.accept(','));
    in_.expect('=');
  }
  bool in_place = false;
  const Op the_op = op(in_place);
  std::vector<ValueId> operands;
  if (in_.peek() == '%') do
      operands.push_back(value());
    while (in_.accept(','));
  std::vector<AttrValue> values = attrs(the_op);

  std::vector<Type> operand_types, result_types;
  for (ValueId v : operands) operand_types.push_back(graph_.type(v));
  for (const Declared& r : results) result_types.push_back(r.type);
  located(at, [&] { check_equation(the_op, in_place, operand_types, values, result_types); });

  const EquationId id = graph_.append(the_op, operands, values, result_types, in_place);
  for (size_t i = 0; i < results.size(); ++i) {
    define(results[i], graph_.results(id)[i]);
    graph_.set_hint(graph_.results(id)[i], stem_of(results[i].spelled));
  }
  while (in_.accept('[')) {
    flag(graph_.equation(id));
    in_.expect(']');
  }
}

void GraphParser::flag(Equation& equation) {
  if (in_.accept_word("no_grad"))
    equation.grad_enabled = false;
  else if (in_.accept_word("backward"))
    equation.is_backward = true;
  else if (in_.accept_word("save"))
    equation.mark = Mark::Save;
  else if (in_.accept_word("recompute"))
    equation.mark = Mark::Recompute;
  else if (in_.accept_word("region"))
    equation.region = region();
  else
    in_.fail_expected("no_grad, backward, save, recompute or region");
}

uint32_t GraphParser::region() {
  const size_t at = in_.here();
  const int64_t number = in_.integer();
  if (number < 1 || number > kMaxRegion)
    in_.fail_at(at, fmt::format("region {}; expected 1 to {}", number, kMaxRegion));
  return static_cast<uint32_t>(number);
}

std::vector<AttrValue> GraphParser::attrs(Op op) {
  const auto& names = info(op).attrs;
  std::vector<AttrValue> values(names.size());
  std::vector<bool> seen(names.size());
  const size_t at = in_.here();
  if (in_.accept('{') && !in_.accept('}')) {
    do {
      const size_t name_at = in_.here();
      const std::string_view word = in_.word("an attribute");
      const auto named = attr_named(word);
      if (!named || !has_attr(op, *named))
        in_.fail_at(name_at, fmt::format("{}: unknown attribute '{}'", name(op), word));
      const int i = attr_index(op, *named);
      if (seen[i]) in_.fail_at(name_at, fmt::format("attribute '{}' is given twice", word));
      seen[i] = true;
      in_.expect('=');
      values[i] = attr(type_of(*named));
    } while (in_.accept(','));
    in_.expect('}');
  }
  const auto missing = std::ranges::find(seen, false);
  if (missing != seen.end())
    in_.fail_at(at, fmt::format("{}: attribute '{}' is missing", name(op),
                                name(names[missing - seen.begin()])));
  return values;
}

AttrValue GraphParser::attr(AttrType type) {
  switch (type) {
    case AttrType::Bool:
      return in_.boolean();
    case AttrType::Int:
      return in_.integer();
    case AttrType::Dim:
      return Dim(in_.integer());
    case AttrType::Dims:
      return numbers<Dims>();
    case AttrType::Axes:
      return numbers<Axes>();
    case AttrType::Float:
      return in_.floating();
    case AttrType::Number:
      return in_.number();
    case AttrType::Text:
      return in_.string();
    case AttrType::Graph:
      return subgraph_reference();
    case AttrType::Type:
      break;
  }
  const size_t at = in_.here();
  const std::string_view word = in_.word("an element type");
  return known(dtype_named(word), at, "element type", word);
}

SubgraphId GraphParser::subgraph_reference() {
  const size_t at = in_.here();
  in_.expect('@');
  const std::string_view spelled = in_.spelled_name();
  const auto it = subgraphs_.find(spelled);
  if (it == subgraphs_.end())
    in_.fail_at(at, fmt::format("subgraph @{} is not defined before", spelled));
  return it->second;
}

// --- the epilogue

void GraphParser::epilogue() {
  in_.expect('{');
  while (!in_.accept('}')) {
    if (in_.accept_word("write"))
      write();
    else if (in_.accept_word("result"))
      result();
    else if (in_.accept_word("change"))
      change();
    else if (in_.accept_word("grad"))
      grad_write();
    else if (in_.accept_word("rng_draws"))
      graph_.epilogue.rng_draws = in_.integer();
    else
      in_.fail_expected("write, result, change, grad, rng_draws or '}'");
  }
}

void GraphParser::write() {
  InputWrite write;
  write.output = target("output");
  in_.expect_word("to");
  write.input = input_reference();
  in_.expect_word("bumps");
  in_.expect('=');
  write.version_bumps = in_.int32();
  write.no_grad = in_.accept_word("no_grad");
  graph_.epilogue.writes.push_back(write);
}

void GraphParser::result() {
  using Kind = ResultSource::Kind;
  ResultSource result;
  const bool view = in_.accept_word("view");
  if (view) in_.expect_word("of");
  if (view && in_.accept_word("result")) {
    result.kind = Kind::ViewOfResult;
    result.index = in_.int32();
  } else if (!view && in_.accept_word("output")) {
    result.index = in_.int32();
  } else {
    result.kind = view ? Kind::ViewOfInput : Kind::Input;
    result.index = input_reference();
  }
  if (in_.accept('[')) result.chain = chain();
  if (in_.accept_word("history")) {
    in_.expect('=');
    result.history = target("output");
  }
  result.requires_grad = in_.accept_word("requires_grad");
  graph_.epilogue.results.push_back(std::move(result));
}

std::vector<ViewStep> GraphParser::chain() {
  std::vector<ViewStep> steps;
  do {
    bool in_place = false;
    ViewStep step;
    step.no_grad = in_.accept_word("no_grad");
    const size_t at = in_.here();
    step.op = op(in_place);
    if (in_place || !is_view(step.op)) in_.fail_at(at, "not a view; a chain is made of views");
    step.attrs = attrs(step.op);
    steps.push_back(std::move(step));
  } while (in_.accept(','));
  in_.expect(']');
  return steps;
}

void GraphParser::change() {
  InputChange change;
  change.input = input_reference();
  if (in_.accept('=')) {
    in_.expect_word("result");
    change.result = in_.int32();
  }
  change.resized = in_.accept_word("resized");
  if (in_.accept_word("bumps")) {
    in_.expect('=');
    change.version_bumps = in_.int32();
  }
  change.detached = in_.accept_word("detached");
  if (in_.accept_word("requires_grad")) {
    in_.expect('=');
    change.requires_grad = in_.accept_word("true");
    if (!*change.requires_grad) in_.expect_word("false");
  }
  graph_.epilogue.changes.push_back(change);
}

void GraphParser::grad_write() {
  GradWrite write;
  write.input = input_reference();
  in_.expect('=');
  if (!in_.accept_word("none")) write.output = target("output");
  graph_.epilogue.grads.push_back(write);
}

}  // namespace

Graph parse(std::string_view text) {
  TextCursor cursor(text);
  cursor.expect_word("graph");
  Graph graph = GraphParser(cursor, 1).graph();
  if (!cursor.at_end()) cursor.fail_expected("the end of the text");
  return graph;
}

}  // namespace tandem::ir
