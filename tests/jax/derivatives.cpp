// Functions of functions, alone and of each other.
#include "tests/jax/programs.h"

namespace tandem::testing {
namespace {

// --- functions that are differentiated

Tensor rosenbrock(const Tensor& x) {
  const Tensor head = x.slice(0, 0, -1), tail = x.slice(0, 1);
  return sum(100 * square(tail - square(head)) + square(1 - head));
}

struct Mlp {
  Tensor w1, b1, w2;
  TANDEM_FIELDS(Mlp, w1, b1, w2)
};

Mlp mlp_of(const Tensors& in) { return {in[0], in[1], in[2]}; }
Tensors list_of(const Mlp& m) { return {m.w1, m.b1, m.w2}; }

Tensor apply(const Mlp& m, const Tensor& x) { return matmul(tanh(matmul(x, m.w1) + m.b1), m.w2); }
Tensor mlp_loss(const Mlp& m, const Tensor& x) { return mean(square(apply(m, x))); }

Tensor logistic(const Tensor& w, const Tensor& x) { return mean(softplus(-matmul(x, w))); }

/// A network of one number, u(t).
Tensor of_time(const Tensor& w, const Tensor& v, const Tensor& t) { return sum(tanh(w * t) * v); }

// --- rules of the user's

/// The square, whose gradient is held between -1 and 1.
struct ClippedGradient : Function<ClippedGradient> {
  static Tensor forward(FunctionContext& c, const Tensor& x) {
    c.save_for_backward({x});
    return x * x;
  }
  static Tensors backward(FunctionContext& c, const Tensors& gradients) {
    return {clamp(2 * c.saved()[0] * gradients[0], -1, 1)};
  }
};

/// log(1 + exp(x)), whose derivative does not overflow.
struct Log1pExp : Function<Log1pExp> {
  static Tensor forward(FunctionContext& c, const Tensor& x) {
    c.save_for_backward({x});
    return log(1 + exp(x));
  }
  static Tensors backward(FunctionContext& c, const Tensors& gradients) {
    return {gradients[0] * sigmoid(c.saved()[0])};
  }
  static Tensors jvp(FunctionContext& c, const Tensors& tangents) {
    return {tangents[0] * sigmoid(c.saved()[0])};
  }
};

const Shape kMlpW1{3, 5}, kMlpB1{5}, kMlpW2{5, 2};

std::vector<JaxProgram> gradients() {
  return {
      {"grad_mlp",
       {kMlpW1, kMlpB1, kMlpW2, {4, 3}},
       [](const Tensors& in) { return list_of(grad(mlp_loss)(mlp_of(in), in[3])); }},
      {"value_and_grad_of_two",
       {{4}, {4}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& a, const Tensor& b) { return logsumexp(a * b, {0}); };
         const auto [value, gradients] = value_and_grad<0, 1>(f)(in[0], in[1]);
         return {value, std::get<0>(gradients), std::get<1>(gradients)};
       }},
      {"aux",
       {{4}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& a) { return std::pair(sum(sin(a)), a * a); };
         const auto [value, aux, gradient] = value_and_grad(f)(in[0]);
         return {value, aux, gradient};
       }},
      {"second_derivative",
       {{5}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return sum(tanh(x) * exp(x)); };
         const auto slope = [=](const Tensor& x) { return sum(grad(f)(x)); };
         return {grad(slope)(in[0])};
       }},
      {"third_derivative",
       {{}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return sin(x) * exp(x); };
         return {grad(grad(grad(f)))(in[0])};
       }},
      {"grad_through_grad",
       {kMlpW1, kMlpB1, kMlpW2, {4, 3}},
       [](const Tensors& in) {
         // A penalty on the gradient by the input.
         const auto penalty = [](const Mlp& m, const Tensor& x) {
           return sum(square(grad<1>(mlp_loss)(m, x)));
         };
         return list_of(grad(penalty)(mlp_of(in), in[3]));
       }},
  };
}

std::vector<JaxProgram> along_tangents() {
  return {
      {"jvp_softmax",
       {{3, 4}, {3, 4}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return softmax(x, 1); };
         const auto [y, moved] = jvp(f, in[0], in[1]);
         return {y, moved};
       }},
      {"jvp_of_two",
       {{3, 4}, {4, 2}, {3, 4}, {4, 2}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& a, const Tensor& b) { return sin(matmul(a, b)); };
         return {jvp(f, std::tuple(in[0], in[1]), std::tuple(in[2], in[3])).tangent};
       }},
      {"jvp_of_jvp",
       {{4}, {4}, {4}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return cumsum(x * x * x, 0); };
         const auto along = [&](const Tensor& x) { return jvp(f, x, in[1]).tangent; };
         return {jvp(along, in[0], in[2]).tangent};
       }},
      {"vjp_layer_norm",
       {{3, 6}, {3, 6}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return layer_norm(x, {6}); };
         return {vjp(f, in[0]).pullback(in[1])};
       }},
      {"vjp_of_two_results",
       {{4}, {4}, {}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return std::pair(sin(x), prod(x)); };
         return {vjp(f, in[0]).pullback({in[1], in[2]})};
       }},
      {"linearize",
       {{4}, {4}, {4}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return x * sum(cos(x)); };
         const auto [y, push] = linearize(f, in[0]);
         return {y, push(in[1]), push(in[2])};
       }},
  };
}

