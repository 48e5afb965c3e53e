// Branches and loops: eager and compiled give the same, and write the same to what they captured.
#include <gtest/gtest.h>
#include <tandem/graph.h>

#include <cmath>

#include "tests/support/check_compiled.h"

namespace tandem::testing {
namespace {

Tensor flag(bool value) { return full({}, value, DType::Bool); }
Tensor number(double value, DType dtype = f32) { return full({}, value, dtype); }

/// Also by the interpreter.
void check(const Program& program, const std::function<Tensors()>& inputs, double tolerance = 0) {
  for (const char* backend : {"jit", "interpreter"})
    check_compiled(program, inputs, {.tolerance = tolerance, .backend = backend_named(backend)});
}

// --- cond

TEST(Cond, TakesOneBranch) {
  const Program program = [](const Tensors& t) {
    return Tensors{cond(
        t[0], [&](const Tensor& x) { return x * 2 + t[2]; }, [](const Tensor& x) { return x - 1; },
        t[1])};
  };
  for (const bool taken : {true, false})
    check(program, [=] { return Tensors{flag(taken), noise({3, 2}, 1), number(3)}; });
}

TEST(Cond, BranchesWriteWhatTheyCapture) {
  const Program program = [](const Tensors& t) {
    Tensor x = t[1];
    cond(t[0], [&] { x.mul_(2); }, [&] { x[0].fill_(7); });
    return Tensors{x + 1};
  };
  for (const bool taken : {true, false})
    check(program, [=] { return Tensors{flag(taken), noise({3, 2}, 1)}; });
}

TEST(Cond, OneBranchWrites) {
  const Program program = [](const Tensors& t) {
    const Tensor x = t[1].clone();
    const Tensor y = cond(
        t[0],
        [&] {
          Tensor row = x[1];
          row.add_(t[2]);
          return row * 2;
        },
        [&] { return t[2] * 1; });
    return Tensors{y, x};
  };
  for (const bool taken : {true, false})
    check(program, [=] { return Tensors{flag(taken), noise({3, 2}, 1), noise({2}, 2)}; });
}

/// (How often an argument was written is not known before: the contents are what counts.)
TEST(Cond, WritesArguments) {
  const auto fn = [](const Tensor& pred, Tensor& x, Tensor& y) {
    cond(pred, [&] { x.add_(1).mul_(2); }, [&] { y[0].copy_(x[0]); });
  };
  const auto compiled = compile(fn);
  for (const bool taken : {true, false}) {
    Tensor x[] = {noise({2, 3}, 1), noise({2, 3}, 1)}, y[] = {noise({2, 3}, 2), noise({2, 3}, 2)};
    fn(flag(taken), x[0], y[0]);
    compiled(flag(taken), x[1], y[1]);
    expect_close(x[0], x[1], 0, "x");
    expect_close(y[0], y[1], 0, "y");
  }
}

TEST(Cond, ResultsAreTensorsOfTheirOwn) {
  const Program program = [](const Tensors& t) {
    Tensor y = cond(t[0], [&] { return t[1]; }, [&] { return t[1].t(); });
    y.add_(1);
    return Tensors{y};
  };
  for (const bool taken : {true, false})
    check(program, [=] { return Tensors{flag(taken), noise({2, 2}, 1)}; });
}

TEST(Cond, Nests) {
  const Program program = [](const Tensors& t) {
    const Tensor& x = t[1];
    return Tensors{cond(
        t[0], [&] { return cond(sum(x) > 0, [&] { return x + 1; }, [&] { return x - 1; }); },
        [&] { return x * t[2]; })};
  };
  for (const bool taken : {true, false})
    for (const double offset : {-4.0, 4.0})
      check(program, [=] { return Tensors{flag(taken), noise({5}, 1) + offset, noise({5}, 2)}; });
}

TEST(Cond, SeesWritesThroughViewsMadeInABranch) {
  const Program program = [](const Tensors& t) {
    const Tensor x = t[1];
    const Tensor y = cond(
        t[0],
        [&] {
          const Tensor view = x.t();
          cond(t[2], [&] { x[0].mul_(view[1]); }, [&] { x.add_(t[3]); });
          return view * x;
        },
        [&] { return x + 1; });
    return Tensors{y, x + y};
  };
  for (const bool inner : {true, false})
    check(program,
          [=] { return Tensors{flag(true), noise({3, 3}, 1), flag(inner), noise({3, 3}, 2)}; });
}

TEST(Cond, OfStructures) {
  struct Pair {
    Tensor a, b;
    int kind = 3;
    TANDEM_FIELDS(Pair, a, b, kind)
  };
  const Program program = [](const Tensors& t) {
    const Pair p =
        cond(t[0], [&] { return Pair{t[1] + 1, t[1] > 0}; }, [&] { return Pair{t[1], t[1] < 0}; });
    EXPECT_EQ(p.kind, 3);
    return Tensors{p.a, p.b};
  };
  check(program, [=] { return Tensors{number(0.5), noise({4}, 1)}; });
}

TEST(SwitchCase, TakesTheNearest) {
  const Program program = [](const Tensors& t) {
    const std::tuple branches{[](const Tensor& x) { return x + 1; },
                              [](const Tensor& x) { return x * 2; },
                              [](const Tensor& x) { return -x; }};
    return Tensors{switch_case(t[0], branches, t[1])};
  };
  for (const int64_t index : {-5, 0, 1, 2, 9})
    check(program, [=] { return Tensors{full({}, index, DType::I64), noise({4}, 1)}; });
}

// --- while_loop

TEST(WhileLoop, GoesAroundAsOftenAsDataSays) {
  const auto fn = [](const Tensor& n, const Tensor& x) {
    return while_loop([&](const std::pair<Tensor, Tensor>& c) { return c.first < n; },
                      [](const std::pair<Tensor, Tensor>& c) {
                        return std::pair(c.first + 1, c.second * 1.5 + 1);
                      },
                      std::pair(full({}, 0, DType::I64), x))
        .second;
  };
  const auto compiled = compile(fn);
  const size_t before = compiled_graphs().size();
  for (const int64_t n : {0, 1, 2, 7}) {
    const Tensor count = full({}, n, DType::I64), x = noise({3}, 1);
    EXPECT_TRUE(equal(compiled(count, x), fn(count, x))) << n;
  }
  EXPECT_EQ(compiled_graphs().size(), before + 1);
}

TEST(WhileLoop, NewtonConverges) {
  const Program program = [](const Tensors& t) {
    const auto root =
        while_loop([&](const Tensor& x) { return amax(abs(x * x - t[0])) > 1e-12; },
                   [&](const Tensor& x) { return (x + t[0] / x) / 2; }, ones_like(t[0]));
    return Tensors{root};
  };
  const auto inputs = [] { return Tensors{abs(noise({6}, 1, f64)) + 0.1}; };
  check(program, inputs, 1e-12);
  expect_close(sqrt(inputs()[0]), program(inputs())[0], 1e-12, "root");
}

TEST(WhileLoop, WritesWhatItCaptures) {
  const Program program = [](const Tensors& t) {
    Tensor log = t[1].clone();
    const Tensor n = while_loop([&](const Tensor& i) { return i < t[0]; },
                                [&](const Tensor& i) {
                                  log.index_add_(0, reshape(i, {1}), ones({1}));
                                  log.mul_(2);
                                  return i.add_(1);
                                },
                                full({}, 0, DType::I64));
    return Tensors{n, log};
  };
  for (const int64_t n : {0, 1, 3})
    check(program, [=] { return Tensors{full({}, n, DType::I64), noise({4}, 1)}; });
}

// --- scan

TEST(Scan, IsALoopOverSlices) {
  const Program program = [](const Tensors& t) {
    const auto [last, ys] = scan(
        [&](const Tensor& c, const Tensor& x) {
          const Tensor next = c * t[2] + x;
          return std::pair(next, next * next);
        },
        t[0], t[1]);
    return Tensors{last, ys};
  };
  for (const int64_t length : {0, 1, 2, 5})
    check(
        program, [=] { return Tensors{noise({3}, 1), noise({length, 3}, 2), noise({3}, 3)}; },
        1e-6);
}

/// A loop brings what its steps multiply with into order once; the steps alone do so each time.
TEST(Scan, ProductsHaveTheBitsOfTheStepsAlone) {
  for (const bool transposed : {false, true})
    for (const int64_t rows : {32, 200}) {
      const Tensor w = noise({80, 80}, 1) * 0.1, x = noise({5, rows, 80}, 2);
      const auto steps = [&](const Tensor& start, const Tensor& xs) {
        return scan(
                   [&](const Tensor& h, const Tensor& now) {
                     const Tensor next = matmul(h, transposed ? w.t() : w) + now;
                     return std::pair(next, next);
                   },
                   start, xs)
            .second;
      };
      expect_close(steps(x[0], x), compile(steps)(x[0], x), 0, "results of all steps");
    }
}

// (Weights that all steps read are packed once: here in panels of several widths.)
TEST(Scan, ReadsWideWeightsOfFewRows) {
  for (const int64_t width : {1024, 1072, 2032}) {
    check(
        [](const Tensors& t) {
          const auto [last, ys] = scan(
              [&](const Tensor& c, const Tensor& x) {
                const Tensor y = c + matmul(x, t[2]);
                return std::pair(y, y.sum());
              },
              t[0], t[1]);
          return Tensors{last, ys};
        },
        [=] { return Tensors{noise({3, width}, 1), noise({4, 3, 5}, 2), noise({5, width}, 3)}; },
        1e-6);
  }
}

TEST(Scan, InReverseOverViews) {
  const Program program = [](const Tensors& t) {
    const auto [last, ys] = scan(
        [](const Tensor& c, const std::pair<Tensor, Tensor>& x) {
          return std::pair(c + x.first, std::pair(x.second - c, c));
        },
        t[0], std::pair(t[1].t(), t[2]), {.reverse = true});
    return Tensors{last, ys.first, ys.second};
  };
  check(program, [] { return Tensors{noise({2}, 1), noise({2, 4}, 2), noise({4, 2}, 3)}; });
}

TEST(Scan, MutatesLocalsCarriesAndCapturedTensors) {
  const Program program = [](const Tensors& t) {
    Tensor total = t[2].clone();
    const auto [last, ys] = scan(
        [&](const Tensor& c, const Tensor& x) {
          c.add_(x);
          x.zero_();
          total.add_(c);
          Tensor local = c * 1;
          local[0].fill_(5);
          return std::pair(c, local);
        },
        t[0], t[1]);
    return Tensors{last, ys, total};
  };
  for (const int64_t length : {0, 1, 4})
    check(program, [=] { return Tensors{noise({3}, 1), noise({length, 3}, 2), noise({3}, 3)}; });
}

TEST(Scan, SwapsCarriesAndGivesThemOn) {
  const Program program = [](const Tensors& t) {
    using Two = std::pair<Tensor, Tensor>;
    const auto [last, ys] = scan(
        [&](const Two& c, const Tensor&) { return std::pair(Two(c.second, c.first), c.first); },
        Two(t[0], t[1]), t[2]);
    return Tensors{last.first, last.second, ys};
  };
  for (const int64_t length : {1, 2, 3})
    check(program, [=] { return Tensors{noise({3}, 1), noise({3}, 2), zeros({length, 0})}; });
}

TEST(Scan, OfEmptyTensorsAndEveryDType) {
  const Program program = [](const Tensors& t) {
    const auto [last, ys] =
        scan([](const Tensor& c, const Tensor& x) { return std::pair(c + x, x); }, t[0], t[1]);
    return Tensors{last, ys};
  };
  check(program, [] { return Tensors{zeros({0, 2}), zeros({3, 0, 2})}; });
  for (const DType dtype : {f64, bf16, f16, i64, i32, i16, i8, u8})
    check(program,
          [=] { return Tensors{(noise({3}, 1) * 5).to(dtype), (noise({4, 3}, 2) * 5).to(dtype)}; });
}

TEST(Scan, DrawsAsEager) {
  const Program program = [](const Tensors& t) {
    const Tensor before = randn({3});
    const auto [last, ys] = scan(
        [](const Tensor& c, const Tensor& x) {
          const Tensor next = c + randn({3}) * x + rand({5})[0];
          return std::pair(next, rand({2}));
        },
        t[0], t[1]);
    return Tensors{before, last, ys, randn({3})};
  };
  const auto run = [&](const auto& fn) {
    manual_seed(3);
    return fn(Tensors{noise({3}, 1), noise({4, 3}, 2)});
  };
  const Tensors eager = run(program), compiled = run(compile(program));
  for (size_t i = 0; i < eager.size(); ++i)
    expect_close(eager[i], compiled[i], 1e-6, std::to_string(i));
}

TEST(WhileLoop, DrawsFromAGenerator) {
  const auto run = [](bool compiled) {
    Generator generator(5);
    const auto fn = [&](const Tensor& n, const Tensor& x) {
      return while_loop([&](const std::pair<Tensor, Tensor>& c) { return c.first < n; },
                        [&](const std::pair<Tensor, Tensor>& c) {
                          return std::pair(c.first + 1, c.second + randn({3}, generator));
                        },
                        std::pair(full({}, 0, DType::I64), x))
          .second;
    };
    const Tensor n = full({}, 3, DType::I64), x = noise({3}, 1);
    const Tensor y = compiled ? compile(fn)(n, x) : fn(n, x);
    return Tensors{y, randn({3}, generator)};
  };
  const Tensors eager = run(false), compiled = run(true);
  for (size_t i = 0; i < 2; ++i) expect_close(eager[i], compiled[i], 1e-6, std::to_string(i));
}

TEST(ForiLoop, CountsWithNumbersAndWithData) {
  const Program program = [](const Tensors& t) {
    const auto body = [](const Tensor& i, const Tensor& x) { return x * 2 + i; };
    return Tensors{fori_loop(2, 6, body, t[1]), fori_loop(2, t[0], body, t[1]),
                   fori_loop(3, 3, body, t[1])};
  };
  for (const int64_t n : {1, 5})
    check(program, [=] { return Tensors{full({}, n, DType::I64), noise({3}, 1)}; });
}

TEST(Map, StacksWhatTheFunctionGives) {
  const Program program = [](const Tensors& t) {
    const auto ys = map([&](const Tensor& x) { return std::pair(x.sum(), matmul(x, t[1])); }, t[0]);
    return Tensors{ys.first, ys.second};
  };
  check(program, [] { return Tensors{noise({4, 2, 3}, 1), noise({3, 2}, 2)}; }, 1e-6);
}

TEST(Loops, NestInEachOther) {
  const Program program = [](const Tensors& t) {
    const auto [last, ys] = scan(
        [&](const Tensor& c, const Tensor& row) {
          const Tensor inner = fori_loop(
              0, 3,
              [&](const Tensor& i, const Tensor& v) {
                return cond(i < t[2], [&] { return v + row; }, [&] { return v * 0.5; });
              },
              c);
          const Tensor halved = while_loop([](const Tensor& v) { return amax(abs(v)) > 1; },
                                           [](const Tensor& v) { return v / 2; }, inner);
          return std::pair(halved, inner);
        },
        t[0], t[1]);
    return Tensors{last, ys};
  };
  check(program,
        [] { return Tensors{noise({3}, 1), noise({4, 3}, 2) * 5, full({}, 2, DType::I64)}; });
}

TEST(Loops, LargeBodiesRunOnAllThreads) {
  const auto fn = [](const Tensor& x, const Tensor& w) {
    return fori_loop(
        0, 5, [&](const Tensor&, const Tensor& v) { return tanh(matmul(v, w)) + softmax(v, 1); },
        x);
  };
  const auto compiled = compile(fn);
  const Tensor x = noise({64, 256}, 1), w = noise({256, 256}, 2) * 0.1;
  const Tensor y = compiled(x, w);
  expect_close(fn(x, w), y, 1e-5, "eager");
  const int threads = num_threads();
  set_num_threads(1);
  EXPECT_TRUE(equal(compiled(x, w), y));
  set_num_threads(threads);
}

}  // namespace
}  // namespace tandem::testing
