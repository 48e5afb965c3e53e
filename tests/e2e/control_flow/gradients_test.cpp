// Gradients of branches and scans: compiled against the tape of what eager ran, and against
// differences; nested, through writes, of parameters.
#include <gtest/gtest.h>
#include <tandem/graph.h>

#include "tests/e2e/control_flow/programs.h"

namespace tandem::testing {
namespace {

Tensor flag(bool value) { return full({}, value, DType::Bool); }

/// Gradients of a sum that weighs the results, by every floating argument.
Tensors gradients(const Program& program, const Tensors& given) {
  Tensors args, leaves;
  for (const Tensor& t : given) {
    args.push_back(t.clone());
    if (is_floating(t.dtype())) leaves.push_back(args.back().requires_grad_());
  }
  Tensor total = zeros({}, f64);
  uint64_t seed = 100;
  for (const Tensor& y : program(args)) total = total + (y * noise(y.sizes(), ++seed, f64)).sum();
  return grad({total}, leaves, {.allow_unused = true});
}

double weighed(const Program& program, const Tensors& args) {
  double total = 0;
  uint64_t seed = 100;
  for (const Tensor& y : program(args)) total += (y * noise(y.sizes(), ++seed, f64)).sum().item();
  return total;
}

/// Arguments of f64: eager, compiled and inside a compiled step agree, and with differences.
void check_gradients(const Example& example) {
  const auto& [program, args] = example;
  const Tensors expected = gradients(program, args);
  const auto compiled = compile([&](const Tensors& t) { return program(t); });
  const auto whole = compile([&](const Tensors& t) {
    Tensors all = gradients(program, t);
    for (Tensor& g : all)
      if (!g.defined()) g = zeros({});
    return all;
  });
  const Tensors got = gradients([&](const Tensors& t) { return compiled(t); }, args);
  const Tensors inside = whole(args);
  size_t leaf = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!is_floating(args[i].dtype())) continue;
    const Tensor zero = zeros_like(args[i]), along = noise(args[i].sizes(), 50 + i, f64);
    const auto or_zero = [&](const Tensor& g) {
      return g.defined() && g.sizes() == zero.sizes() ? g : zero;
    };
    const Tensor g = or_zero(expected[leaf]);
    expect_close(g, or_zero(got[leaf]), 1e-11, "compiled " + std::to_string(i));
    expect_close(g, or_zero(inside[leaf]), 1e-11, "whole " + std::to_string(i));
    ++leaf;
    Tensors low = args, high = args;
    low[i] = args[i] - along * 1e-6;
    high[i] = args[i] + along * 1e-6;
    const double slope = (weighed(program, high) - weighed(program, low)) / 2e-6;
    EXPECT_NEAR((g * along).sum().item(), slope, 1e-6 * (1 + std::abs(slope))) << i;
  }
}

TEST(ControlFlowGradients, OfTheBranchTaken) {
  const Program program = [](const Tensors& t) {
    return Tensors{cond(
        t[0], [&](const Tensor& x) { return sin(x) * t[2]; }, [](const Tensor& x) { return x * x; },
        t[1])};
  };
  for (const bool taken : {true, false})
    check_gradients({program, {flag(taken), noise({3, 2}, 1, f64), noise({2}, 2, f64)}});
}

TEST(ControlFlowGradients, OfWrittenTensors) {
  const Program program = [](const Tensors& t) {
    Tensor x = t[1] * 2;
    const Tensor y = cond(
        t[0],
        [&] {
          x[0].mul_(t[2]);
          return x.sum();
        },
        [&] { return t[2].sum(); });
    return Tensors{y, x * x};
  };
  for (const bool taken : {true, false})
    check_gradients({program, {flag(taken), noise({3, 2}, 1, f64), noise({2}, 2, f64)}});
}

TEST(ControlFlowGradients, OfScans) {
  for (const bool reverse : {false, true})
    for (const int64_t length : {0, 1, 4}) check_gradients(counted_scan(length, reverse));
}

TEST(ControlFlowGradients, OfWritesInScans) { check_gradients(writes()); }

TEST(ControlFlowGradients, OfNestedLoopsAndBranches) { check_gradients(nested_loops()); }

TEST(ControlFlowGradients, OfBranchesAndLoopsThirtyDeep) {
  const std::function<Tensor(int, const Tensor&)> nested = [&](int depth, const Tensor& x) {
    if (depth == 0) return sin(x);
    if (depth % 8 == 0)
      return map([&](const Tensor& row) { return nested(depth - 1, row); }, x.unsqueeze(0))
          .squeeze(0);
    return cond(sum(x) > -100, [&] { return nested(depth - 1, x * 1.01); }, [&] { return x * 2; });
  };
  check_gradients(
      {[&](const Tensors& t) { return Tensors{nested(30, t[0])}; }, {noise({3}, 1, f64)}});
}

