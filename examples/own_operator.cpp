// An operator of one's own with two results, the least and the most of each row, and its gradient,
// of which either result's may be missing. Compiled and differentiated it does what aminmax of the
// op table does.
#include <tandem/graph.h>

#include <cstdio>

namespace td = tandem;

namespace {

using Tensors = std::vector<td::Tensor>;

Tensors run(const Tensors& t, const std::vector<td::Number>&) {
  return {td::amin(t[0], -1), td::amax(t[0], -1)};
}

std::vector<td::TensorType> shape(const std::vector<td::TensorType>& t,
                                  const std::vector<td::Number>&) {
  td::Shape rows = t[0].sizes;
  rows.erase(rows.rank() - 1);
  return {{t[0].dtype, rows}, {t[0].dtype, rows}};
}

/// Each result's gradient goes to the elements that equal it.
Tensors gradient(const td::OperatorGradient& call) {
  const td::Tensor& x = call.arguments[0];
  td::Tensor sum_of = td::zeros_like(x);
  for (size_t i = 0; i < call.grads.size(); ++i) {
    if (!call.grads[i].defined()) continue;
    const td::Tensor is_it = td::eq(x, call.results[i].unsqueeze(-1));
    sum_of = sum_of + td::where(is_it, call.grads[i].unsqueeze(-1), td::zeros_like(x));
  }
  return {sum_of};
}

const td::Operator& extremes() {
  static const td::Operator op =
      td::register_operator({.schema = "mine::extremes(Tensor x) -> (Tensor least, Tensor most)",
                             .run = run,
                             .shape = shape,
                             .gradient = gradient,
                             .saves = {"x", "least", "most"}});
  return op;
}

td::Tensor spread_by_own(const td::Tensor& x) {
  const Tensors found = extremes()({td::sin(x)});
  return td::mean(td::square(found[1] - found[0]));
}

td::Tensor spread_by_table(const td::Tensor& x) {
  const auto [least, most] = td::aminmax(td::sin(x), -1);
  return td::mean(td::square(most - least));
}

/// The loss and the gradient of x.
Tensors differentiated(td::Tensor (*loss_of)(const td::Tensor&), const td::Tensor& x) {
  const td::Tensor own = x.detach().requires_grad_();
  const td::Tensor loss = td::compile(loss_of)(own);
  loss.backward();
  return {loss.detach(), own.grad()};
}

}  // namespace

int main() {
  td::manual_seed(1);
  const td::Tensor x = td::randn({64, 100});
  const Tensors own = differentiated(spread_by_own, x), table = differentiated(spread_by_table, x);
  std::printf("%s", td::ir::print(td::make_graph(spread_by_own)(x)).c_str());
  const double off = td::max(td::abs(own[1] - table[1])).item();
  std::printf("loss %.6f, of the table's %.6f; gradients differ by at most %.2g\n", own[0].item(),
              table[0].item(), off);
  return off < 1e-6 && own[1].abs().sum().item() > 0 ? 0 : 1;
}
