#include "bench/limits/arithmetic.h"

#include <tandem/tandem.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/limits/machine.h"

namespace bench {
namespace {

namespace td = tandem;
using td::Tensor;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;

struct Row {
  std::string name, size;
  double forward, backward;  // operations, an fma counted as two; of the gradients of all inputs
  std::vector<td::Shape> inputs;
  Function function;
};

double count(std::initializer_list<int64_t> sizes) {
  double n = 1;
  for (const int64_t s : sizes) n *= static_cast<double>(s);
  return n;
}

std::string joined(std::initializer_list<int64_t> sizes) {
  std::string out;
  for (const int64_t s : sizes) out += (out.empty() ? "" : " x ") + std::to_string(s);
  return out;
}

Row product(int64_t m, int64_t n, int64_t k) {
  const double flops = 2 * count({m, n, k});
  return {"product", joined({m, n, k}), flops,
          2 * flops, {{m, k}, {k, n}},  [](const Tensors& t) { return td::mm(t[0], t[1]); }};
}

Row products(int64_t batch, int64_t m, int64_t n, int64_t k) {
  const double flops = 2 * count({batch, m, n, k});
  return {"products",
          joined({batch, m, n, k}),
          flops,
          2 * flops,
          {{batch, m, k}, {batch, k, n}},
          [](const Tensors& t) { return td::bmm(t[0], t[1]); }};
}

struct Image {
  int64_t n, channels, side;
};

Row convolution(Image x, int64_t out, int64_t kernel, const td::ConvOptions& options,
                int64_t side) {
  const int64_t in = x.channels / options.groups;
  const double flops = 2 * count({x.n, side, side, out, in, kernel, kernel});
  return {options.groups == 1 ? "convolution" : "convolution, depthwise",
          joined({x.n, x.channels, x.side}) + ", " + joined({out, kernel}),
          flops,
          2 * flops,
          {{x.n, x.channels, x.side, x.side}, {out, in, kernel, kernel}},
          [options](const Tensors& t) { return td::conv2d(t[0], t[1], {}, options); }};
}

/// Causal: half of the scores. The backward computes them again: five products for two.
Row attention(int64_t batch, int64_t heads, int64_t tokens, int64_t width) {
  const double flops = 2 * count({batch, heads, tokens, tokens, width});
  const td::Shape shape{batch, heads, tokens, width};
  return {"attention, causal",
          joined({batch, heads, tokens, width}),
          flops,
          2.5 * flops,
          {shape, shape, shape},
          [](const Tensors& t) {
            return td::scaled_dot_product_attention(t[0], t[1], t[2], {.is_causal = true});
          }};
}

std::vector<Row> rows() {
  return {product(512, 4096, 4096),
          product(1024, 1024, 1024),
          product(1024, 3072, 768),
          product(768, 384, 128),
          product(128, 512, 784),
          product(32, 1024, 256),
          products(48, 64, 64, 32),
          products(96, 128, 128, 64),
          convolution({16, 64, 56}, 64, 3, {.padding = 1}, 56),
          convolution({16, 256, 14}, 256, 3, {.padding = 1}, 14),
          convolution({16, 64, 56}, 256, 1, {}, 56),
          convolution({16, 3, 64}, 64, 7, {.stride = 2, .padding = 3}, 32),
          convolution({8, 192, 56}, 192, 3, {.padding = 1, .groups = 192}, 56),
          attention(2, 8, 128, 64),
          attention(2, 8, 1024, 64),
          attention(1, 8, 4096, 64)};
}

/// Of the turns of `kernel` and of the peak, the median share of the peak; and the kernel's time.
std::pair<double, double> median_turn(const std::function<void()>& kernel, double flops) {
  constexpr size_t kTurns = 7;
  constexpr double kSeconds = 0.05;
  std::vector<std::pair<double, double>> turns(kTurns);
  for (auto& [share, seconds] : turns) {
    seconds = best_time(kernel, kSeconds);
    share = flops / seconds / peak_flops(kSeconds);
  }
  std::ranges::sort(turns);
  return turns[kTurns / 2];
}

void report(const std::string& name, const Row& row, double flops,
            const std::function<void()>& kernel) {
  const auto [share, seconds] = median_turn(kernel, flops);
  std::printf("%-32s %22s %10.1f Mflop %10.1f us %8.1f Gflop/s %4.0f%%\n", name.c_str(),
              row.size.c_str(), flops / 1e6, seconds * 1e6, flops / seconds / 1e9, 100 * share);
  std::fflush(stdout);
}

void measure(const Row& row) {
  Tensors inputs;
  for (const td::Shape& s : row.inputs) inputs.push_back(td::randn(s));
  const Function compiled = td::compile(row.function, {.name = "limits"});
  report(row.name, row, row.forward, [&] {
    const td::NoGrad no_grad;
    compiled(inputs);
  });
  for (const Tensor& t : inputs) t.requires_grad_();
  const Tensor out = compiled(inputs);
  const Tensor tangent = td::randn(out.sizes());
  report(row.name + " backward", row, row.backward, [&] {
    for (const Tensor& t : inputs) t.set_grad({});
    out.backward(tangent, true);
  });
}

}  // namespace

void measure_arithmetic(const char* only) {
  if (peak_flops() == 0) return;
  std::printf("\n%-32s %22s %16s %13s %16s %s\n", "kernel", "size", "operations", "took", "rate",
              "of the peak");
  for (const Row& row : rows())
    if (std::strstr(row.name.c_str(), only)) measure(row);
}

}  // namespace bench
