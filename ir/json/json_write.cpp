// The JSON form, written by hand: it has one fixed order of fields and one line per equation.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/json/json.h"
#include "ir/text/spelling.h"

namespace tandem::ir {
namespace {

/// JSON strings are UTF-8; a byte that is not is replaced (U+FFFD).
std::string json_string(std::string_view text) {
  const bool plain = std::ranges::all_of(
      text, [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  if (plain) return fmt::format("\"{}\"", text);
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_float(double value) {
  const std::string text = spell(value);
  return text.find_first_of("fn") == std::string::npos ? text : fmt::format("\"{}\"", text);
}

std::string json_number(const Number& value) {
  const bool is_bool = value.kind() == Number::Kind::Bool;
  if (value.is_float()) return fmt::format("{{\"float\":{}}}", json_float(value.to_double()));
  return fmt::format("{{\"{}\":{}}}", is_bool ? "bool" : "int", spell(value));
}

template <class List>
std::string numbers(const List& list) {
  std::string out = "[";
  for (const int64_t n : list)
    fmt::format_to(std::back_inserter(out), "{}{}", out.size() > 1 ? "," : "", n);
  return out + "]";
}

std::string attr(const AttrValue& value) {
  struct Spell {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(Dim v) const { return fmt::format("{}", int64_t{v}); }
    std::string operator()(const Dims& v) const { return numbers(v); }
    std::string operator()(const Axes& v) const { return numbers(v); }
    std::string operator()(double v) const { return json_float(v); }
    std::string operator()(const Number& v) const { return json_number(v); }
    std::string operator()(DType v) const { return fmt::format("\"{}\"", name(v)); }
    std::string operator()(const std::string& v) const { return json_string(v); }
    std::string operator()(SubgraphId v) const { return fmt::format("{}", v.index); }
  };
  return std::visit(Spell{}, value);
}

std::string attrs(Op op, std::span<const AttrValue> values) {
  std::string out = "{";
  for (size_t i = 0; i < values.size(); ++i)
    fmt::format_to(std::back_inserter(out), "{}\"{}\":{}", i ? "," : "", name(info(op).attrs[i]),
                   attr(values[i]));
  return out + "}";
}

class Writer {
 public:
  std::string take() { return std::move(out_); }

  void document(std::span<const Graph> graphs) {
    add("{{\"schema\":\"tandem.graph/1\",\"graphs\":");
    array(graphs, [&](const Graph& g) { graph(g); });
    add("}}\n");
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  /// One element per line.
  template <class Range, class F>
  void array(const Range& items, F write) {
    const char* separator = "\n";
    add("[");
    for (const auto& item : items) {
      add("{}", separator);
      write(item);
      separator = ",\n";
    }
    add("]");
  }

  void graph(const Graph& g) {
    add("{{\"name\":{},\"level\":\"{}\",\"subgraphs\":", json_string(g.name), name(g.level));
    array(g.subgraphs(), [&](const Graph& subgraph) { graph(subgraph); });
    add(",\"inputs\":");
    array(g.inputs(), [&](const Input& input) { this->input(g, input); });
    add(",\"equations\":");
    Locations locations;
    array(g.equations(), [&](const Equation& e) { equation(g, e, locations); });
    add(",\"locations\":");
    array(locations.in_order, [&](const Location& l) {
      add("{{\"file\":{},\"line\":{}}}", json_string(l.file), l.line);
    });
    add(",\"outputs\":");
    array(g.outputs(), [&](const Output& output) { this->output(output); });
    add(",\"epilogue\":");
    epilogue(g.epilogue);
    add("}}");
  }

  /// The distinct locations of a graph's equations, numbered as they come.
  struct Locations {
    std::map<Location, int64_t> index;
    std::vector<Location> in_order;

    int64_t number(const std::optional<Location>& location) {
      if (!location) return -1;
      const Location line{location->file, location->line};
      const auto [it, is_new] = index.try_emplace(line, static_cast<int64_t>(in_order.size()));
      if (is_new) in_order.push_back(line);
      return it->second;
    }
  };

  void type(const Type& type) {
    add("\"dtype\":\"{}\",\"sizes\":{}", type.is_token ? "token" : name(type.dtype),
        numbers(type.sizes));
  }

  void input(const Graph& g, const Input& input) {
    const AliasOf alias = input.alias_of.value_or(AliasOf{-1, 0, false});
    add("{{\"id\":{},\"name\":{},\"role\":\"{}\",", input.value.index, json_string(input.name),
        name(input.role));
    type(g.type(input.value));
    add(",\"strides\":{},\"requires_grad\":{},\"alias_of\":{{\"input\":{},\"offset\":{},"
        "\"detached\":{}}},\"target\":{}}}",
        numbers(input.strides), input.requires_grad, alias.input, int64_t{alias.offset},
        alias.detached, input.target);
  }

  void output(const Output& output) {
    add("{{\"value\":{},\"role\":\"{}\",\"name\":{},\"requires_grad\":{},\"strides\":{},"
        "\"target\":{}}}",
        output.value.index, name(output.role), json_string(output.name), output.requires_grad,
        numbers(output.strides), output.target);
  }

  void equation(const Graph& g, const Equation& e, Locations& locations) {
    const EquationId id = g.equation_id(&e - g.equations().data());
    add("{{\"op\":\"{}\",\"flags\":{},\"operands\":[", name(e.op), flags(e));
    const char* separator = "";
    for (ValueId v : g.operands(e)) add("{}{}", std::exchange(separator, ","), v.index);
    add("],\"attrs\":{},\"results\":[", attrs(e.op, g.attrs(e)));
    separator = "";
    for (ValueId v : g.results(e)) {
      add("{}{{\"id\":{},\"hint\":{},", std::exchange(separator, ","), v.index,
          json_string(g.hint(v)));
      type(g.type(v));
      add("}}");
    }
    add("],\"location\":{}}}", locations.number(g.location(id)));
  }

  static std::string flags(const Equation& e) {
    std::string out;
    if (e.in_place) out += ",\"in_place\"";
    if (!e.grad_enabled) out += ",\"no_grad\"";
    if (e.is_backward) out += ",\"backward\"";
    if (e.mark != Mark::Auto) out += fmt::format(",\"{}\"", name(e.mark));
    if (e.region) out += fmt::format(",\"region {}\"", e.region);
    return out.empty() ? "[]" : "[" + out.substr(1) + "]";
  }

  void epilogue(const Epilogue& epilogue) {
    add("{{\"writes\":");
    array(epilogue.writes, [&](const InputWrite& w) {
      add("{{\"output\":{},\"input\":{},\"version_bumps\":{},\"no_grad\":{}}}", w.output, w.input,
          w.version_bumps, w.no_grad);
    });
    add(",\"results\":");
    array(epilogue.results, [&](const ResultSource& r) {
      add("{{\"kind\":\"{}\",\"index\":{},\"chain\":", name(r.kind), r.index);
      array(r.chain, [&](const ViewStep& step) {
        add("{{\"op\":\"{}\",\"attrs\":{},\"no_grad\":{}}}", name(step.op),
            attrs(step.op, step.attrs), step.no_grad);
      });
      add(",\"requires_grad\":{},\"history\":{}}}", r.requires_grad, r.history);
    });
    add(",\"changes\":");
    array(epilogue.changes, [&](const InputChange& c) {
      add("{{\"input\":{},\"result\":{},\"resized\":{},\"version_bumps\":{},", c.input, c.result,
          c.resized, c.version_bumps);
      add("\"detached\":{},\"requires_grad\":{}}}", c.detached,
          c.requires_grad ? static_cast<int>(*c.requires_grad) : -1);
    });
    add(",\"grads\":");
    array(epilogue.grads,
          [&](const GradWrite& w) { add("{{\"input\":{},\"output\":{}}}", w.input, w.output); });
    add(",\"rng_draws\":{}}}", int64_t{epilogue.rng_draws});
  }

  std::string out_;
};

}  // namespace

std::string to_json(std::span<const Graph> graphs) {
  Writer writer;
  writer.document(graphs);
  return writer.take();
}

std::string to_json(const Graph& graph) { return to_json({&graph, 1}); }

}  // namespace tandem::ir
