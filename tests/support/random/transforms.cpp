#include "tests/support/random/transforms.h"

#include <fmt/format.h>
#include <tandem/tandem.h>

#include <functional>
#include <random>

#include "tests/support/check_compiled.h"

namespace tandem::testing {
namespace {

using Fn = std::function<Tensor(const Tensor&)>;

constexpr int64_t kNumbers = 3;

// --- functions of three numbers

Tensor by_branch(const Tensor& x) {
  return cond(x.sum() > 0, [&] { return sin(x) * x; }, [&] { return x * x * x; });
}

Tensor by_scan(const Tensor& x) {
  const auto [last, ys] = scan(
      [&](const Tensor& c, const Tensor& s) {
        const Tensor next = tanh(c * s + x);
        return std::pair(next, next * s);
      },
      x * 0.5, x);
  return last + ys.sum(0);
}

Tensor by_count(const Tensor& x) {
  return fori_loop(0, 3, [&](const Tensor& i, const Tensor& c) { return sin(c) * x + i * 0.1; }, x);
}

Tensor by_bound(const Tensor& x) {
  return while_loop([](const Tensor& c) { return (c * c).sum() < 5; },
                    [&](const Tensor& c) { return c * 1.5 + sin(x); }, x, {.max_steps = 4});
}

Tensor by_case(const Tensor& x) {
  return switch_case((x > 0).sum(),
                     std::tuple([](const Tensor& t) { return sin(t); },
                                [](const Tensor& t) { return t * t * t.sum(); },
                                [](const Tensor& t) { return exp(t * 0.5); }),
                     x);
}

Tensor by_element(const Tensor& x) {
  return map(
      [&](const Tensor& s) {
        return cond(s > 0, [&] { return s * s * x.sum(); }, [&] { return sin(s); });
      },
      x);
}

Tensor by_pairs(const Tensor& x) {
  return associative_scan(
             [](const std::pair<Tensor, Tensor>& a, const std::pair<Tensor, Tensor>& b) {
               return std::pair(a.first * b.first, b.first * a.second + b.second);
             },
             std::pair(x, sin(x)))
      .second;
}

Tensor by_writes(const Tensor& x) {
  Tensor y = x * 1;
  const Tensor z = fori_loop(
      0, 2,
      [&](const Tensor&, const Tensor& c) {
        y.mul_(x);
        return c * 0.5 + y;
      },
      x);
  return y + z;
}

Tensor without_control(const Tensor& x) { return x * sin(x) + x.sum() * tanh(x); }

struct Named {
  const char* name;
  Tensor (*fn)(const Tensor&);
};
constexpr Named kFunctions[] = {{"plain", without_control}, {"cond", by_branch},
                                {"scan", by_scan},          {"fori_loop", by_count},
                                {"while_loop", by_bound},   {"switch_case", by_case},
                                {"map", by_element},        {"associative_scan", by_pairs},
                                {"writes", by_writes}};

// --- what is made of them

Tensor weights(const Tensor& y, uint64_t seed) { return noise(y.sizes(), seed, f64); }
Tensor direction() { return noise({kNumbers}, 900, f64); }

Tensor along(const Fn& fn, const Tensor& x, const Tensor& v) { return jvp(fn, x, v).tangent; }

/// [output..., 3], a column at a time.
Tensor columns(const Fn& fn, const Tensor& x) {
  std::vector<Tensor> all;
  for (int64_t i = 0; i < kNumbers; ++i) {
    Tensor v = zeros({kNumbers}, f64);
    v[i].fill_(1);
    all.push_back(along(fn, x, v));
  }
  return stack(all, -1);
}

Fn weighed(const Fn& fn) {
  return [=](const Tensor& x) {
    const Tensor y = fn(x);
    return (y * weights(y, 901)).sum();
  };
}

Fn gradient(const Fn& fn) {
  return
      [=](const Tensor& x) { return grad([g = weighed(fn)](const Tensor& t) { return g(t); })(x); };
}

Fn pulled(const Fn& fn) {
  return [=](const Tensor& x) {
    const auto made = vjp(fn, x);
    return made.pullback(weights(made.output, 901));
  };
}

Fn of_examples(const Fn& fn) {
  return [=](const Tensor& x) {
    return vmap([fn](const Tensor& t) { return fn(t); })(stack({x, x * 2, x - 0.7}, 0));
  };
}

Fn one_by_one(const Fn& fn) {
  return [=](const Tensor& x) { return stack({fn(x), fn(x * 2), fn(x - 0.7)}, 0); };
}

template <class Wrap>
Fn wrapped(const Fn& fn, Wrap wrap) {
  return [=](const Tensor& x) { return wrap([fn](const Tensor& t) { return fn(t); })(x); };
}

struct Transform {
  const char* name;
  int order;
  Fn (*make)(const Fn&);
  Fn (*expected)(const Fn&);  // by duals and loops
};

Fn same(const Fn& fn) { return fn; }
Fn gradient_by_columns(const Fn& fn) {
  return [=](const Tensor& x) { return columns(weighed(fn), x); };
}
Fn moved(const Fn& fn) {
  return [=](const Tensor& x) { return along(fn, x, direction()); };
}
Fn all_columns(const Fn& fn) {
  return [=](const Tensor& x) { return columns(fn, x); };
}
Fn twice(const Fn& fn) { return all_columns(all_columns(weighed(fn))); }

const Transform kTransforms[] = {
    {"grad", 1, gradient, gradient_by_columns},
    {"vjp", 1, pulled, gradient_by_columns},
    {"jvp", 1, moved, moved},
    {"jacrev", 1, [](const Fn& fn) { return wrapped(fn, [](const auto& f) { return jacrev(f); }); },
     all_columns},
    {"jacfwd", 1, [](const Fn& fn) { return wrapped(fn, [](const auto& f) { return jacfwd(f); }); },
     all_columns},
    {"hessian", 2,
     [](const Fn& fn) { return wrapped(weighed(fn), [](const auto& f) { return hessian(f); }); },
     twice},
    {"vmap", 0, of_examples, one_by_one},
    {"compile", 0,
     [](const Fn& fn) { return wrapped(fn, [](const auto& f) { return compile(f); }); }, same},
    {"checkpoint", 0,
     [](const Fn& fn) { return wrapped(fn, [](const auto& f) { return checkpoint(f); }); }, same},
    {"functionalize", 0,
     [](const Fn& fn) { return wrapped(fn, [](const auto& f) { return functionalize(f); }); },
     same},
};

constexpr int kMostOrders = 3;

double largest_difference(const Tensor& expected, const Tensor& got) {
  return expected.numel() == 0 ? 0 : (expected - got).abs().max().item();
}

bool near(const Tensor& expected, const Tensor& got, double tolerance) {
  const double size = expected.numel() == 0 ? 0 : expected.abs().max().item();
  return largest_difference(expected, got) <= tolerance * (1 + size);
}

}  // namespace

GradientVerdict check_transforms(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const Named& base = kFunctions[draw(std::size(kFunctions))];
  Fn made = base.fn, expected = base.fn, last;
  std::string name = base.name;
  const size_t depth = 1 + draw(4);
  int orders = 0;
  for (size_t i = 0; i < depth; ++i) {
    const Transform& t = kTransforms[draw(std::size(kTransforms))];
    if (orders + t.order > kMostOrders) continue;
    orders += t.order;
    last = t.order == 1 ? expected : Fn();
    made = t.make(made);
    expected = t.expected(expected);
    name = fmt::format("{}({})", t.name, name);
  }
  const Tensor x = noise({kNumbers}, seed, f64) * 0.9 + 0.05;
  GradientVerdict verdict{true, ""};
  try {
    const Tensor want = expected(x), got = made(x);
    if (want.sizes() != got.sizes() || !near(want, got.detach(), 1e-8))
      verdict.difference = fmt::format(
          "seed {}: {}: {}", seed, name,
          want.sizes() != got.sizes()
              ? "sizes differ"
              : fmt::format("differs by {:.3g}", largest_difference(want, got.detach())));
    if (last && verdict.difference.empty()) {
      const Tensor v = direction();
      const Tensor slope = (last(x + v * 1e-5) - last(x - v * 1e-5)) / 2e-5;
      if (!near(slope, along(last, x, v), 1e-5))
        verdict.difference = fmt::format("seed {}: {}: off differences", seed, name);
    }
  } catch (const std::exception& e) {
    verdict.difference = fmt::format("seed {}: {}: {}", seed, name, e.what());
  }
  return verdict;
}

}  // namespace tandem::testing
