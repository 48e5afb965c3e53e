// Common subexpressions: a table from what an equation computes (op, operands, attributes) to the
// equation that computes it first.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <unordered_map>

#include "decomps/simplify.h"
#include "ir/rewrite.h"

namespace tandem::decomps {
namespace {

using ir::AttrValue;
using ir::Dim;
using ir::EquationId;
using ir::Graph;
using ir::Number;
using ir::ValueId;

/// Collects what identifies an equation as bytes.
class Key {
 public:
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void add(T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    text_.append(bytes, sizeof value);
  }
  void add(Dim d) { add(int64_t{d}); }
  void add(ValueId v) { add(v.index); }
  void add(ir::SubgraphId id) { add(id.index); }
  void add(double value) {  // by its bits, since 0.0 and -0.0 differ; all NaN are one
    add(std::isnan(value) ? ~uint64_t{0} : std::bit_cast<uint64_t>(value));
  }
  void add(const Number& n) {
    add(n.kind());
    if (n.is_float())
      add(n.to_double());
    else
      add(n.to_int());
  }
  void add(const std::string& text) {
    add(text.size());
    text_ += text;
  }
  void add(const std::vector<Dim>& dims) {
    add(dims.size());
    for (Dim d : dims) add(d);
  }
  void add(const AttrValue& attr) {
    std::visit([&](const auto& value) { add(value); }, attr);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// `operands` are the target's.
std::string key_of(const Graph& source, EquationId e, std::vector<ValueId> operands) {
  if (ir::info(source.op(e)).commutative) std::ranges::sort(operands);
  Key key;
  key.add(source.op(e));
  key.add(operands.size());
  for (ValueId v : operands) key.add(v);
  for (const AttrValue& attr : source.attrs(e)) key.add(attr);
  return key.take();
}

/// Equations with effects, subgraphs or the user's code stand for themselves.
bool may_merge(const Graph& graph, EquationId e) {
  const ir::Equation& equation = graph.equation(e);
  if (equation.in_place || equation.result_count != 1) return false;
  const ir::OpClass cls = ir::info(equation.op).cls;
  if (cls == ir::OpClass::Control || cls == ir::OpClass::External) return false;
  return !graph.type(graph.result(e)).is_token;
}

}  // namespace

Graph eliminate_common_subexpressions(const Graph& graph) {
  ir::Rewriter rewriter(graph);
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    rewriter.set_subgraph({i}, eliminate_common_subexpressions(graph.subgraph({i})));
  std::unordered_map<std::string, EquationId> first;
  rewriter.copy_inputs();
  for (size_t i = 0; i < graph.num_equations(); ++i) {
    const EquationId e = graph.equation_id(i);
    if (!may_merge(graph, e)) {
      rewriter.copy(e);
      continue;
    }
    const EquationId next{static_cast<uint32_t>(rewriter.target().num_equations())};
    const auto [it, is_new] = first.emplace(key_of(graph, e, rewriter.operands(e)), next);
    if (is_new) {
      rewriter.copy(e);
      continue;
    }
    rewriter.replace(e, rewriter.target().results(it->second));
    if (!graph.equation(e).is_backward) rewriter.target().equation(it->second).is_backward = false;
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace tandem::decomps