std::vector<JaxProgram> jacobians() {
  return {
      {"jacrev",
       {{3, 4}, {4}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& w, const Tensor& x) { return tanh(matmul(w, x)); };
         const auto [by_w, by_x] = jacrev<0, 1>(f)(in[0], in[1]);
         return {by_w, by_x};
       }},
      {"jacfwd",
       {{3, 4}, {4}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& w, const Tensor& x) { return tanh(matmul(w, x)); };
         return {jacfwd<1>(f)(in[0], in[1])};
       }},
      {"jacrev_of_jacfwd",
       {{3}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return outer(x, exp(x)); };
         return {jacrev(jacfwd(f))(in[0])};
       }},
      {"jacfwd_of_jacrev_of_jacfwd",
       {{2}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return sin(x) * prod(x); };
         return {jacfwd(jacrev(jacfwd(f)))(in[0])};
       }},
      {"hessian_rosenbrock",
       {{4}},
       [](const Tensors& in) -> Tensors { return {hessian(rosenbrock)(in[0])}; }},
      {"hessian_logistic",
       {{3}, {6, 3}},
       [](const Tensors& in) -> Tensors { return {hessian(logistic)(in[0], in[1])}; }},
      {"hvp",
       {{5}, {5}},
       [](const Tensors& in) -> Tensors {
         const auto [value, product] = hvp(rosenbrock, in[0], in[1]);
         return {value, product};
       }},
      {"gauss_newton_product",
       {kMlpW1, {4, 3}, kMlpW1},
       [](const Tensors& in) -> Tensors {
         const auto f = [&](const Tensor& w) { return tanh(matmul(in[1], w)); };
         const Tensor moved = jvp(f, in[0], in[2]).tangent;
         return {vjp(f, in[0]).pullback(moved)};
       }},
  };
}

std::vector<JaxProgram> of_examples() {
  return {
      {"vmap_in_dims",
       {{4, 3}, {2, 5}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& a, const Tensor& b) { return outer(a, b); };
         return {
             vmap(f, {.in_dims = {std::nullopt, 1}, .out_dims = {2}})(in[0].select(0, 1), in[1])};
       }},
      {"vmap_of_vmap",
       {{4, 3}, {5, 3}},
       [](const Tensors& in) -> Tensors {
         const auto distance = [](const Tensor& a, const Tensor& b) {
           return sqrt(sum(square(a - b)));
         };
         const auto row = [=](const Tensor& a, const Tensor& all) {
           return vmap(distance, {.in_dims = {std::nullopt, 0}})(a, all);
         };
         return {vmap(row, {.in_dims = {0, std::nullopt}})(in[0], in[1])};
       }},
      {"vmap_argsort",
       {{4, 6}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) {
           const auto [values, indices] = sort(x);
           return std::pair(cumsum(values, 0), indices.to(f64));
         };
         const auto [sums, places] = vmap(f)(in[0]);
         return {sums, places};
       }},
      {"per_sample_gradients",
       {kMlpW1, kMlpB1, kMlpW2, {4, 3}},
       [](const Tensors& in) {
         const auto each = vmap(grad(mlp_loss), {.in_dims = {std::nullopt, 0}});
         return list_of(each(mlp_of(in), in[3].unsqueeze(1)));
       }},
      {"per_sample_gradients_conv",
       {{2, 1, 3, 3}, {3, 1, 5, 5}},
       [](const Tensors& in) -> Tensors {
         const auto loss = [](const Tensor& w, const Tensor& x) {
           return sum(square(relu(conv2d(x.unsqueeze(0), w))));
         };
         return {vmap(grad(loss), {.in_dims = {std::nullopt, 0}})(in[0], in[1])};
       }},
      {"grad_of_vmap",
       {{4, 3}, {3}},
       [](const Tensors& in) -> Tensors {
         const auto loss = [&](const Tensor& w) {
           const auto one = [&](const Tensor& x) { return sigmoid(dot(x, w)); };
           return sum(log(vmap(one)(in[0])));
         };
         return {grad(loss)(in[1])};
       }},
  };
}

