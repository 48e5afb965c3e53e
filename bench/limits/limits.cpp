// ./dev bench limits: how near compiled kernels come to what the machine can do. Each row has the
// bytes that must move and the operations that must be done; its limit is the larger of two times:
// that of a loop that only moves as much memory in the same mix of reads and writes (a sum, a copy
// or a triad, with ordinary stores or past the caches, whichever is faster; both take turns with
// the kernel, as bandwidth changes with what the machine's neighbours do, and the turn of the
// median ratio counts), and that of the operations at the measured peak. A transcendental function
// counts as the operations of its formula (twice its instructions, as an fma).
//
// Where the memory comes from: calls at the first size go round over several sets of inputs,
// outputs and gradients, so that kFromMemory times the last cache is read before a set comes again:
// everything comes from memory and goes there, in the loop too. The other sizes use one set, which
// stays in the caches that hold it. Says of each row bound by memory that stays below its aim what
// holds it back. A second table (arithmetic.h) has what multiplies matrices, a
// third (int8.h) linear layers with weights in i8.
#include <tandem/tandem.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "bench/limits/arithmetic.h"
#include "bench/limits/int8.h"
#include "bench/limits/machine.h"
#include "bench/limits/precision.h"

namespace {

namespace td = tandem;
using td::Tensor;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;

// What holds rows bound by memory back, as far as their kernels show it: nothing here was counted
// by hardware.
constexpr const char* kPasses = "several passes over a row, all but the first in a near cache";
constexpr const char* kColumns = "several passes over a row, and sums of columns";
constexpr const char* kExpAgain = "the exponential is computed again from the input";
constexpr const char* kLines = "a line here, a line there: neither side has runs to fetch ahead";
constexpr const char* kIndexed = "rows in the order of the indices, each fetched anew";
constexpr const char* kSums = "sums are read and written again for each row";
constexpr const char* kOpen = "not explained";

constexpr double kExp = 28, kTanh = 50, kCos = 36, kErf = 44, kRandom = 60;

/// What is done for each element: tensors' worth of f32 read and written, operations, and what
/// holds it back where it stays below its aim.
struct Work {
  int reads, writes;
  double flops;
  const char* held_back = "";
};

struct Case {
  const char* name;
  Work forward, backward;                                        // no backward if it moves nothing
  std::function<Tensors(int64_t rows, int64_t columns)> inputs;  // floating ones require grad
  Function function;
};

Tensor x_of(int64_t rows, int64_t columns) { return td::randn({rows, columns}); }
Tensors one(int64_t r, int64_t c) { return {x_of(r, c)}; }
Tensors two(int64_t r, int64_t c) { return {x_of(r, c), x_of(r, c)}; }
Tensors with_row(int64_t r, int64_t c) { return {x_of(r, c), td::randn({c}), td::randn({c})}; }

/// Rows of pixels as images of as many channels as there are, at most 64.
Tensor images_of(const Tensor& x) {
  const int64_t rows = x.size(0), channels = std::gcd<int64_t>(rows, 64);
  return x.view({rows / channels, channels, x.size(1)});
}
Tensors with_channels(int64_t r, int64_t c) {
  const int64_t channels = std::gcd<int64_t>(r, 64);
  return {x_of(r, c), td::randn({channels}), td::randn({channels})};
}

constexpr Work kNone{0, 0, 0};

const Case kCases[] = {
    {"add", {2, 1, 1, kOpen}, kNone, two, [](const Tensors& t) { return t[0] + t[1]; }},
    {"relu",
     {1, 1, 1, kOpen},
     {2, 1, 1, kOpen},
     one,
     [](const Tensors& t) { return td::relu(t[0]); }},
    {"gelu (erf)",
     {1, 1, kErf + 4, kOpen},
     {2, 1, kErf + kExp + 8, kOpen},
     one,
     [](const Tensors& t) { return td::gelu(t[0]); }},
    {"gelu (tanh)",
     {1, 1, kTanh + 8, kOpen},
     {2, 1, kTanh + 16, kOpen},
     one,
     [](const Tensors& t) { return td::gelu(t[0], "tanh"); }},
    {"10 cos",
     {1, 1, 10 * kCos},
     {2, 1, 20 * kCos},
     one,
     [](const Tensors& t) {
       Tensor x = t[0];
       for (int i = 0; i < 10; ++i) x = td::cos(x);
       return x;
     }},
    {"dropout",
     {1, 1, kRandom, kOpen},
     {1, 1, kRandom, kOpen},
     one,
     [](const Tensors& t) { return td::dropout(t[0], 0.1); }},
    {"layer norm",
     {1, 1, 8, kPasses},
     {2, 1, 14, kColumns},
     with_row,
     [](const Tensors& t) { return td::layer_norm(t[0], {t[0].size(1)}, t[1], t[2], 1e-5); }},
    {"rms norm",
     {1, 1, 4, kPasses},
     {2, 1, 10, kColumns},
     with_row,
     [](const Tensors& t) {
       return t[0] * td::rsqrt(td::mean(t[0] * t[0], {1}, true) + 1e-5) * t[1];
     }},
    {"batch norm",
     {1, 1, 8, kPasses},
     {2, 1, 14, kPasses},
     with_channels,
     [](const Tensors& t) { return td::batch_norm(images_of(t[0]), {}, {}, t[1], t[2], true); }},
    {"instance norm",
     {1, 1, 8, kPasses},
     {2, 1, 14, kPasses},
     with_channels,
     [](const Tensors& t) { return td::instance_norm(images_of(t[0]), {}, {}, t[1], t[2]); }},
    {"group norm, silu",
     {1, 1, kExp + 16, kPasses},
     {2, 1, kExp + 30, kPasses},
     with_channels,
     [](const Tensors& t) {
       const int64_t channels = t[1].size(0);
       return td::silu(
           td::group_norm(images_of(t[0]), std::max<int64_t>(channels / 4, 1), t[1], t[2]));
     }},
    {"softmax",
     {1, 1, kExp + 4, kPasses},
     {2, 1, 4, kExpAgain},
     one,
     [](const Tensors& t) { return td::softmax(t[0], 1); }},
    {"log softmax",
     {1, 1, kExp + 4, kPasses},
     {2, 1, kExp + 4, kPasses},
     one,
     [](const Tensors& t) { return td::log_softmax(t[0], 1); }},
    {"row sums", {1, 0, 1, kOpen}, kNone, one, [](const Tensors& t) { return td::sum(t[0], {1}); }},
    {"column sums",
     {1, 0, 1, kSums},
     kNone,
     one,
     [](const Tensors& t) { return td::sum(t[0], {0}); }},
    {"sum", {1, 0, 1, kOpen}, kNone, one, [](const Tensors& t) { return td::sum(t[0]); }},
    {"transpose",
     {1, 1, 0, kLines},
     kNone,
     one,
     [](const Tensors& t) { return td::clone(td::transpose(t[0], 0, 1).contiguous()); }},
    {"cat",
     {2, 2, 0, kOpen},
     kNone,
     two,
     [](const Tensors& t) { return td::cat({t[0], t[1]}, 1); }},
    {"cross entropy",
     {1, 0, kExp + 4, kPasses},
     {1, 1, kExp + 4, kPasses},
     [](int64_t r, int64_t c) { return Tensors{x_of(r, c), td::randint(0, c, {r})}; },
     [](const Tensors& t) { return td::cross_entropy(t[0], t[1]); }},
    {"embedding",
     {1, 1, 0, kIndexed},
     {1, 1, 1, kIndexed},
     [](int64_t r, int64_t c) { return Tensors{x_of(r, c), td::randint(0, r, {r})}; },
     [](const Tensors& t) { return td::embedding(t[0], t[1]); }},
};

struct Size {
  int64_t rows, columns;
};
constexpr Size kSizes[] = {{4096, 1024}, {509, 1021}, {32, 256}};

constexpr double kAim = 0.8, kAimBytes = 4e6;  // of rows bound by memory that move at least so much

struct Times {
  double kernel = 1e9, memory = 1e9;
};

double bytes_of(Size size, const Work& work) {
  return 4.0 * (work.reads + work.writes) * static_cast<double>(size.rows * size.columns);
}

/// Sets that calls go round over. Only what they read counts: what they write may pass the caches.
size_t sets_of(Size size, const Work& work) {
  if (size.rows != kSizes[0].rows) return 1;
  return bench::sets_from_memory(bytes_of(size, {work.reads, 0, 0}));
}

/// The kernel and a loop with the same traffic, in turns: of the turns the one whose ratio is the
/// median. What disturbs a turn, or makes memory slower or faster for a while, does so to both.
Times median_turn(const std::function<void()>& kernel, const Work& work, double bytes,
                  size_t sets) {
  constexpr size_t kTurns = 9;
  constexpr double kSeconds = 0.02;
  const int writes = std::min(work.writes, 1), reads = writes == 0 ? 1 : work.reads / work.writes;
  bench::Traffic traffic(reads, writes, bytes, sets);
  std::vector<Times> turns(kTurns);
  for (Times& turn : turns) {
    turn.kernel = bench::best_time(kernel, kSeconds);
    for (const bool streams : {false, true}) {
      if (streams && (bytes < kAimBytes || !traffic.can_stream())) continue;
      turn.memory =
          std::min(turn.memory, bench::best_time([&] { traffic.run(streams); }, kSeconds));
    }
  }
  std::ranges::sort(turns, {}, [](const Times& t) { return t.memory / t.kernel; });
  return turns[kTurns / 2];
}

/// What keeps a kernel that is bound by memory from its limit.
std::string held_back(const Work& work, double arithmetic, double limit) {
  if (arithmetic < limit / 2) return work.held_back;
  return "arithmetic alone takes " + std::to_string(std::lround(100 * arithmetic / limit)) + "%";
}

void report(double peak, const std::string& name, Size size, const Work& work, size_t sets,
            const std::function<void()>& kernel) {
  const double bytes = bytes_of(size, work),
               operations = work.flops * static_cast<double>(size.rows * size.columns);
  for (size_t i = 0; i < sets; ++i) kernel();  // the first to write a result waits for its pages
  const Times time = median_turn(kernel, work, bytes, sets);
  const double arithmetic = peak > 0 ? operations / peak : 0;
  const double limit = std::max(time.memory, arithmetic), part = limit / time.kernel;
  const bool by_bytes = time.memory >= arithmetic;
  const bool below = by_bytes && bytes > kAimBytes && part < kAim;
  std::printf("%-26s %5lld x %-5lld %8.2f MB %8.1f Mflop %10.1f us %8.1f us %-10s %4.0f%%%s\n",
              name.c_str(), static_cast<long long>(size.rows), static_cast<long long>(size.columns),
              bytes / 1e6, operations / 1e6, time.kernel * 1e6, limit * 1e6,
              by_bytes ? "bytes" : "arithmetic", 100 * part,
              below ? ("  " + held_back(work, arithmetic, limit)).c_str() : "");
  std::fflush(stdout);
}

Tensors copies(const Tensors& of) {
  Tensors out;
  for (const Tensor& t : of) out.push_back(td::clone(t));
  return out;
}

void measure_forward(double peak, const Case& c, Size size, const Function& compiled) {
  const td::NoGrad no_grad;
  std::vector<Tensors> inputs(sets_of(size, c.forward), c.inputs(size.rows, size.columns));
  for (Tensors& set : inputs) set = copies(set);
  Tensors outputs(inputs.size());  // one held for each set: the next call gets other memory
  size_t next = 0;
  report(peak, c.name, size, c.forward, inputs.size(), [&] {
    const size_t i = next++ % inputs.size();
    outputs[i] = {};
    outputs[i] = compiled(inputs[i]);
  });
}

/// A recorded call, ready to be differentiated again and again.
struct Recorded {
  Tensors inputs;
  Tensor out, tangent;
};

Recorded record(const Tensors& inputs, const Function& compiled) {
  Recorded r{copies(inputs), {}, {}};
  for (Tensor& t : r.inputs)
    if (t.dtype() == td::f32) t = t.requires_grad_();
  r.out = compiled(r.inputs);
  if (r.out.numel() != 1) r.tangent = td::clone(r.out.detach());
  return r;
}

void measure_backward(double peak, const Case& c, Size size, const Function& compiled) {
  std::vector<Recorded> calls(sets_of(size, c.backward));
  const Tensors inputs = c.inputs(size.rows, size.columns);
  for (Recorded& call : calls) call = record(inputs, compiled);
  size_t next = 0;
  report(peak, std::string(c.name) + " backward", size, c.backward, calls.size(), [&] {
    const Recorded& call = calls[next++ % calls.size()];
    for (const Tensor& t : call.inputs)
      if (t.requires_grad()) t.set_grad({});
    call.out.backward(call.tangent, true);
  });
}

void measure(double peak, const Case& c, Size size) {
  const Function compiled = td::compile(c.function, {.name = "limits"});
  measure_forward(peak, c, size, compiled);
  if (c.backward.reads != 0) measure_backward(peak, c, size, compiled);
}

double triad_rate(double bytes) {
  bench::Traffic traffic(2, 1, bytes);
  return bytes / bench::best_time([&] { traffic.run(false); });
}

}  // namespace

int main(int argc, char** argv) {
  const char* only = argc > 1 ? argv[1] : "";
  try {
    double peak = bench::peak_flops();
    std::printf("peak %.0f Gflop/s; triad %.0f, %.0f, %.0f GB/s at 256 KB, 4 MB, 256 MB\n",
                peak / 1e9, triad_rate(1 << 18) / 1e9, triad_rate(1 << 22) / 1e9,
                triad_rate(1 << 28) / 1e9);
    std::printf("%-26s %13s %11s %14s %13s %11s %s\n", "kernel", "size", "moved", "operations",
                "took", "limit", "of the limit");
    for (const Size size : kSizes)
      for (const Case& c : kCases) {
        if (!std::strstr(c.name, only)) continue;
        peak = std::max(peak, bench::peak_flops());  // neighbours may have disturbed the first
        measure(peak, c, size);
      }
    bench::measure_arithmetic(only);
    bench::measure_int8(only);
    bench::measure_precisions(only);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "limits: %s\n", e.what());
    return 1;
  }
}
