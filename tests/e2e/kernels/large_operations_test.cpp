// Operations on tensors so large that they run as compiled code, as they are on small ones: the
// results and gradients of a tensor are those of its parts, writes go where eager's go, and what is
// refused is refused in the same words. (The table of operators once more with all operations
// compiled: ops.compiled in tests/CMakeLists.txt.)
#include <tandem/tandem.h>

#include <cmath>
#include <limits>
#include <thread>

#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

constexpr int64_t kParts = 64, kPart = 1024;  // 64 parts are large, one is not

using Function = std::function<Tensor(const Tensor& x, const Tensor& y)>;

/// By how they lie in memory: [kParts, kPart].
std::vector<std::pair<const char*, Tensor>> layouts(DType dtype) {
  const auto of = [&](const Shape& sizes) { return noise(sizes, 3, dtype); };
  return {{"contiguous", of({kParts, kPart})},
          {"transposed", of({kPart, kParts}).T()},
          {"with gaps", of({kParts, kPart, 2}).select(2, 1)},
          {"at an offset", of({kParts + 1, kPart}).slice(0, 1)},
          {"expanded", of({1, kPart}).expand({kParts, kPart})}};
}

struct Outcome {
  Tensor result, x, y;  // and gradients
};

Outcome outcome(const Function& f, const Tensor& x, const Tensor& y, const Tensor& tangent) {
  const Tensor a = x.detach().requires_grad_(), b = y.detach().requires_grad_();
  const Tensor result = f(a, b);
  const Tensors gradients =
      grad({result}, {a, b}, {.grad_outputs = {tangent}, .allow_unused = true});
  const auto or_zeros = [](const Tensor& t, const Tensor& like) {
    return t.defined() ? t : zeros(like.sizes(), like.dtype());
  };
  return {result.detach(), or_zeros(gradients[0], a), or_zeros(gradients[1], b)};
}

/// Row by row, each of which is small.
Outcome by_parts(const Function& f, const Tensor& x, const Tensor& y, const Tensor& tangent) {
  std::vector<Tensor> results, xs, ys;
  for (int64_t i = 0; i < kParts; ++i) {
    const auto part = [&](const Tensor& t) { return t.slice(0, i, i + 1); };
    const Outcome o = outcome(f, part(x), part(y), part(tangent));
    results.push_back(o.result), xs.push_back(o.x), ys.push_back(o.y);
  }
  return {cat(results, 0), cat(xs, 0), cat(ys, 0)};
}

const std::vector<std::pair<const char*, Function>>& functions() {
  static const std::vector<std::pair<const char*, Function>> all{
      {"mul", [](const Tensor& x, const Tensor& y) { return x * y; }},
      {"times itself", [](const Tensor& x, const Tensor&) { return x * x; }},
      {"minus itself", [](const Tensor& x, const Tensor&) { return x - x; }},
      {"tanh", [](const Tensor& x, const Tensor&) { return tanh(x); }},
      {"gelu", [](const Tensor& x, const Tensor&) { return gelu(x); }},
      {"number", [](const Tensor& x, const Tensor&) { return 3 - x; }},
      {"where", [](const Tensor& x, const Tensor& y) { return where(x > 0, x, y); }},
      {"softmax", [](const Tensor& x, const Tensor&) { return softmax(x, 1); }},
      {"logsumexp", [](const Tensor& x, const Tensor&) { return logsumexp(x, {1}, true); }},
      {"layer norm", [](const Tensor& x, const Tensor&) { return layer_norm(x, {kPart}); }},
      {"var", [](const Tensor& x, const Tensor&) { return var(x, {1}, 1, true); }},
      {"cat", [](const Tensor& x, const Tensor& y) { return cat({x, y, x}, 1); }},
      {"flip", [](const Tensor& x, const Tensor&) { return flip(x, {1}); }},
      {"pad", [](const Tensor& x, const Tensor&) { return pad(x, {2, -1}, 0.5); }},
      {"select columns",
       [](const Tensor& x, const Tensor&) { return x.index_select(1, tensor({5, 0, 5, 1023})); }},
      {"max", [](const Tensor& x, const Tensor&) { return max(x, 1, true).values; }},
      {"roll", [](const Tensor& x, const Tensor&) { return roll(x, {100}, {1}); }},
      {"stack", [](const Tensor& x, const Tensor& y) { return stack({x, y, x}, 1); }},
      {"clamp", [](const Tensor& x, const Tensor&) { return clamp(x, -0.5, 0.25); }},
      {"maximum", [](const Tensor& x, const Tensor& y) { return maximum(x, y); }},
      {"topk", [](const Tensor& x, const Tensor&) { return topk(x, 16, 1).values; }},
      {"max_pool1d",
       [](const Tensor& x, const Tensor&) { return max_pool1d(x.unsqueeze(1), 3, {.stride = 2}); }},
  };
  return all;
}

