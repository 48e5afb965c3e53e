// The text form, written. The grammar is in ir/README.md.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ir/text/spelling.h"
#include "ir/text/text.h"

namespace tandem::ir {
namespace {

/// Gives out spellings that are all different: the second "x" is "x.1".
class UniqueNames {
 public:
  /// Takes `name` as it is (for names that must be spelled exactly so).
  std::string exactly(std::string_view name) { return unique(spell_name(name)); }
  std::string stem(std::string_view name) { return unique(spell_stem(name)); }

 private:
  std::string unique(const std::string& spelled) {
    if (used_.insert(spelled).second) return spelled;
    for (uint32_t& n = next_[spelled];;)
      if (std::string numbered = fmt::format("{}.{}", spelled, ++n); used_.insert(numbered).second)
        return numbered;
  }

  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, uint32_t> next_;
};

/// The printed names of a graph's values and subgraphs.
class Names {
 public:
  explicit Names(const Graph& graph) : values_(graph.num_values()) {
    UniqueNames names;
    for (const Input& input : graph.inputs())
      if (input.value.index < values_.size())
        values_[input.value.index] = names.exactly(input.name);
    for (uint32_t v = 0; v < values_.size(); ++v) {
      if (!values_[v].empty()) continue;
      const std::string& hint = graph.hint({v});
      values_[v] = hint.empty() ? fmt::format("{}", v) : names.stem(hint);
    }
    UniqueNames subgraph_names;
    for (const Graph& subgraph : graph.subgraphs())
      subgraphs_.push_back(subgraph_names.stem(subgraph.name));
  }

  /// A malformed graph, printed for an error, may name what does not exist.
  std::string of(ValueId v) const {
    return v.index < values_.size() ? "%" + values_[v.index] : fmt::format("%?{}", v.index);
  }
  std::string of(SubgraphId s) const {
    return s.index < subgraphs_.size() ? "@" + subgraphs_[s.index] : fmt::format("@?{}", s.index);
  }

 private:
  std::vector<std::string> values_, subgraphs_;
};

/// Inputs that are numbered below this were there before `e`.
uint32_t values_before(const Graph& graph, EquationId e) {
  uint32_t bound = 0;
  for (ValueId v : graph.operands(e))
    if (v.valid()) bound = std::max(bound, v.index + 1);
  for (ValueId v : graph.results(e)) bound = std::max(bound, v.index);
  return bound;
}

class Printer {
 public:
  Printer(const Graph& graph, const PrintOptions& options, int depth, std::string& out)
      : graph_(graph), options_(options), depth_(depth), out_(out), names_(graph) {}

  void graph(std::string_view printed_name) {
    add("{:{}}graph @{} {} {{\n", "", indent(depth_), printed_name, name(graph_.level));
    for (uint32_t i = 0; i < graph_.subgraphs().size(); ++i)
      Printer(graph_.subgraph({i}), options_, depth_ + 1, out_)
          .graph(std::string_view(names_.of(SubgraphId{i})).substr(1));
    body();
    for (const Output& o : graph_.outputs()) output(o);
    if (graph_.epilogue != Epilogue()) epilogue();
    add("{:{}}}}\n", "", indent(depth_));
  }