std::vector<JaxProgram> compositions() {
  return {
      {"vmap_of_jvp",
       {{4, 3}, {3}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return prod(x); };
         const auto along = [&](const Tensor& x) { return jvp(f, x, in[1]).tangent; };
         return {vmap(along)(in[0])};
       }},
      {"jvp_of_vmap",
       {{4, 3}, {4, 3}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return x / sqrt(sum(x * x)); };
         return {jvp([&](const Tensor& x) { return vmap(f)(x); }, in[0], in[1]).tangent};
       }},
      {"vmap_of_hessian",
       {{3, 4}},
       [](const Tensors& in) -> Tensors { return {vmap(hessian(rosenbrock))(in[0])}; }},
      {"jacrev_of_vmap",
       {{3, 2}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) {
           return vmap([](const Tensor& r) { return prod(r); })(x);
         };
         return {jacrev(f)(in[0])};
       }},
      {"laplacian",
       {{5, 3}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return exp(-sum(x * x)) * x.select(0, 0); };
         return {vmap([=](const Tensor& x) { return trace(hessian(f)(x)); })(in[0])};
       }},
      {"pinn_residual",
       {{6}, {6}, {5}},
       [](const Tensors& in) -> Tensors {
         const auto loss = [&](const Tensor& w, const Tensor& v) {
           const auto u = [&](const Tensor& t) { return of_time(w, v, t); };
           const auto residual = [&](const Tensor& t) { return grad(grad(u))(t) + u(t); };
           return mean(square(vmap(residual)(in[2])));
         };
         const auto [by_w, by_v] = grad<0, 1>(loss)(in[0], in[1]);
         return {by_w, by_v};
       }},
  };
}

std::vector<JaxProgram> rules_and_writes() {
  return {
      {"custom_vjp",
       {{5}},
       [](const Tensors& in) -> Tensors {
         return {grad([](const Tensor& x) { return sum(ClippedGradient::apply(x) * x); })(in[0])};
       }},
      {"custom_jvp",
       {{5}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return Log1pExp::apply(x); };
         return {jvp(f, in[0] * 100, ones_like(in[0])).tangent,
                 grad([&](const Tensor& x) { return sum(f(x)); })(in[0])};
       }},
      {"stop_gradient",
       {{5}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) {
           return sum(x * (x + stop_gradient(round(x * 3) - x)));  // straight through
         };
         return {grad(f)(in[0])};
       }},
      {"checkpoint",
       {{3, 3}, {3}},
       [](const Tensors& in) -> Tensors {
         const auto layer =
             checkpoint([](const Tensor& w, const Tensor& x) { return sin(matmul(w, tanh(x))); });
         const auto f = [=](const Tensor& w, const Tensor& x) {
           return sum(layer(w, layer(w, layer(w, x))));
         };
         const auto [by_w, by_x] = grad<0, 1>(f)(in[0], in[1]);
         return {by_w, by_x};
       }},
      {"writes_in_place",
       {{4, 3}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) {
           const Tensor y = x * 2;
           y.select(0, 1).mul_(x.select(0, 0));
           y.slice(1, 1).sin_();
           return sum(square(y));
         };
         return {grad(f)(in[0]), hessian(f)(in[0])};
       }},
  };
}

std::vector<JaxProgram> of_operations() {
  return {
      {"gather_scatter",
       {{5, 3}},
       [](const Tensors& in) -> Tensors {
         const Tensor places = tensor({0, 2, 2, 4, 1, 2});
         const auto f = [&](const Tensor& x) {
           const Tensor rows = index_select(x, 0, places);
           return sum(exp(zeros({5, 3}, f64).index_add(0, places, square(rows))));
         };
         return {grad(f)(in[0] * 0.3)};
       }},
      {"solve_and_logdet",
       {{3, 3}, {3}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& a, const Tensor& b) {
           const Tensor s = matmul(a, a.t()) + eye(3, {}, f64);
           return sum(linalg::solve(s, b)) + logdet(s);
         };
         const auto [by_a, by_b] = grad<0, 1>(f)(in[0], in[1]);
         return {by_a, by_b};
       }},
      {"cholesky",
       {{3, 3}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& a) {
           return sum(sin(linalg::cholesky(matmul(a, a.t()) + eye(3, {}, f64))));
         };
         return {grad(f)(in[0]), vjp(f, in[0]).pullback(full({}, 2, f64))};
       }},
      {"functional_call",
       {{2, 3}, {2}, {4, 3}},
       [](const Tensors& in) -> Tensors {
         const nn::Linear layer(3, 2, true, f64);
         const auto loss = [&](const Tensor& w, const Tensor& b) {
           return sum(square(functional_call(layer, {{"weight", w}, {"bias", b}}, in[2])));
         };
         const auto [by_w, by_b] = grad<0, 1>(loss)(in[0], in[1]);
         return {by_w, by_b};
       }},
  };
}

const std::vector<JaxProgram>& programs() {
  static const auto& all =
      *new auto(joined({gradients(), along_tangents(), jacobians(), of_examples(), compositions(),
                        rules_and_writes(), of_operations()}));
  return all;
}

}  // namespace

std::span<const JaxProgram> derivative_programs() { return programs(); }

}  // namespace tandem::testing