TEST(LargeOperations, AreThoseOfTheirParts) {
  for (DType dtype : {f32, f64, bf16}) {
    const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : 2e-2;
    const Tensor y = noise({kParts, kPart}, 5, dtype);
    for (const auto& [name, f] : functions())
      for (const auto& [layout, x] : layouts(dtype)) {
        const std::string what = std::string(name) + ", " + layout + ", " + ir::name(dtype).data();
        const Tensor tangent = noise(f(x, y).sizes(), 7, dtype);
        const Outcome whole = outcome(f, x, y, tangent), parts = by_parts(f, x, y, tangent);
        expect_close(parts.result, whole.result, tolerance, what);
        expect_close(parts.x, whole.x, tolerance, what + ", gradient of x");
        expect_close(parts.y, whole.y, tolerance, what + ", gradient of y");
      }
  }
}

TEST(LargeOperations, WriteWhereTheyAreTold) {
  for (const auto& [layout, given] : layouts(f32)) {
    if (std::string(layout) == "expanded") continue;
    const Tensor before = given.clone(), other = noise({kParts, kPart}, 9);
    Tensor all = noise({kParts, 2 * kPart}, 11);
    const Tensor all_before = all.clone();
    const Tensor self = all.slice(1, 0, 2 * kPart, 2);  // what lies between stays
    self.copy_(given), self.mul_(other), self.sub_(self), self.add_(given), self.sigmoid_();
    expect_close(sigmoid(before), self, 1e-6, layout);
    EXPECT_TRUE(equal(all.slice(1, 1, 2 * kPart, 2), all_before.slice(1, 1, 2 * kPart, 2)));
    EXPECT_TRUE(equal(given, before));
  }
}

TEST(LargeOperations, ReadBeforeTheyWriteWhatOverlaps) {
  const int64_t n = 2 * kParts * kPart;
  const Tensor x = noise({n + 2}, 1), before = x.clone();
  const auto first = [&](const Tensor& t) { return t.slice(0, 0, n, 2); };  // with gaps, as ATen
  const auto second = [&](const Tensor& t) { return t.slice(0, 2, n + 2, 2); };
  second(x).add_(first(x));
  expect_close(second(before) + first(before), second(x), 1e-6, "shifted");
}

TEST(LargeOperations, RefuseInTheWordsOfSmallOnes) {
  const auto message = [](int64_t rows) {
    const Tensor table = zeros({rows, 64}), places = full({rows}, 7, i64);
    places[3].fill_(int64_t{1} << 20);
    std::string text = error_of([&] { embedding(table, places); }, Errc::Index);
    return text.substr(0, text.find(';'));
  };
  const std::string large = message(4096);
  EXPECT_NE(large.find("embedding"), std::string::npos) << large;
}

TEST(LargeOperations, DrawTheNumbersOfCompiledOnes) {
  const Tensor x = noise({kParts, kPart}, 1);
  const auto f = compile([](const Tensor& t) { return dropout(t, 0.3); });
  manual_seed(4);
  const Tensor eager = dropout(x, 0.3), next = rand({3});
  manual_seed(4);
  EXPECT_TRUE(equal(eager, f(x)));
  EXPECT_TRUE(equal(next, rand({3})));
}

