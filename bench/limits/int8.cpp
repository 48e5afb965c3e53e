#include "bench/limits/int8.h"

#include <tandem/tandem.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "bench/limits/machine.h"

namespace bench {
namespace {

namespace td = tandem;
using td::Tensor;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;

constexpr size_t kTurns = 7;
constexpr double kSeconds = 0.03;

/// x [rows, in] and a weight [out, in].
struct Row {
  const char* name;
  int64_t rows, out, in;
  size_t weight_bytes;  // of an element
  std::function<Tensors(const Row&)> inputs;
  Function function;
};

Tensor bytes(const td::Shape& sizes) { return td::randint(-128, 128, sizes).to(td::i8); }

Tensors floats(const Row& r) { return {td::randn({r.rows, r.in}), td::randn({r.out, r.in})}; }
Tensors weights_in_bytes(const Row& r) {
  return {td::randn({r.rows, r.in}), bytes({r.out, r.in}), td::rand({r.out})};
}
Tensors all_in_bytes(const Row& r) { return {bytes({r.rows, r.in}), bytes({r.out, r.in})}; }

Tensor linear(const Tensors& t) { return td::linear(t[0], t[1]); }
Tensor weight_only(const Tensors& t) { return td::int8_linear(t[0], t[1], t[2]); }
Tensor dynamic(const Tensors& t) { return td::dynamic_int8_linear(t[0], t[1], t[2]); }
Tensor integers(const Tensors& t) { return td::int_mm(t[0], t[1].t()); }

std::vector<Row> rows() {
  std::vector<Row> all;
  for (const int64_t m : {1, 4, 64, 512}) {
    all.push_back({"linear", m, 4096, 4096, 4, floats, linear});
    all.push_back({"int8 linear", m, 4096, 4096, 1, weights_in_bytes, weight_only});
    all.push_back({"int8 linear, dynamic", m, 4096, 4096, 1, weights_in_bytes, dynamic});
    all.push_back({"int8 product", m, 4096, 4096, 1, all_in_bytes, integers});
  }
  return all;
}

struct Turn {
  double seconds, of_memory, of_peak;
};

/// Calls go round over several weights, so that each comes from memory; the kernel, a sum over as
/// many bytes, and f32 arithmetic take turns.
Turn median_turn(const Row& row, const std::function<void()>& kernel, double bytes, size_t sets) {
  const double flops = 2.0 * static_cast<double>(row.rows * row.out * row.in);
  Traffic traffic(1, 0, bytes, sets);
  std::vector<Turn> turns(kTurns);
  for (Turn& turn : turns) {
    turn.seconds = best_time(kernel, kSeconds);
    turn.of_memory = best_time([&] { traffic.run(false); }, kSeconds) / turn.seconds;
    turn.of_peak = flops / turn.seconds / peak_flops(kSeconds);
  }
  std::ranges::sort(turns, {}, &Turn::seconds);
  return turns[kTurns / 2];
}

void measure(const Row& row) {
  const td::NoGrad no_grad;
  const double bytes =
      static_cast<double>(row.out * row.in) * static_cast<double>(row.weight_bytes);
  const size_t sets = sets_from_memory(bytes);
  std::vector<Tensors> inputs;
  for (size_t i = 0; i < sets; ++i) inputs.push_back(row.inputs(row));
  const Function compiled = td::compile(row.function, {.name = "limits"});
  size_t next = 0;
  const Turn turn = median_turn(row, [&] { compiled(inputs[next++ % sets]); }, bytes, sets);
  std::printf("%-24s %5lld x %lld x %lld %10.1f us %8.1f GB/s %4.0f%% %8.1f Gop/s %4.0f%%\n",
              row.name, static_cast<long long>(row.rows), static_cast<long long>(row.out),
              static_cast<long long>(row.in), turn.seconds * 1e6, bytes / turn.seconds / 1e9,
              100 * turn.of_memory,
              2e-9 * static_cast<double>(row.rows * row.out * row.in) / turn.seconds,
              100 * turn.of_peak);
  std::fflush(stdout);
}

}  // namespace

void measure_int8(const char* only) {
  if (peak_flops() == 0) return;
  std::printf("\n%-24s %18s %13s %13s %s %14s %s\n", "weights from memory", "size", "took", "read",
              "of it", "rate", "of the f32 peak");
  for (const Row& row : rows())
    if (std::strstr(row.name, only)) measure(row);
}

}  // namespace bench