  void equation(EquationId id) {
    const Equation& e = graph_.equation(id);
    values(graph_.results(e), true);
    add("{}{}{}", e.result_count ? " = " : "", name(e.op), e.in_place ? "_" : "");
    if (e.operand_count) add(" ");
    values(graph_.operands(e), false);
    // (Without braces the next line's result would be an operand.)
    if (!graph_.attrs(e).empty() || e.operand_count == 0) add(" {}", attrs(e.op, graph_.attrs(e)));
    if (!e.grad_enabled) add(" [no_grad]");
    if (e.is_backward) add(" [backward]");
    if (e.mark != Mark::Auto) add(" [{}]", name(e.mark));
    if (e.region) add(" [region {}]", e.region);
    const auto location = options_.locations ? graph_.location(id) : std::nullopt;
    if (location) add("  ; {}:{}", location->file, location->line);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  static int indent(int depth) { return 2 * depth; }
  void start_line() { add("{:{}}", "", indent(depth_ + 1)); }

  /// Inputs stand before the equation that follows them in the numbering of values.
  void body() {
    size_t next = 0;
    const auto inputs_below = [&](uint32_t bound) {
      for (; next < graph_.inputs().size() && graph_.inputs()[next].value.index < bound; ++next)
        input(graph_.inputs()[next]);
    };
    for (size_t i = 0; i < graph_.num_equations(); ++i) {
      inputs_below(values_before(graph_, graph_.equation_id(i)));
      start_line();
      equation(graph_.equation_id(i));
      add("\n");
    }
    inputs_below(ValueId::kNone);
  }

  void values(std::span<const ValueId> ids, bool typed) {
    for (size_t i = 0; i < ids.size(); ++i) {
      add("{}{}", i ? ", " : "", names_.of(ids[i]));
      if (typed) add(": {}", to_string(graph_.type(ids[i])));
    }
  }

  std::string attr(const AttrValue& value) const {
    struct Spell {
      const Names& names;
      std::string operator()(bool v) const { return v ? "true" : "false"; }
      std::string operator()(int64_t v) const { return fmt::format("{}", v); }
      std::string operator()(Dim v) const { return fmt::format("{}", int64_t{v}); }
      std::string operator()(const Dims& v) const { return to_string(v); }
      std::string operator()(const Axes& v) const { return to_string(v); }
      std::string operator()(double v) const { return spell(v); }
      std::string operator()(const Number& v) const { return spell(v); }
      std::string operator()(DType v) const { return std::string(name(v)); }
      std::string operator()(const std::string& v) const { return quoted(v); }
      std::string operator()(SubgraphId v) const { return names.of(v); }
    };
    return std::visit(Spell{names_}, value);
  }

  std::string attrs(Op op, std::span<const AttrValue> values) const {
    std::string out = "{";
    const auto& attr_names = info(op).attrs;
    for (size_t i = 0; i < std::min(values.size(), attr_names.size()); ++i)
      fmt::format_to(std::back_inserter(out), "{}{}={}", i ? ", " : "", name(attr_names[i]),
                     attr(values[i]));
    return out + "}";
  }

  void strides(const Strides& strides, const Type& type) {
    if (strides != contiguous_strides(type.sizes)) add(" strides={}", to_string(strides));
  }

  std::string input_name(int i) const {
    const bool known = i >= 0 && i < static_cast<int>(graph_.inputs().size());
    return known ? names_.of(graph_.inputs()[i].value) : fmt::format("input {}", i);
  }

  void input(const Input& input) {
    start_line();
    const Type& type = graph_.type(input.value);
    add("in {}: {} {}", names_.of(input.value), to_string(type), name(input.role));
    if (input.target != -1) add(" of output {}", input.target);
    if (input.requires_grad) add(" requires_grad");
    strides(input.strides, type);
    if (input.alias_of)
      add(" alias_of={}{:+}{}", input_name(input.alias_of->input), int64_t{input.alias_of->offset},
          input.alias_of->detached ? " detached" : "");
    add("\n");
  }

  /// Outside joint graphs a gradient's target is an input of another graph, which has no name here.
  std::string target_name(const Output& output) const {
    const bool by_name = output.role == Role::MutatedInput || graph_.level == Level::Joint ||
                         graph_.level == Level::Core;
    return by_name ? input_name(output.target) : fmt::format("input {}", output.target);
  }

  void output(const Output& output) {
    start_line();
    add("out {}: {}", names_.of(output.value), name(output.role));
    if (output.target != -1) add(" of {}", target_name(output));
    if (!output.name.empty()) add(" name={}", spell_name(output.name));
    if (output.requires_grad) add(" requires_grad");
    strides(output.strides, graph_.type(output.value));
    add("\n");
  }

  void epilogue() {
    start_line();
    add("epilogue {{\n");
    for (const InputWrite& w : graph_.epilogue.writes) {
      start_line();
      add("  write output {} to {} bumps={}{}\n", w.output, input_name(w.input), w.version_bumps,
          w.no_grad ? " no_grad" : "");
    }
    for (const ResultSource& r : graph_.epilogue.results) result(r);
    for (const InputChange& c : graph_.epilogue.changes) change(c);
    for (const GradWrite& w : graph_.epilogue.grads) {
      start_line();
      add("  grad {} = {}\n", input_name(w.input),
          w.output == -1 ? "none" : fmt::format("output {}", w.output));
    }
    if (graph_.epilogue.rng_draws != 0) {
      start_line();
      add("  rng_draws {}\n", int64_t{graph_.epilogue.rng_draws});
    }
    start_line();
    add("}}\n");
  }

  void result(const ResultSource& r) {
    using Kind = ResultSource::Kind;
    const bool view = r.kind == Kind::ViewOfInput || r.kind == Kind::ViewOfResult;
    const bool of_input = r.kind == Kind::Input || r.kind == Kind::ViewOfInput;
    start_line();
    add("  result {}{}", view ? "view of " : "",
        of_input                 ? input_name(r.index)
        : r.kind == Kind::Output ? fmt::format("output {}", r.index)
                                 : fmt::format("result {}", r.index));
    if (!r.chain.empty()) chain(r.chain);
    if (r.history != -1) add(" history=output {}", r.history);
    add("{}\n", r.requires_grad ? " requires_grad" : "");
  }

  void change(const InputChange& c) {
    start_line();
    add("  change {}", input_name(c.input));
    if (c.result >= 0) add(" = result {}", c.result);
    if (c.resized) add(" resized");
    if (c.version_bumps != 0) add(" bumps={}", c.version_bumps);
    if (c.detached) add(" detached");
    if (c.requires_grad) add(" requires_grad={}", *c.requires_grad);
    add("\n");
  }

  void chain(const std::vector<ViewStep>& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      add("{}{}{}", i ? ", " : " [", steps[i].no_grad ? "no_grad " : "", name(steps[i].op));
      if (!steps[i].attrs.empty()) add(" {}", attrs(steps[i].op, steps[i].attrs));
    }
    add("]");
  }

  const Graph& graph_;
  const PrintOptions& options_;
  int depth_;
  std::string& out_;
  Names names_;
};

}  // namespace

std::string print(const Graph& graph, const PrintOptions& options) {
  std::string out;
  Printer(graph, options, 0, out).graph(spell_stem(graph.name));
  return out;
}

std::string print_around(const Graph& graph, EquationId e) {
  std::string out;
  const PrintOptions options{.locations = true};
  Printer printer(graph, options, 0, out);
  const size_t first = e.index < 5 ? 0 : e.index - 5;
  const size_t last = std::min(graph.num_equations(), size_t{e.index} + 6);
  for (size_t i = first; i < last; ++i) {
    out += i == e.index ? "> " : "  ";
    printer.equation(graph.equation_id(i));
    out += "\n";
  }
  return out;
}

}  // namespace tandem::ir
