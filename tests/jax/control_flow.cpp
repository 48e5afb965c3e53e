// Branches and loops, and derivatives of and through them.
#include "tests/jax/programs.h"

namespace tandem::testing {
namespace {

using Pair = std::pair<Tensor, Tensor>;

Tensor number(double value) { return full({}, value, f64); }

/// One step of a plain recurrent network, and what it shows.
Pair rnn_step(const Tensor& w, const Tensor& u, const Tensor& h, const Tensor& x) {
  const Tensor next = tanh(matmul(w, h) + matmul(u, x));
  return {next, square(next)};
}

Tensor rnn_loss(const Tensor& w, const Tensor& u, const Tensor& h, const Tensor& xs) {
  const auto body = [&](const Tensor& state, const Tensor& x) { return rnn_step(w, u, state, x); };
  const auto [last, ys] = scan(body, h, xs);
  return sum(last) + mean(ys);
}

Tensor newton_root(const Tensor& a) {
  const auto unfinished = [&](const Tensor& x) { return abs(x * x - a) > 1e-10; };
  const auto improve = [&](const Tensor& x) { return (x + a / x) / 2; };
  return while_loop(unfinished, improve, a + 1);
}

Tensor leaky(const Tensor& x) {
  return cond(
      sum(x) > 0, [](const Tensor& t) { return t * sin(t); },
      [](const Tensor& t) { return 0.1 * exp(t); }, x);
}

Tensor power_by_loop(const Tensor& x) {
  return fori_loop(0, 5, [&](const Tensor&, const Tensor& p) { return p * x; }, ones_like(x));
}

/// The harmonic oscillator's end by fourth-order Runge-Kutta steps.
Tensor oscillator_end(const Tensor& start, const Tensor& stiffness) {
  const auto slope = [&](const Tensor& s) {
    return stack({s.select(0, 1), -stiffness * s.select(0, 0)});
  };
  const double h = 0.1;
  const auto step = [&](const Tensor&, const Tensor& s) {
    const Tensor k1 = slope(s), k2 = slope(s + h / 2 * k1), k3 = slope(s + h / 2 * k2),
                 k4 = slope(s + h * k3);
    return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
  };
  return fori_loop(0, 20, step, start);
}

std::vector<JaxProgram> branches_and_counts() {
  return {
      {"cond", {{4}}, [](const Tensors& in) -> Tensors { return {leaky(in[0]), leaky(-in[0])}; }},
      {"grad_of_cond",
       {{4}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return sum(leaky(x)); };
         return {grad(f)(in[0]), grad(f)(-in[0])};
       }},
      {"cond_in_cond",
       {{3}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) {
           return cond(
               x.select(0, 0) > 0,
               [&] {
                 return cond(
                     x.select(0, 1) > 0, [&] { return sum(sin(x)); }, [&] { return prod(x); });
               },
               [&] { return sum(x * x); });
         };
         return {f(in[0]), grad(f)(in[0]), grad(f)(-in[0]), f(in[0].flip({0}))};
       }},
      {"switch_case",
       {{3}},
       [](const Tensors& in) -> Tensors {
         const auto branches = std::tuple([](const Tensor& x) { return sum(sin(x)); },
                                          [](const Tensor& x) { return sum(x * x); },
                                          [](const Tensor& x) { return prod(x); });
         Tensors results;
         for (const int64_t i : {-1, 0, 1, 2, 7}) {
           const auto f = [&](const Tensor& x) {
             return switch_case(full({}, i, i64), branches, x);
           };
           results.push_back(f(in[0]));
           results.push_back(grad(f)(in[0]));
         }
         return results;
       }},
      {"newton_by_while",
       {{}},
       [](const Tensors& in) -> Tensors { return {newton_root(square(in[0]) + 2)}; }},
      {"collatz",
       {{}},
       [](const Tensors& in) -> Tensors {
         const auto unfinished = [](const Pair& s) { return s.first != 1; };
         const auto step = [](const Pair& s) {
           const Tensor& n = s.first;
           return Pair(where(n % 2 == 0, n / 2, 3 * n + 1), s.second + 1);
         };
         const Tensor start = floor(in[0] * 0) + 27;
         const auto [last, steps] = while_loop(unfinished, step, Pair(start, number(0)));
         return {last, steps};
       }},
      {"factorial_by_fori",
       {{}},
       [](const Tensors& in) -> Tensors {
         const auto step = [](const Tensor& i, const Tensor& p) { return p * i.to(f64); };
         return {fori_loop(1, 11, step, in[0])};
       }},
      {"grad_of_fori",
       {{4}},
       [](const Tensors& in) -> Tensors {
         return {power_by_loop(in[0]),
                 grad([](const Tensor& x) { return sum(power_by_loop(x)); })(in[0])};
       }},
  };
}

