// A graph pass of one's own: every relu becomes a silu before the function is differentiated, so
// the gradients are silu's.
#include <tandem/graph.h>
#include <tandem/ir/rewrite.h>

#include <cstdio>

namespace td = tandem;

namespace {

td::Graph with_silu(const td::Graph& graph) {
  return td::ir::rewrite(graph, [](td::ir::Rewriter& r, td::ir::EquationId e) {
    td::ir::Replacement replacement;  // empty: the equation stays
    if (r.source().op(e) == td::ir::Op::relu)
      replacement = {r.builder().emit(td::ir::Op::silu, r.operands(e))};
    return replacement;
  });
}

}  // namespace

int main() {
  const auto swap = std::make_shared<td::GraphPass>(
      td::GraphPass{"relu to silu", td::PassPoint::Functional, with_silu});
  const auto f =
      td::compile([](const td::Tensor& x) { return td::sum(td::relu(x * 2)); }, {.passes = {swap}});
  const td::Tensor x = td::randn({1000}).requires_grad_();
  const td::Tensor y = f(x);
  y.backward();

  const td::Tensor z = x.detach().requires_grad_();
  const td::Tensor expected = td::sum(td::silu(z * 2));
  expected.backward();
  const double off = td::max(td::abs(x.grad() - z.grad())).item();
  std::printf("sum %.6f, expected %.6f; gradients differ by at most %.2g\n", y.item(),
              expected.item(), off);
  return off < 1e-5 ? 0 : 1;
}
