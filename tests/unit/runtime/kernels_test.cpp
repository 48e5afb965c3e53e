// Eager kernels against the reference interpreter: every listed op, several dtypes and layouts.
#include <gtest/gtest.h>
#include <tandem/ops.h>

#include <cmath>
#include <functional>

#include "ir/interpreter/interpret.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/trace/trace.h"
#include "tests/support/threads.h"

namespace tandem {
namespace {

using Tensors = std::vector<Tensor>;
using Program = std::function<Tensor(const Tensors&)>;

ir::Graph traced(const Program& program, const Tensors& inputs) {
  const auto trace = std::make_shared<runtime::Trace>("f");
  {
    const runtime::TraceScope scope(trace);
    Tensors stand_ins;
    for (const Tensor& t : inputs) stand_ins.push_back(trace->add_input(t, "x", ir::Role::Primal));
    trace->add_output(program(stand_ins));
  }
  return trace->finish();
}

/// Runs the program on eager kernels and in the interpreter.
void compare(const std::string& name, const Program& program, const Tensors& inputs,
             double tolerance) {
  SCOPED_TRACE(name);
  const ir::Graph graph = traced(program, inputs);
  std::vector<ir::Buffer> buffers;
  for (const Tensor& t : inputs) buffers.push_back(ir::copy_of(t.impl()->view()));
  const Tensor eager = program(inputs);
  const ir::Buffer expected = ir::interpret(graph, buffers)[0];
  ASSERT_EQ(eager.impl()->type(), expected.type());
  EXPECT_EQ(eager.strides(), graph.outputs()[0].strides);
  const ir::Buffer got = ir::copy_of(eager.impl()->view());
  for (int64_t i = 0; i < got.numel(); ++i) {
    const double a = got.at(i).to_double(), b = expected.at(i).to_double();
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a == b) continue;
    EXPECT_NEAR(a, b, tolerance * (1 + std::abs(b))) << "element " << i;
  }
}

double tolerance_of(DType dtype) {
  return dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : dtype == f16 ? 4e-3 : 2e-2;
}

/// [3, 5] values of mixed signs and sizes, some special; the transposed layout for odd seeds.
Tensor sample(DType dtype, uint64_t seed) {
  manual_seed(seed);
  Tensor x = (seed % 2 == 1 ? rand({5, 3}, f64).t() : rand({3, 5}, f64)) * 4.0 - 2.0;
  if (ir::is_floating(dtype)) {
    x[0][0] = INFINITY;
    x[0][1] = NAN;
    x[0][2] = -0.0;
  }
  return dtype == boolean ? x > 0 : x.to(dtype);
}

bool takes(const std::string& op, DType dtype) {
  const bool floating = ir::is_floating(dtype);
  if (op.starts_with("bitwise")) return !floating;
  if (op.starts_with("igamma")) return floating;
  if (op.starts_with("shift") || op == "gcd" || op == "lcm") return !floating && dtype != boolean;
  if (dtype == boolean) return op.starts_with("logical") || op == "eq" || op == "add";
  return true;
}

TEST(Kernels, Unary) {
  for (DType dtype : {f64, f32, bf16, f16, i64, u8, boolean})
    for (uint64_t seed : {2, 3}) {
      const Tensor x = sample(dtype, seed);
#define X(op)                                                                                     \
  if (takes(#op, dtype))                                                                          \
    compare(                                                                                      \
        #op " " + std::string(ir::name(dtype)), [](const Tensors& in) { return op(in[0]); }, {x}, \
        tolerance_of(dtype));
      TANDEM_UNARY_IN_PLACE_OPS(X)
      TANDEM_UNARY_OPS(X)
      TANDEM_MADE_UNARY_IN_PLACE(X)
      TANDEM_MADE_UNARY(X)
#undef X
    }
}

TEST(Kernels, Binary) {
  for (DType dtype : {f64, f32, bf16, i64, i32, u8, boolean}) {
    const Tensor x = sample(dtype, 4), y = sample(dtype, 5);
    const Tensor divisor = ir::is_floating(dtype) || dtype == boolean ? y : y * y + 1;
#define X(op)                                   \
  if (takes(#op, dtype))                        \
    compare(                                    \
        #op " " + std::string(ir::name(dtype)), \
        [](const Tensors& in) { return op(in[0], in[1]); }, {x, divisor}, tolerance_of(dtype));
    TANDEM_BINARY_IN_PLACE_OPS(X)
    TANDEM_BINARY_OPS(X)
    TANDEM_MADE_BINARY_IN_PLACE(X)
    TANDEM_MADE_BINARY(X)
#undef X
  }
}

TEST(Kernels, ReductionsAndContractions) {
  const std::pair<const char*, Program> programs[] = {
      {"sum", [](const Tensors& in) { return in[0].sum({0, 2}); }},
      {"sum rows", [](const Tensors& in) { return in[0].sum(-1, true); }},
      {"prod", [](const Tensors& in) { return in[0].prod(1); }},
      {"amax", [](const Tensors& in) { return in[0].amax(0); }},
      {"amin", [](const Tensors& in) { return in[0].amin({1, 2}); }},
      {"argmax", [](const Tensors& in) { return in[0].argmax(1); }},
      {"argmin", [](const Tensors& in) { return in[0].argmin(); }},
      {"mean", [](const Tensors& in) { return in[0].mean(); }},
      {"var", [](const Tensors& in) { return in[0].var({0, 1}, 0); }},
      {"std", [](const Tensors& in) { return in[0].std(2); }},
      {"logsumexp", [](const Tensors& in) { return in[0].logsumexp(1); }},
      {"softmax", [](const Tensors& in) { return softmax(in[0], 1); }},
      {"log_softmax", [](const Tensors& in) { return log_softmax(in[0], -1); }},
      {"layer_norm", [](const Tensors& in) { return layer_norm(in[0], in[0].sizes()); }},
      {"any", [](const Tensors& in) { return (in[0] > 1.5).any(0); }},
      {"all", [](const Tensors& in) { return (in[0] > -1.5).all({0, 1}); }},
      {"bmm", [](const Tensors& in) { return in[0].matmul(in[0].transpose(1, 2)); }},
      {"matmul", [](const Tensors& in) { return in[0].matmul(in[0][0].t()); }},
      {"linear",
       [](const Tensors& in) {
         return linear(
             in[0], in[0][1],
             in[0][0][0].sum() + in[0].sum({1, 2}).slice(0, 0, 1).expand({in[0].size(1)}));
       }},
      {"attention",
       [](const Tensors& in) {
         return scaled_dot_product_attention(in[0], in[0], in[0], {}, true);
       }},
      {"cross_entropy",
       [](const Tensors& in) {
         return cross_entropy(in[0][0], full({in[0].size(1)}, 2, i64), "none", -100, 0.1);
       }},
  };
  for (DType dtype : {f64, f32, bf16})
    for (const auto& [name, program] : programs) {
      manual_seed(9);
      const Tensor x = (randn({3, 4, 5}, f64)).to(dtype);
      compare(name, program, {x}, 10 * tolerance_of(dtype));
      compare(std::string(name) + " transposed", program, {x.transpose(0, 2)},
              10 * tolerance_of(dtype));
    }
}

/// What runs down rows of a few columns, which lie one after the other, or with gaps, or across.
Tensors narrow_rows(DType dtype, int64_t rows, int64_t columns) {
  manual_seed(static_cast<uint64_t>(rows * 37 + columns));
  const Tensor wide = randint(-3, 4, {rows, columns + 2}).to(dtype);
  const Tensor dense = wide.slice(1, 0, columns).contiguous();
  return {dense, wide.slice(1, 1, columns + 1), dense.t().contiguous().t(),
          dense.slice(0, 0, rows, 2)};
}

TEST(Kernels, ReductionsDownNarrowRows) {
  for (DType dtype : {f64, f32, bf16, f16, i64, u8, boolean})
    for (const int64_t columns : {1, 2, 3, 7, 12, 16, 17})
      for (const int64_t rows : {1, 15, 16, 17, 128, 129, 9000})
        for (const Tensor& x : narrow_rows(dtype, rows, columns)) {
          SCOPED_TRACE(::testing::Message() << rows << " rows");
          const auto check = [&](const char* name, Tensor (*f)(const Tensor&)) {
            compare(name, [&](const Tensors& in) { return f(in[0]); }, {x}, tolerance_of(dtype));
          };
          check("sum", [](const Tensor& t) { return sum(t, {0}); });
          check("amax", [](const Tensor& t) { return amax(t, {0}); });
          if (rows < 20) check("prod", [](const Tensor& t) { return prod(t, 0); });
          if (dtype == boolean) check("any", [](const Tensor& t) { return any(t, {0}); });
        }
}

/// Many rows are shared out among threads.
TEST(Kernels, NarrowSumsDoNotDependOnThreads) {
  manual_seed(5);
  const Tensor x = randn({100000, 3});
  const auto sums = [&](int threads) {
    const testing::Threads some(threads);
    return ir::copy_of(sum(x, {0}).impl()->view());
  };
  const ir::Buffer alone = sums(1), shared = sums(3);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(alone.at(i).to_double(), shared.at(i).to_double());
}

TEST(Kernels, ShapesAndIndices) {
  const Tensor index = tensor({2, 0, 2}), columns = tensor({{0, 4}, {1, 1}, {3, 2}});
  const std::pair<const char*, Program> programs[] = {
      {"slice_scatter",
       [](const Tensors& in) {
         return slice_scatter(in[0], in[0].slice(1, 0, 2) * 0 + 7, 1, 1, 5, 2);
       }},
      {"select_scatter",
       [](const Tensors& in) { return select_scatter(in[0], in[0][1] + 1, 0, 2); }},
      {"cat", [](const Tensors& in) { return cat({in[0], in[0].flip(1)}, 0); }},
      {"stack", [](const Tensors& in) { return stack({in[0], in[0] * 2}, 1); }},
      {"pad", [](const Tensors& in) { return pad(in[0], {1, -2, 0, 3}, 5); }},
      {"flip", [](const Tensors& in) { return flip(in[0], {0, 1}); }},
      {"index_select", [](const Tensors& in) { return in[0].index_select(0, in[1]); }},
      {"gather", [](const Tensors& in) { return in[0].gather(1, in[2]); }},
      {"index_add", [](const Tensors& in) { return index_add(in[0], 0, in[1], in[0] * 2); }},
      {"scatter_add", [](const Tensors& in) { return scatter_add(in[0], 1, in[2], in[0]); }},
      {"tril", [](const Tensors& in) { return in[0].tril(1); }},
      {"where", [](const Tensors& in) { return where(in[0] > 1, in[0], 3); }},
      {"masked_fill", [](const Tensors& in) { return in[0].masked_fill(in[0] > 1, 3); }},
      {"write",
       [](const Tensors& in) {
         const Tensor x = in[0] * 1;
         x.t().slice(0, 1, 4, 2).select(1, 1).copy_(5);
         x.diagonal().add_(x[1].slice(0, 0, 3));
         return x;
       }},
  };
  for (DType dtype : {f64, f32, f16, i64, i8})
    for (const auto& [name, program] : programs) {
      const Tensor x = arange(15, dtype).view({3, 5});
      compare(name, program, {x, index, columns}, 0);
      compare(std::string(name) + " transposed", program,
              {arange(15, dtype).view({5, 3}).t(), index, columns}, 0);
    }
}

// Each arrangement into each other: blocks of lines, whole and cut, and rows; some large enough for
// several threads.
TEST(Kernels, CopiesBetweenLayouts) {
  const std::function<Tensor(const Tensor&)> layouts[] = {
      [](const Tensor& x) { return x; },
      [](const Tensor& x) { return x.transpose(0, 2); },
      [](const Tensor& x) { return x.transpose(1, 2); },
      [](const Tensor& x) { return x.slice(2, 1, x.size(2) - 1); },
      [](const Tensor& x) { return x.slice(0, 0, x.size(0), 2).transpose(0, 1); },
      [](const Tensor& x) { return x.select(1, 0); },
      [](const Tensor& x) { return x.slice(1, 0, 1).expand({-1, 9, -1}).transpose(0, 2); },
  };
  for (DType dtype : {f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean})
    for (const Shape& sizes :
         {Shape{5, 3, 4}, {67, 2, 130}, {35, 33, 70}, {9, 1, 5000}, {1, 9, 8}, {3, 9, 0}})
      for (const auto& layout : layouts) {
        const Tensor x = layout(randint(0, 100, sizes).to(dtype));
        for (int turned = 0; turned < x.dim(); ++turned) {
          Shape wide = x.sizes();
          std::swap(wide[turned], wide[x.dim() - 1]);
          wide[x.dim() - 1] += turned;  // gapped
          const Tensor y = zeros(wide, dtype).slice(-1, 0, x.size(turned)).transpose(turned, -1);
          y.copy_(x);
          const ir::Buffer expected = ir::copy_of(x.impl()->view());
          const ir::Buffer got = ir::copy_of(y.impl()->view());
          ASSERT_EQ(got.type(), expected.type());
          int64_t differ = 0;
          for (int64_t i = 0; i < got.numel(); ++i)
            differ += got.at(i).to_double() != expected.at(i).to_double();
          EXPECT_EQ(differ, 0) << ir::name(dtype) << " " << to_string(sizes) << " " << turned;
        }
      }
}

// As in compiled code, and in ATen.
TEST(Kernels, PowersOfSmallIntegersAreProducts) {
  const std::pair<double, std::function<Tensor(const Tensor&)>> products[] = {
      {1, [](const Tensor& x) { return x; }},
      {2, [](const Tensor& x) { return x * x; }},
      {3, [](const Tensor& x) { return x * x * x; }},
      {-1, [](const Tensor& x) { return reciprocal(x); }},
      {-2, [](const Tensor& x) { return reciprocal(x * x); }}};
  const auto same = [](const Tensor& a, const Tensor& b) { return all(a == b).item<bool>(); };
  for (DType dtype : {f64, f32})
    for (const auto& [n, product] : products) {
      const Tensor x = (rand({300, 200}, dtype) + 0.5).t(), leaf = x.detach().requires_grad_();
      EXPECT_TRUE(same(pow(x, n), product(x))) << n;
      EXPECT_TRUE(same(pow(x, full({}, n, dtype)), product(x))) << n;
      EXPECT_TRUE(same(x.clone().pow_(n), product(x))) << n;
      EXPECT_TRUE(allclose(grad({sum(pow(leaf, n))}, {leaf})[0], n * pow(x, n - 1), 1e-6)) << n;
    }
}

TEST(Kernels, PowersOfOneExponentAreDifferentiatedByIt) {
  const Tensor x = (rand({300, 200}, f64) + 0.5).requires_grad_();
  for (double n : {-2.0, 0.0, 3.0}) {
    const Tensor exponent = full({}, n, f64).requires_grad_();
    const Tensor got = grad({sum(pow(x, exponent))}, {exponent})[0];
    EXPECT_NEAR(got.item<double>(), sum(pow(x, n) * log(x)).item<double>(), 1e-6) << n;
  }
}

/// Of any layouts; but along `dim` the index may be smaller than what it looks into.
TEST(Kernels, GatherLooksAlongAnyDimension) {
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> layouts{
      {"contiguous", [](const Tensor& t) { return t.clone(); }},
      {"turned", [](const Tensor& t) { return t.transpose(0, 2).contiguous().transpose(0, 2); }},
      {"gapped", [](const Tensor& t) { return cat({t, t}, 2).slice(2, t.size(2)); }},
      {"expanded", [](const Tensor& t) { return t.slice(1, 0, 1).expand(t.sizes()); }},
  };
  for (DType dtype : {f64, f32, bf16, i64, i16, u8, boolean})
    for (int dim = 0; dim < 3; ++dim)
      for (const auto& [from, lay_out] : layouts)
        for (const auto& [to, lay_out_index] : layouts) {
          const Tensor x = lay_out(sample(dtype, 1).unsqueeze(2).expand({3, 5, 4}) * 1);
          Shape sizes{2, 4, 3};
          sizes[dim] = 7;
          const Tensor index = lay_out_index(randint(0, int64_t{x.size(dim)}, sizes));
          compare(
              std::string(from) + ", " + to + " along " + std::to_string(dim),
              [&](const Tensors& in) { return in[0].gather(dim, in[1]); }, {x, index}, 0);
        }
}

TEST(Kernels, GatherOfManyIsSharedAmongThreads) {
  const Tensor x = rand({300, 400}, f64).t(), index = randint(0, 400, {500, 300});
  const testing::Threads three(3);
  compare("gather", [](const Tensors& in) { return in[0].gather(0, in[1]); }, {x, index}, 0);
  compare(
      "empty", [](const Tensors& in) { return in[0].gather(0, in[1]); }, {x, index.slice(0, 0, 0)},
      0);
}

}  // namespace
}  // namespace tandem