TEST(ControlFlowGradients, OfProducts) { check_gradients(cells()); }

/// A body meets a view from outside after it wrote the view's base, or before.
TEST(ControlFlowGradients, OfViewsWhoseBaseABodyWrites) {
  const auto program = [](const Tensors& t) {
    Tensor base = zeros({2, 2}, f64);
    const auto step = [&](const Tensor& c, const Tensor& x) {
      Tensor view = base.t();
      const Tensor y = cond(
          t[0],
          [&] {
            base.add_(x);
            return fori_loop(
                0, 2,
                [&](const Tensor&, const Tensor& v) {
                  view.add_(view);
                  return v + view;
                },
                c);
          },
          [&] {  // (the view is met before, and not again)
            const Tensor before = view * 1;
            base.add_(x);
            return before + sin(c);
          });
      return std::pair(y, y.sum());
    };
    const auto [last, ys] = scan(step, t[1], t[2]);
    return Tensors{last, ys, base};
  };
  for (const bool taken : {true, false})
    check_gradients({program, {flag(taken), noise({2, 2}, 1, f64), noise({2, 2, 2}, 2, f64)}});
}

/// Counters beside what is differentiated: as eagerly they have no history, be they results,
/// carries or written, and a second call finds none.
TEST(ControlFlowGradients, ReachWhatDependsOnAnOperandAlone) {
  const Tensor state = zeros({2}, f64);
  const auto count_in_branch = [&](const Tensor& x) {
    const Tensor y = x * 1;
    cond(x.sum() > 0, [&] { y.mul_(2), state.add_(1); }, [&] { state.sub_(y.detach()); });
    return Tensors{y};
  };
  const auto flag_of_branch = [&](const Tensor& x) {
    const auto [y, taken] = cond(
        x.sum() > 0, [&] { return std::pair(x * 2, ones({2}, f64)); },
        [&] { return std::pair(x * 3, zeros({2}, f64)); });
    state.copy_(taken);
    return Tensors{y, taken};
  };
  const auto count_steps = [&](const Tensor& x) {
    using Carry = std::tuple<Tensor, Tensor, Tensor>;
    const auto step = [](const Carry& c, const Tensor& t) {
      const auto& [steps, product, late] = c;  // `late` is what `product` was
      return std::pair(Carry(steps + 1, product * t, product * 2), steps * 2);
    };
    const auto [last, ys] =
        scan(step, Carry(zeros({2}, f64), ones({2}, f64), ones({2}, f64)), x.expand({3, 2}));
    state.copy_(std::get<0>(last));
    return Tensors{std::get<1>(last), std::get<2>(last), ys};
  };
  const auto count_in_nested = [&](const Tensor& x) {
    const auto step = [&](const Tensor& c, const Tensor& t) {
      const Tensor n = cond(t.sum() > 0, [&] { return c + 1; }, [&] { return c * 1; });
      return std::pair(n, t * 2);
    };
    const auto [last, ys] = scan(step, zeros({2}, f64), x.expand({3, 2}));
    return Tensors{last, ys};
  };
  const std::vector<std::function<Tensors(const Tensor&)>> programs{count_in_branch, flag_of_branch,
                                                                    count_steps, count_in_nested};
  for (size_t i = 0; i < programs.size(); ++i) {
    SCOPED_TRACE(i);
    const auto compiled = compile(programs[i]);
    for (const double value : {1.0, -1.0, 2.0}) {
      const Tensor eager = full({2}, value, f64).requires_grad_(), x = full({2}, value, f64);
      x.requires_grad_();
      state.fill_(0);
      const Tensors expected = programs[i](eager);
      EXPECT_FALSE(state.requires_grad());
      const Tensor counted = state.clone();
      state.fill_(0);
      const Tensors got = compiled(x);
      EXPECT_FALSE(state.requires_grad());
      EXPECT_TRUE(counted.equal(state));
      Tensor loss = zeros({}, f64), expected_loss = loss;
      for (size_t k = 0; k < got.size(); ++k) {
        EXPECT_EQ(expected[k].requires_grad(), got[k].requires_grad()) << k;
        EXPECT_TRUE(expected[k].detach().equal(got[k].detach())) << k;
        loss = loss + sin(got[k]).sum();
        expected_loss = expected_loss + sin(expected[k]).sum();
      }
      loss.backward();
      expected_loss.backward();
      expect_close(eager.grad(), x.grad(), 1e-12, "gradient");
    }
  }
}

TEST(ControlFlowGradients, NoneUnderNoGrad) {
  check_gradients({[](const Tensors& t) {
                     const auto [last, ys] = scan(
                         [&](const Tensor& c, const Tensor& x) {
                           const Tensor kept = c * x;
                           const NoGrad no_grad;
                           return std::pair(kept, x * 2);
                         },
                         t[0], t[1]);
                     EXPECT_EQ(ys.sizes(), t[1].sizes());
                     return Tensors{last};
                   },
                   {noise({3}, 1, f64), noise({2, 3}, 2, f64)}});
}

