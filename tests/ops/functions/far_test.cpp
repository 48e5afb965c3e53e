// Tensors whose elements lie billions of elements apart, in memory that is reserved and hardly
// touched: no stride, offset or size of the memory fits 32 bits. Against the same elements side by
// side, eager and compiled, with gradients; what is written lands where it belongs.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <tandem/tandem.h>

#include "tests/support/check_compiled.h"

namespace tandem::testing {
namespace {

constexpr int64_t kFar = (int64_t{1} << 31) + 11;

/// Zeros that take no memory until they are written.
Tensor reserved(int64_t elements) {
  const size_t bytes = static_cast<size_t>(elements) * sizeof(float);
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT_NE(data, MAP_FAILED);
  madvise(data, bytes, MADV_NOHUGEPAGE);
  return from_blob(data, {elements}, {1}, f32, [bytes](void* p) { munmap(p, bytes); });
}

enum class Step : uint8_t { Rows, Columns, Both, Neither };

/// The elements of a matrix, rows or columns or both of them far apart, or all of them far from the
/// beginning of the memory.
Tensor far_away(const Tensor& x, Step step) {
  const int64_t rows = x.size(0), columns = x.size(1);
  Strides strides{columns, 1};
  if (step == Step::Rows) strides = {kFar, 1};
  if (step == Step::Columns) strides = {1, kFar};
  if (step == Step::Both) strides = {kFar * columns, kFar};
  const int64_t offset = step == Step::Neither ? 4 * kFar : 3;
  const int64_t reach =
      offset + (rows - 1) * int64_t{strides[0]} + (columns - 1) * int64_t{strides[1]} + 1;
  const Tensor all = reserved(reach).as_strided(x.sizes(), strides, offset);
  all.copy_(x);
  return all;
}

using Fn = Tensor (*)(const Tensor&);
struct Function {
  const char* name;
  Fn call;
};

Tensor positions() { return tensor({2, 0, 2}); }

const Function kFunctions[] = {
    {"arithmetic", [](const Tensor& x) { return exp(x) * 2 - x; }},
    {"transposed", [](const Tensor& x) { return x.t().contiguous(); }},
    {"cat", [](const Tensor& x) { return cat({x, x.flip({0})}, 1); }},
    {"sum", [](const Tensor& x) { return sum(x) + sum(x, {0}) * sum(x, {1}, true); }},
    {"softmax", [](const Tensor& x) { return softmax(x, 0) + log_softmax(x, 1); }},
    {"layer_norm", [](const Tensor& x) { return layer_norm(x, {x.size(1)}); }},
    {"cumsum", [](const Tensor& x) { return cumsum(x, 0) * cumsum(x, 1); }},
    {"sort", [](const Tensor& x) { return sort(x, 0).values * sort(x, 1).values; }},
    {"argmax", [](const Tensor& x) { return argmax(x) + argmax(x, 0) * argmax(x, 1).sum(); }},
    {"index_select",
     [](const Tensor& x) { return x.index_select(0, positions()).index_select(1, positions()); }},
    {"index", [](const Tensor& x) { return x.index({positions(), positions()}); }},
    {"take", [](const Tensor& x) { return take(x, tensor({5, 2, -1})); }},
    {"gather", [](const Tensor& x) { return gather(x, 0, tensor({{3, 1}, {0, 0}, {2, 3}})); }},
    {"embedding", [](const Tensor& x) { return embedding(x, positions()); }},
    {"index_put", [](const Tensor& x) { return x.index_put({positions()}, 1.5, true); }},
    {"scatter_add", [](const Tensor& x) { return x.scatter_add(1, (x > 0).to(i64), x * x); }},
    {"where", [](const Tensor& x) { return where(x > 0, x, 0.5); }},
    {"slices", [](const Tensor& x) { return x.slice(0, 1, 4, 2) * x.slice(0, 2, 3); }},
    {"matmul", [](const Tensor& x) { return matmul(x, matmul(x.t(), x)); }},
    {"convolution",
     [](const Tensor& x) { return conv2d(x.view({1, 1, 5, 5}), ones({2, 1, 3, 3})); }},
    {"inverse", [](const Tensor& x) { return linalg::inv(x + 9 * eye(5)); }},
    {"upper", [](const Tensor& x) { return linalg::solve_triangular(x, x, {.upper = true}); }},
    {"lower",
     [](const Tensor& x) {
       return linalg::solve_triangular(x, x.t(), {.left = false, .unitriangular = true});
     }},
    {"singular values", [](const Tensor& x) { return linalg::svdvals(x); }},
};

Tensor matrix() { return noise({5, 5}, 3) + 3 * eye(5); }

Tensors with_gradient(const Fn f, const Tensor& given) {
  const Tensor x = given.detach().requires_grad_();
  const Tensor y = f(x);
  if (!y.requires_grad()) return {y};
  return {y, grad({sum(y * cos(arange(0, y.numel(), 1, f32)).view(y.sizes()))}, {x})[0]};
}

TEST(Far, ValuesAndGradientsAreThoseOfNearElements) {
  const Tensor near = matrix();
  for (const Function& f : kFunctions) {
    const Tensors expected = with_gradient(f.call, near);
    const auto compiled = compile([&](const Tensor& x) { return with_gradient(f.call, x); });
    for (const Step step : {Step::Rows, Step::Columns, Step::Both, Step::Neither}) {
      SCOPED_TRACE(::testing::Message() << f.name << ", step " << static_cast<int>(step));
      const Tensor x = far_away(near, step);
      const Tensors eager = with_gradient(f.call, x), generated = compiled(x);
      for (size_t i = 0; i < expected.size(); ++i) {
        expect_close(expected[i], eager[i], 1e-4, "eager");
        expect_close(expected[i], generated[i], 1e-4, "compiled");
      }
    }
  }
}

using Write = void (*)(const Tensor&);
const Write kWrites[] = {
    [](const Tensor& x) { x.mul_(2); },
    [](const Tensor& x) { x.t().slice(0, 1, 3).fill_(7); },
    [](const Tensor& x) { x.diagonal().zero_(); },
    [](const Tensor& x) { x.index_put_({positions(), tensor({4, 1, 1})}, 5); },
    [](const Tensor& x) { x.index_add_(1, positions(), ones({5, 3})); },
    [](const Tensor& x) { x.index_copy_(0, tensor({4}), ones({1, 5})); },
    [](const Tensor& x) { x.scatter_(1, tensor({4, 0, 2}).unsqueeze(1), 9); },
    [](const Tensor& x) { x.masked_fill_(x > 0, 1); },
};

TEST(Far, WritesLandWhereTheyBelong) {
  for (const Write write : kWrites) {
    const Tensor expected = matrix();
    write(expected);
    const auto compiled = compile([&](const Tensor& x) { write(x); });
    for (const Step step : {Step::Rows, Step::Columns, Step::Both, Step::Neither}) {
      const Tensor eager = far_away(matrix(), step), generated = far_away(matrix(), step);
      write(eager);
      compiled(generated);
      expect_close(expected, eager, 0, "eager");
      expect_close(expected, generated, 0, "compiled");
    }
  }
}

}  // namespace
}  // namespace tandem::testing
