// A backend of one's own: it writes each graph as C text, and runs it by the reference interpreter.
// Forward and backward may have different backends; here backward alone uses this one.
#include <tandem/graph.h>
#include <tandem/ir/op.h>

#include <cstdio>
#include <map>

namespace td = tandem;
namespace ir = tandem::ir;

namespace {

/// C expressions of the pointwise ops that have one; A and B are the operands' elements.
const std::map<ir::Op, const char*> kExpressions = {
    {ir::Op::add, "A + B"},   {ir::Op::sub, "A - B"},   {ir::Op::mul, "A * B"},
    {ir::Op::neg, "-A"},      {ir::Op::exp, "expf(A)"}, {ir::Op::sin, "sinf(A)"},
    {ir::Op::cos, "cosf(A)"}, {ir::Op::clone, "A"},     {ir::Op::tanh, "tanhf(A)"},
    {ir::Op::div, "A / B"},
};

std::string name(ir::ValueId v) { return "v" + std::to_string(v.index); }

std::string statement(const td::Graph& graph, const ir::Equation& e) {
  const std::string result = name(graph.results(e)[0]);
  const auto known = kExpressions.find(e.op);
  if (known == kExpressions.end()) {
    std::string call = "  " + std::string(ir::name(e.op)) + "(" + result;
    for (ir::ValueId v : graph.operands(e)) call += ", " + name(v);
    return call + ");\n";
  }
  std::string text;
  for (const char* c = known->second; *c; ++c)
    text += *c == 'A' || *c == 'B' ? name(graph.operands(e)[*c - 'A']) + "[i]" : std::string(1, *c);
  const auto n = std::to_string(int64_t{ir::numel(graph.type(graph.results(e)[0]).sizes)});
  return "  for (long i = 0; i < " + n + "; ++i) " + result + "[i] = " + text + ";\n";
}

std::string to_c(const td::Graph& graph) {
  std::string text = "void " + graph.name + "(";
  for (const ir::Input& input : graph.inputs()) text += "const float* " + name(input.value) + ", ";
  for (size_t k = 0; k < graph.outputs().size(); ++k)
    text += (k ? ", " : "") + ("float* out" + std::to_string(k));
  text += ") {\n";
  for (const ir::Equation& e : graph.equations()) text += statement(graph, e);
  for (size_t k = 0; k < graph.outputs().size(); ++k)
    text += "  copy(out" + std::to_string(k) + ", " + name(graph.outputs()[k].value) + ");\n";
  return text + "}\n";
}

class CBackend final : public td::Backend {
 public:
  std::string name() const override { return "c text"; }
  std::unique_ptr<td::Executable> compile(const td::Graph& graph) const override {
    std::printf("%s\n", to_c(graph).c_str());
    return td::backend_named("interpreter")->compile(graph);
  }
};

td::Tensor gradient(const td::CompileOptions& options) {
  td::manual_seed(1);
  const td::Tensor x = td::randn({8, 8}).requires_grad_();
  const auto f = td::compile(
      [](const td::Tensor& v) { return td::sum(td::sin(v) * v + td::cos(v)); }, options);
  f(x).backward();
  return x.grad();
}

}  // namespace

int main() {
  const td::Tensor own = gradient({.backward_backend = std::make_shared<CBackend>()});
  const double off = td::max(td::abs(own - gradient({}))).item();
  std::printf("gradients differ by at most %.2g\n", off);
  return off < 1e-5 ? 0 : 1;
}