struct Cell {
  nn::Linear x{3, 16}, h{4, 16};
  TANDEM_FIELDS(Cell, x, h)
  std::pair<Tensor, Tensor> operator()(const Tensor& in, const Tensor& hidden,
                                       const Tensor& cell) const {
    const auto gates = chunk(x(in) + h(hidden), 4, 1);
    const Tensor next = sigmoid(gates[1]) * cell + sigmoid(gates[0]) * tanh(gates[2]);
    return {sigmoid(gates[3]) * tanh(next), next};
  }
};

TEST(ControlFlowGradients, OfAnLstmCellAsUnrolled) {
  manual_seed(1);
  Cell cell;
  const Tensor xs = noise({5, 2, 3}, 1);
  using State = std::pair<Tensor, Tensor>;
  const auto scanned = compile([](const Cell& c, const Tensor& x) {
    const auto [last, ys] = scan(
        [&](const State& s, const Tensor& in) {
          const State next = c(in, s.first, s.second);
          return std::pair(next, next.first);
        },
        State(zeros({2, 4}), zeros({2, 4})), x);
    return (ys * ys).sum() + last.second.sum();
  });
  const auto unrolled = [](const Cell& c, const Tensor& x) {
    State s(zeros({2, 4}), zeros({2, 4}));
    Tensor total = zeros({});
    for (int64_t t = 0; t < 5; ++t) {
      s = c(x[t], s.first, s.second);
      total = total + (s.first * s.first).sum();
    }
    return total + s.second.sum();
  };
  const auto parameters = nn::parameters(cell);
  const Tensor expected = unrolled(cell, xs), got = scanned(cell, xs);
  expect_close(expected.detach(), got.detach(), 1e-5, "loss");
  const auto a = grad({expected}, parameters), b = grad({got}, parameters);
  for (size_t i = 0; i < a.size(); ++i) expect_close(a[i], b[i], 1e-5, std::to_string(i));
}

TEST(ControlFlowGradients, RandomBodiesDrawTheSameAgain) {
  const auto fn = [](const Tensor& x) {
    return scan(
               [](const Tensor& c, const Tensor& v) {
                 const Tensor next = c + dropout(v, 0.5);
                 return std::pair(next, next * v);
               },
               zeros({8}), x)
        .second;
  };
  const auto run = [&](const auto& f) {
    manual_seed(4);
    const Tensor x = noise({3, 8}, 1).requires_grad_();
    return grad({f(x).sum()}, {x})[0];
  };
  expect_close(run(fn), run(compile(fn)), 1e-6, "gradient");
}

/// Where memory is bounded: chunks of steps, and what is left over.
TEST(ControlFlowGradients, OfCheckpointedScans) {
  const Program program = [](const Tensors& t) {
    Tensor counted = zeros({2}, f64);
    const auto body = [&](const Tensor& c, const Tensor& x) {
      counted.add_(x.detach());
      const Tensor next = sin(c * t[2]) + dropout(x, 0.5);
      return std::pair(next, next * x);
    };
    const auto [last, ys] = scan(body, t[0], t[1]);
    const auto [first, zs] = scan(body, last, t[1], {.reverse = true});
    return Tensors{first, ys, zs, counted};
  };
  for (const int64_t steps : {2, 9, 11, 16}) {
    const Tensors args = {noise({2}, 1, f64), noise({steps, 2}, 2, f64), noise({2}, 3, f64)};
    const auto compiled =
        compile([&](const Tensors& t) { return program(t); }, {.memory_budget = 0});
    manual_seed(2);
    const Tensors expected = gradients(program, args);
    manual_seed(2);
    const Tensors got = gradients([&](const Tensors& t) { return compiled(t); }, args);
    for (size_t i = 0; i < got.size(); ++i)
      expect_close(expected[i], got[i], 1e-11, std::to_string(i));
  }
}

TEST(ControlFlowGradients, CheckpointedScansKeepTheCarriesOfFewSteps) {
  const auto saved = [](double budget, int64_t steps) {
    const auto f = compile(
        [](const Tensor& x) {
          const auto body = [](const Tensor& c, const Tensor& v) {
            return std::pair(sin(c + v), std::tuple<>());
          };
          return scan(body, zeros({64}), x).first.sum();
        },
        {.memory_budget = budget});
    const Tensor x = noise({steps, 1}, 1).requires_grad_();
    f(x).backward();
    return f.graphs(x).partition.saved_bytes;
  };
  EXPECT_GE(saved(1, 256), 256 * 64 * 4);
  EXPECT_LE(saved(0, 256), (16 + 1) * 64 * 4 + 256 * 4);
}

}  // namespace
}  // namespace tandem::testing