std::vector<JaxProgram> scans() {
  return {
      {"cumsum_by_scan",
       {{6, 2}},
       [](const Tensors& in) -> Tensors {
         const auto step = [](const Tensor& total, const Tensor& x) {
           const Tensor next = total + x;
           return Pair(next, next);
         };
         const auto [last, sums] = scan(step, zeros({2}, f64), in[0]);
         return {last, sums};
       }},
      {"scan_in_reverse",
       {{6}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& rewards) {
           const auto step = [](const Tensor& value, const Tensor& r) {
             const Tensor next = r + 0.9 * value;
             return Pair(next, next);
           };
           return scan(step, number(0), rewards, {.reverse = true}).second;
         };
         return {f(in[0]), grad([&](const Tensor& r) { return sum(square(f(r))); })(in[0])};
       }},
      {"rnn",
       {{3, 3}, {3, 2}, {3}, {7, 2}},
       [](const Tensors& in) -> Tensors {
         const auto [value, gradients] =
             value_and_grad<0, 1, 2, 3>(rnn_loss)(in[0], in[1], in[2], in[3]);
         const auto& [w, u, h, xs] = gradients;
         return {value, w, u, h, xs};
       }},
      {"scan_of_structures",
       {{5, 2}, {5}},
       [](const Tensors& in) -> Tensors {
         using Xs = std::pair<Tensor, Tensor>;
         const auto f = [](const Tensor& a, const Tensor& b) {
           const auto step = [](const Pair& s, const Xs& x) {
             const Tensor first = s.first + x.first * s.second, second = s.second * cos(x.second);
             return std::pair(Pair(first, second), sum(first) * second);
           };
           const auto [last, ys] = scan(step, Pair(zeros({2}, f64), number(1)), Xs(a, b));
           return sum(last.first) + last.second + sum(square(ys));
         };
         const auto [a, b] = grad<0, 1>(f)(in[0], in[1]);
         return {f(in[0], in[1]), a, b};
       }},
      {"scan_without_inputs",
       {{}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& r) {
           const auto step = [&](const Tensor& x, std::tuple<>) {
             const Tensor next = r * x * (1 - x);
             return Pair(next, next);
           };
           return scan(step, number(0.3), std::tuple<>(), {.length = 8}).second;
         };
         const Tensor r = 2.5 + in[0] * 0.1;
         return {f(r), grad([&](const Tensor& t) { return sum(f(t)); })(r)};
       }},
      {"map",
       {{5, 3}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& xs) {
           return map([](const Tensor& x) { return softmax(x, 0) * sum(x); }, xs);
         };
         return {f(in[0]), grad([&](const Tensor& x) { return sum(square(f(x))); })(in[0])};
       }},
  };
}

std::vector<JaxProgram> nested() {
  return {
      {"scan_in_scan",
       {{3, 4}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& table) {
           const auto row = [](const Tensor& carry, const Tensor& xs) {
             const auto item = [](const Tensor& c, const Tensor& x) {
               const Tensor next = sin(c + x);
               return Pair(next, next * x);
             };
             const auto [last, ys] = scan(item, carry, xs);
             return Pair(last, sum(ys));
           };
           const auto [last, ys] = scan(row, number(0.1), table);
           return last * sum(ys);
         };
         return {f(in[0]), grad(f)(in[0])};
       }},
      {"cond_in_scan",
       {{6}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& xs) {
           const auto step = [](const Tensor& s, const Tensor& x) {
             const Tensor next = cond(x > 0, [&] { return s + x * x; }, [&] { return s * cos(x); });
             return Pair(next, next);
           };
           return sum(scan(step, number(1), xs).second);
         };
         return {f(in[0]), grad(f)(in[0])};
       }},
      {"while_in_scan",
       {{5}},
       [](const Tensors& in) -> Tensors {
         const auto step = [](const Tensor& s, const Tensor& x) {
           const Tensor root = newton_root(square(x) + 1);
           return Pair(s + root, root);
         };
         const auto [total, roots] = scan(step, number(0), in[0]);
         return {total, roots};
       }},
      {"integer_carry",
       {{6}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& xs) {
           const auto step = [](const Pair& s, const Tensor& x) {
             const Tensor count = s.first + 1;
             return std::pair(Pair(count, s.second + x / count.to(f64)), std::tuple<>());
           };
           return scan(step, Pair(full({}, 0, i64), number(0)), xs).first.second;
         };
         return {f(in[0]), grad(f)(in[0])};
       }},
      {"runge_kutta",
       {{2}, {}},
       [](const Tensors& in) -> Tensors {
         const Tensor stiffness = 1 + square(in[1]);
         const auto energy = [](const Tensor& s, const Tensor& k) {
           return sum(square(oscillator_end(s, k)));
         };
         const auto [by_start, by_stiffness] = grad<0, 1>(energy)(in[0], stiffness);
         return {oscillator_end(in[0], stiffness), by_start, by_stiffness};
       }},
  };
}