TEST(LargeOperations, HaveDerivativesOfAnyOrder) {
  const auto second = [](const Tensor& given) {
    const Tensor x = given.detach().requires_grad_();
    const Tensor first = grad({tanh(x).sum()}, {x}, {.create_graph = true})[0];
    return grad({square(first).sum()}, {x})[0];
  };
  const Tensor x = noise({kParts, kPart}, 1, f64);
  expect_close(second(x.slice(0, 3, 4)), second(x).slice(0, 3, 4), 1e-12, "second");
}

// As ATen's: NaN is largest, and no sign of zero or order of what is equal is lost.
TEST(LargeOperations, ExtremesOfSpecialValues) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor few = tensor({0.0, -0.0, inf, -inf, nan, 1.5, -1.5, 1e-310});
  for (DType dtype : {f32, f64, bf16, f16}) {
    const Tensor x = few.to(dtype).unsqueeze(1).expand({8, 8}).reshape({64}).repeat({512});
    const Tensor y = few.to(dtype).repeat({8 * 512});
    const auto at = [&](const Tensor& t) { return t.slice(0, 0, 64); };
    for (bool greatest : {true, false}) {
      const auto f = [&](const Tensor& a, const Tensor& b) {
        return greatest ? maximum(a, b) : minimum(a, b);
      };
      const Tensor large = f(x, y), one = f(at(x), at(y));
      for (int64_t i = 0; i < 64; ++i) {
        const double a = large[i].item(), b = one[i].item();
        EXPECT_TRUE((std::isnan(a) && std::isnan(b)) ||
                    (a == b && std::signbit(a) == std::signbit(b)))
            << i << ": " << a << ", of few " << b;
      }
    }
  }
}

TEST(LargeOperations, FirstOfLongLinesAreThoseOfTheSort) {
  const auto check = [](const Tensor& x, const std::string& what) {
    for (bool largest : {true, false}) {
      const Tensor sorted = argsort(x, -1, largest, true);
      for (int64_t k : {1, 16, 300, 1000})
        EXPECT_TRUE(equal(topk(x, k, -1, largest).indices, sorted.narrow(-1, 0, k)))
            << what << (largest ? ", largest " : ", least ") << k;
    }
  };
  for (DType dtype : {f32, f64, bf16, i64, i32, u8}) {
    const std::string name(ir::name(dtype));
    const Tensor x = (noise({3, 5000}, 1, f64) * 100).to(dtype);
    check(x, name);
    check(floor(noise({3, 5000}, 2, f64) * 3).to(dtype), name + ", few values");
    check(sort(x).values, name + ", ascending");
    check(sort(x, -1, true).values, name + ", descending");
    check((noise({5000, 3}, 3, f64) * 100).to(dtype).T(), name + ", transposed");
  }
  Tensor special = noise({2, 3000}, 4);
  special.slice(1, 0, 3000, 7).fill_(std::nan(""));
  special.slice(1, 3, 3000, 5).fill_(-std::numeric_limits<double>::infinity());
  check(special, "NaN and infinities");
  check(full({2, 3000}, std::nan("")), "nothing but NaN");
}

TEST(LargeOperations, SumsAreThoseOfAnyNumberOfThreads) {
  for (int64_t n : {31, 1023, 1025, 32768, 32769, 100003, 300000}) {
    const Tensor x = noise({n}, 1), wide = noise({n, 3}, 2).select(1, 1),
                 square = noise({n, 2}, 3).T();
    for (const Tensor& t : {x, wide, square}) {
      set_num_threads(1);
      const double alone = t.sum().item();
      set_num_threads(2);
      EXPECT_EQ(t.sum().item(), alone) << n;
      EXPECT_NEAR(alone, t.to(f64).sum().item(), 1e-6 * static_cast<double>(n)) << n;
    }
  }
}

TEST(LargeOperations, RunInManyThreads) {
  const Tensor x = noise({kParts, kPart}, 1);
  const Tensor expected = softmax(x, 0);
  std::vector<Tensor> results(4);
  std::vector<std::thread> threads;
  for (Tensor& result : results) threads.emplace_back([&] { result = softmax(x * 1, 0); });
  for (std::thread& t : threads) t.join();
  for (const Tensor& result : results) EXPECT_TRUE(equal(expected, result));
}

}  // namespace
}  // namespace tandem::testing
