#include "ir/verify/check_bodies.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ir/base/error.h"

namespace tandem::ir {
namespace {

using TypeList = std::vector<Type>;

std::string listed(const TypeList& types) {
  std::string out;
  for (const Type& type : types) out += (out.empty() ? "" : ", ") + to_string(type);
  return "(" + out + ")";
}

class Checker {
 public:
  Checker(const Graph& graph, EquationId e) : g_(graph), e_(e), op_(graph.op(e)) {
    for (const ValueId v : g_.operands(e)) operands_.push_back(g_.type(v));
    for (const ValueId v : g_.results(e)) results_.push_back(g_.type(v));
    for (const TypeList* types : {&operands_, &results_})
      if (std::ranges::any_of(*types, &Type::is_token)) fail("takes and gives no token");
  }

  void cond() const {
    check_predicate("operand 0", operands_[0]);
    const TypeList inputs(operands_.begin() + 1, operands_.end());
    check(Attr::then, inputs, results_);
    check(Attr::otherwise, inputs, results_);
  }

  void while_loop() const {
    const TypeList carries = first(count(Attr::carries, operands_.size()));
    check_types("results", carries, results_);
    const Graph& condition = g_.subgraph(g_.attr<SubgraphId>(e_, Attr::condition));
    check_types("inputs of the condition", operands_, types_of(condition, condition.inputs()));
    if (condition.outputs().size() != 1)
      fail(fmt::format("@{} gives {} outputs; expected one", condition.name,
                       condition.outputs().size()));
    check_predicate("the condition", condition.type(condition.outputs()[0].value));
    check(Attr::body, operands_, carries);
  }

  void scan() const {
    const size_t carries = count(Attr::carries, std::min(operands_.size(), results_.size()));
    const size_t constants = count(Attr::constants, operands_.size() - carries);
    const Dim length = g_.attr<Dim>(e_, Attr::length);
    if (length < 0) fail(fmt::format("length {}", int64_t{length}));
    check_types("the first results", first(carries),
                TypeList(results_.begin(), results_.begin() + static_cast<ptrdiff_t>(carries)));
    TypeList inputs = first(carries + constants), outputs = first(carries);
    for (size_t i = inputs.size(); i < operands_.size(); ++i)
      inputs.push_back(slice_of(operands_[i], "operand", i, length));
    for (size_t i = carries; i < results_.size(); ++i)
      outputs.push_back(slice_of(results_[i], "result", i, length));
    check(Attr::body, inputs, outputs);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    ir::fail(Errc::Graph, fmt::format("{}: {}", name(op_), problem));
  }

  size_t count(Attr attr, size_t most) const {
    const auto value = g_.attr<int64_t>(e_, attr);
    if (value < 0 || value > static_cast<int64_t>(most))
      fail(fmt::format("{} {}; expected at most {}", name(attr), value, most));
    return static_cast<size_t>(value);
  }

  TypeList first(size_t n) const {
    return {operands_.begin(), operands_.begin() + static_cast<ptrdiff_t>(n)};
  }

  Type slice_of(const Type& type, const char* what, size_t i, Dim length) const {
    if (type.rank() == 0 || type.sizes[0] != length)
      fail(fmt::format("{} {} has type {}; expected {} slices", what, i, to_string(type),
                       int64_t{length}));
    Type slice = type;
    slice.sizes = {};
    for (int d = 1; d < type.rank(); ++d) slice.sizes.push_back(type.sizes[d]);
    return slice;
  }

  void check_predicate(const char* what, const Type& type) const {
    if (type != Type{DType::Bool, {}})
      fail(fmt::format("{} has type {}; expected bool[]", what, to_string(type)));
  }

  template <class Ports>
  static TypeList types_of(const Graph& body, const Ports& ports) {
    TypeList types;
    for (const auto& port : ports) types.push_back(body.type(port.value));
    return types;
  }

  void check_types(const std::string& what, const TypeList& expected, const TypeList& got) const {
    if (got != expected)
      fail(fmt::format("{} have types {}; expected {}", what, listed(got), listed(expected)));
  }

  void check(Attr attr, const TypeList& inputs, const TypeList& outputs) const {
    const Graph& body = g_.subgraph(g_.attr<SubgraphId>(e_, attr));
    check_types(fmt::format("inputs of @{}", body.name), inputs, types_of(body, body.inputs()));
    check_types(fmt::format("outputs of @{}", body.name), outputs, types_of(body, body.outputs()));
  }

  const Graph& g_;
  const EquationId e_;
  const Op op_;
  TypeList operands_, results_;
};

}  // namespace

bool is_control_flow(Op op) { return op == Op::cond || op == Op::while_loop || op == Op::scan; }

void check_bodies(const Graph& graph, EquationId e) {
  const Checker checker(graph, e);
  const Op op = graph.op(e);
  if (op == Op::cond)
    checker.cond();
  else if (op == Op::while_loop)
    checker.while_loop();
  else
    checker.scan();
}

}  // namespace tandem::ir
