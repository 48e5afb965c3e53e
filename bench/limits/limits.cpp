// ./dev bench limits: how near compiled kernels come to what the machine can do. Each row has the
// bytes that must move and the operations that must be done; its limit is the larger of the two
// times, at the bandwidth that a triad of the same footprint reaches in the same run and at the
// measured peak. A transcendental function counts as the operations of its formula (twice its
// instructions, as an fma).
#include <tandem/tandem.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/limits/machine.h"

namespace {

namespace td = tandem;
using td::Tensor;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;

constexpr double kExp = 28, kTanh = 50, kCos = 36, kErf = 44, kRandom = 60;

/// What is done to each element, in tensors' worth of f32 read and written, and operations.
struct Work {
  double forward_moves, forward_flops, backward_moves = 0, backward_flops = 0;
};

struct Case {
  const char* name;
  Work work;
  std::function<Tensors(int64_t rows, int64_t columns)> inputs;  // floating ones require grad
  Function function;
};

Tensor x_of(int64_t rows, int64_t columns) { return td::randn({rows, columns}); }
Tensors one(int64_t r, int64_t c) { return {x_of(r, c)}; }
Tensors two(int64_t r, int64_t c) { return {x_of(r, c), x_of(r, c)}; }
Tensors with_row(int64_t r, int64_t c) { return {x_of(r, c), td::randn({c}), td::randn({c})}; }

const Case kCases[] = {
    {"add", {3, 1}, two, [](const Tensors& t) { return t[0] + t[1]; }},
    {"relu", {2, 1, 3, 1}, one, [](const Tensors& t) { return td::relu(t[0]); }},
    {"gelu (erf)",
     {2, kErf + 4, 3, kErf + kExp + 8},
     one,
     [](const Tensors& t) { return td::gelu(t[0]); }},
    {"gelu (tanh)",
     {2, kTanh + 8, 3, kTanh + 16},
     one,
     [](const Tensors& t) { return td::gelu(t[0], "tanh"); }},
    {"10 cos",
     {2, 10 * kCos, 3, 20 * kCos},
     one,
     [](const Tensors& t) {
       Tensor x = t[0];
       for (int i = 0; i < 10; ++i) x = td::cos(x);
       return x;
     }},
    {"dropout",
     {2, kRandom, 2, kRandom},
     one,
     [](const Tensors& t) { return td::dropout(t[0], 0.1); }},
    {"layer norm",
     {2, 8, 3, 14},
     with_row,
     [](const Tensors& t) { return td::layer_norm(t[0], {t[0].size(1)}, t[1], t[2], 1e-5); }},
    {"rms norm",
     {2, 4, 3, 10},
     with_row,
     [](const Tensors& t) {
       return t[0] * td::rsqrt(td::mean(t[0] * t[0], {1}, true) + 1e-5) * t[1];
     }},
    {"softmax", {2, kExp + 4, 3, 4}, one, [](const Tensors& t) { return td::softmax(t[0], 1); }},
    {"log softmax",
     {2, kExp + 4, 3, kExp + 4},
     one,
     [](const Tensors& t) { return td::log_softmax(t[0], 1); }},
    {"row sums", {1, 1}, one, [](const Tensors& t) { return td::sum(t[0], {1}); }},
    {"column sums", {1, 1}, one, [](const Tensors& t) { return td::sum(t[0], {0}); }},
    {"sum", {1, 1}, one, [](const Tensors& t) { return td::sum(t[0]); }},
    {"transpose",
     {2, 0},
     one,
     [](const Tensors& t) { return td::clone(td::transpose(t[0], 0, 1).contiguous()); }},
    {"cat", {4, 0}, two, [](const Tensors& t) { return td::cat({t[0], t[1]}, 1); }},
    {"cross entropy",
     {1, kExp + 4, 2, kExp + 4},
     [](int64_t r, int64_t c) { return Tensors{x_of(r, c), td::randint(0, c, {r})}; },
     [](const Tensors& t) { return td::cross_entropy(t[0], t[1]); }},
    {"embedding",
     {2, 0, 2, 1},
     [](int64_t r, int64_t c) { return Tensors{x_of(r, c), td::randint(0, r, {r})}; },
     [](const Tensors& t) { return td::embedding(t[0], t[1]); }},
};

struct Size {
  int64_t rows, columns;
};
constexpr Size kSizes[] = {{4096, 1024}, {509, 1021}, {32, 256}};

struct Machine {
  double flops;
  std::map<size_t, double> bandwidth;  // by footprint, a power of two

  double at(double bytes) {
    size_t footprint = size_t{1} << 14;
    while (static_cast<double>(footprint) < bytes) footprint *= 2;
    auto [it, is_new] = bandwidth.try_emplace(footprint, 0);
    if (is_new) it->second = bench::triad_bandwidth(footprint);
    return it->second;
  }
};

void report(Machine& machine, const std::string& name, Size size, double moves, double flops,
            double seconds) {
  const double elements = static_cast<double>(size.rows * size.columns);
  const double bytes = 4 * moves * elements, operations = flops * elements;
  const double memory = bytes / machine.at(bytes),
               arithmetic = machine.flops > 0 ? operations / machine.flops : 0;
  std::printf("%-26s %5lld x %-5lld %8.2f MB %8.1f Mflop %10.1f us %8.1f us %-10s %4.0f%%\n",
              name.c_str(), static_cast<long long>(size.rows), static_cast<long long>(size.columns),
              bytes / 1e6, operations / 1e6, seconds * 1e6, std::max(memory, arithmetic) * 1e6,
              memory >= arithmetic ? "bytes" : "arithmetic",
              100 * std::max(memory, arithmetic) / seconds);
  std::fflush(stdout);
}

void measure(Machine& machine, const Case& c, Size size) {
  Tensors inputs = c.inputs(size.rows, size.columns);
  const auto compiled = td::compile(c.function, {.name = "limits"});
  {
    const td::NoGrad no_grad;
    report(machine, c.name, size, c.work.forward_moves, c.work.forward_flops,
           bench::best_time([&] { compiled(inputs); }));
  }
  if (c.work.backward_moves == 0) return;
  for (Tensor& t : inputs)
    if (t.dtype() == td::f32) t = t.requires_grad_();
  const Tensor out = compiled(inputs);
  const Tensor tangent = out.numel() == 1 ? Tensor() : td::randn_like(out.detach());
  const double seconds = bench::best_time([&] {
    for (const Tensor& t : inputs)
      if (t.requires_grad()) t.set_grad({});
    out.backward(tangent, true);
  });
  report(machine, std::string(c.name) + " backward", size, c.work.backward_moves,
         c.work.backward_flops, seconds);
}

}  // namespace

int main(int argc, char** argv) {
  const char* only = argc > 1 ? argv[1] : "";
  try {
    Machine machine{bench::peak_flops(), {}};
    std::printf("peak %.0f Gflop/s; triad %.0f, %.0f, %.0f GB/s at 256 KB, 4 MB, 64 MB\n",
                machine.flops / 1e9, machine.at(1 << 18) / 1e9, machine.at(1 << 22) / 1e9,
                machine.at(1 << 26) / 1e9);
    std::printf("%-26s %13s %11s %14s %13s %11s %s\n", "kernel", "size", "moved", "operations",
                "took", "limit", "of the limit");
    for (const Size size : kSizes)
      for (const Case& c : kCases)
        if (std::strstr(c.name, only)) measure(machine, c, size);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "limits: %s\n", e.what());
    return 1;
  }
}