std::vector<JaxProgram> algorithms() {
  return {
      {"kalman",
       {{8}, {}},
       [](const Tensors& in) -> Tensors {
         const auto likelihood = [](const Tensor& zs, const Tensor& noise) {
           const auto step = [&](const Pair& s, const Tensor& z) {
             const Tensor spread = s.second + 0.1, total = spread + exp(noise);
             const Tensor gain = spread / total, off = z - s.first;
             return std::pair(Pair(s.first + gain * off, (1 - gain) * spread),
                              -0.5 * (log(total) + off * off / total));
           };
           return sum(scan(step, Pair(number(0), number(1)), zs).second);
         };
         const auto [by_zs, by_noise] = grad<0, 1>(likelihood)(in[0], in[1]);
         return {likelihood(in[0], in[1]), by_zs, by_noise};
       }},
      {"bisection",
       {{}},
       [](const Tensors& in) -> Tensors {
         const auto f = [&](const Tensor& x) { return x * x * x - 2 - square(in[0]); };
         const auto unfinished = [](const Pair& s) { return s.second - s.first > 1e-9; };
         const auto halve = [&](const Pair& s) {
           const Tensor middle = (s.first + s.second) / 2;
           const Tensor left = f(middle) > 0;
           return Pair(where(left, s.first, middle), where(left, middle, s.second));
         };
         const auto [low, high] = while_loop(unfinished, halve, Pair(number(0), number(4)));
         return {low, high};
       }},
      {"mandelbrot",
       {{5}, {5}},
       [](const Tensors& in) -> Tensors {
         using State = std::tuple<Tensor, Tensor, Tensor>;
         const auto step = [&](const Tensor&, const State& s) {
           const auto& [x, y, count] = s;
           const Tensor inside = x * x + y * y < 4;
           const Tensor next_x = x * x - y * y + in[0], next_y = 2 * x * y + in[1];
           return State(where(inside, next_x, x), where(inside, next_y, y), count + inside.to(f64));
         };
         const Tensor zero = zeros({5}, f64);
         return {std::get<2>(fori_loop(0, 30, step, State(zero, zero, zero)))};
       }},
      {"writes_in_bodies",
       {{4}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) {
           const Tensor table = x * 1;
           const auto step = [&](const Tensor& i, const Tensor& total) {
             table.add_(i.to(f64));
             table.select(0, 0).mul_(0.5);
             return total + sum(sin(table.clone()));
           };
           return fori_loop(0, 4, step, number(0));
         };
         return {f(in[0]), grad(f)(in[0])};
       }},
  };
}

std::vector<JaxProgram> transformed() {
  return {
      {"jvp_of_scan",
       {{3, 3}, {3, 2}, {3}, {7, 2}, {3, 3}},
       [](const Tensors& in) -> Tensors {
         const auto f = [&](const Tensor& w) { return rnn_loss(w, in[1], in[2], in[3]); };
         const auto [value, moved] = jvp(f, in[0], in[4]);
         return {value, moved};
       }},
      {"jvp_of_while",
       {{}, {}},
       [](const Tensors& in) -> Tensors {
         return {jvp(newton_root, square(in[0]) + 2, in[1]).tangent};
       }},
      {"jvp_of_cond",
       {{4}, {4}},
       [](const Tensors& in) -> Tensors {
         return {jvp(leaky, in[0], in[1]).tangent, jvp(leaky, -in[0], in[1]).tangent};
       }},
      {"hessian_of_scan",
       {{3}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) {
           const auto step = [&](const Tensor& s, const Tensor& t) {
             return Pair(sin(s * t) + t, s * s);
           };
           const auto [last, ys] = scan(step, number(0.5), x);
           return last * sum(ys);
         };
         return {hessian(f)(in[0])};
       }},
      {"hessian_of_cond",
       {{3}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& x) { return sum(leaky(x)); };
         return {hessian(f)(in[0]), hessian(f)(-in[0])};
       }},
      {"vmap_of_scan",
       {{4, 6}},
       [](const Tensors& in) -> Tensors {
         const auto f = [](const Tensor& xs) {
           const auto step = [](const Tensor& s, const Tensor& x) {
             const Tensor next = tanh(s + x);
             return Pair(next, next * x);
           };
           return scan(step, number(0.2), xs).second;
         };
         return {vmap(f)(in[0])};
       }},
      {"vmap_of_cond", {{6, 3}}, [](const Tensors& in) -> Tensors { return {vmap(leaky)(in[0])}; }},
      {"vmap_of_while",
       {{5}},
       [](const Tensors& in) -> Tensors { return {vmap(newton_root)(square(in[0]) + 1)}; }},
      {"per_sample_gradients_of_scan",
       {{3, 3}, {3, 2}, {3}, {4, 5, 2}},
       [](const Tensors& in) -> Tensors {
         const auto each =
             vmap(grad(rnn_loss), {.in_dims = {std::nullopt, std::nullopt, std::nullopt, 0}});
         return {each(in[0], in[1], in[2], in[3])};
       }},
  };
}

const std::vector<JaxProgram>& programs() {
  static const auto& all =
      *new auto(joined({branches_and_counts(), scans(), nested(), algorithms(), transformed()}));
  return all;
}

}  // namespace

std::span<const JaxProgram> control_flow_programs() { return programs(); }

}  // namespace tandem::testing
