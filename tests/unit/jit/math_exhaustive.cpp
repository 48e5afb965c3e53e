// ./dev math: every f32 of every unary inline function, and as many pairs for atan2 and pow,
// against libm in f64 (whose error is 2^-28 units of an f32). Prints one line a function; with
// --out, appends it to a file and skips the functions that the file has, so that a stopped run goes
// on.
#include <atomic>
#include <bit>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "tests/unit/jit/math_check.h"

namespace tandem::jit {
namespace {

constexpr uint64_t kAll = uint64_t{1} << 32;
constexpr uint64_t kBlock = uint64_t{1} << 14;

struct Worst {
  double error = 0;
  float x = 0, y = 0, got = 0;
  uint64_t different_bits = 0;  // between the general formula and that for |x| <= 1
};

/// Values at which pow and atan2 do something special, and their neighbours.
std::vector<float> grid() {
  std::vector<float> values;
  for (const float v : specials<float>())
    for (const float n : {std::nextafter(v, -INFINITY), v, std::nextafter(v, INFINITY)})
      values.push_back(n);
  for (int i = -300; i <= 300; ++i) values.push_back(static_cast<float>(i) / 4);
  return values;
}

struct Block {
  std::vector<float> x, y;
};

Block unary_block(uint64_t number) {
  Block b{std::vector<float>(kBlock), std::vector<float>(kBlock)};
  for (uint64_t i = 0; i < kBlock; ++i)
    b.x[i] = std::bit_cast<float>(static_cast<uint32_t>(number * kBlock + i));
  return b;
}

/// Pairs of the grid in order, then random bits and usual sizes by turns.
Block binary_block(uint64_t number) {
  static const std::vector<float> special = grid();
  Block b;
  std::mt19937_64 random(number);
  for (uint64_t i = number * kBlock; i < (number + 1) * kBlock; ++i) {
    const uint64_t row = i / special.size(), r = random();
    const auto bits = [&](int shift) { return static_cast<uint32_t>(r >> shift); };
    if (row < special.size()) {
      b.x.push_back(special[row]), b.y.push_back(special[i % special.size()]);
    } else if (i % 2) {
      b.x.push_back(std::bit_cast<float>(bits(0))), b.y.push_back(std::bit_cast<float>(bits(32)));
    } else {
      b.x.push_back(std::exp2(static_cast<float>(bits(0)) * 0x1p-26f - 32));
      b.y.push_back(static_cast<float>(bits(32)) * 0x1p-26f - 32);
    }
  }
  return b;
}

void check_block(MathFn fn, const Block& b, Worst& worst) {
  const std::vector<float> out = run(code(true, 16), fn, b.x, b.y);
  for (size_t i = 0; i < out.size(); ++i) {
    const double exact = reference<double>(fn, b.x[i], b.y[i]);
    // Most are rounded right, and need no distance once a worse one is known.
    if (worst.error >= 0.5 && same(out[i], static_cast<float>(exact))) continue;
    const double error = ulp_error(out[i], exact);
    if (!(error <= worst.error))
      worst.error = error, worst.x = b.x[i], worst.y = b.y[i], worst.got = out[i];
  }
  if (math_functions()[static_cast<size_t>(fn)].arity == 2 || !(std::abs(b.x[0]) <= 1)) return;
  const std::vector<float> known = run(code(true, 16, false, Domain::Unit), fn, b.x, b.y);
  for (size_t i = 0; i < out.size(); ++i)
    worst.different_bits += std::abs(b.x[i]) <= 1 && !same(out[i], known[i]);
}

Worst check_all(MathFn fn, uint64_t stride, unsigned threads) {
  const int arity = math_functions()[static_cast<size_t>(fn)].arity;
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  Worst worst;
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < threads; ++t)
    workers.emplace_back([&] {
      Worst mine;
      for (uint64_t block; (block = next.fetch_add(stride)) < kAll / kBlock;)
        check_block(fn, arity == 1 ? unary_block(block) : binary_block(block), mine);
      const std::lock_guard lock(mutex);
      mine.different_bits += worst.different_bits;
      if (!(mine.error <= worst.error)) worst = mine;
      worst.different_bits = mine.different_bits;
    });
  for (std::thread& w : workers) w.join();
  return worst;
}

bool is_done(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(std::string(name) + " ")) return true;
  return false;
}

int check_every_function(int argc, char** argv) {
  std::string out;
  uint64_t stride = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string_view(argv[i]) == "--out") out = argv[i + 1];
    if (std::string_view(argv[i]) == "--stride") stride = std::stoull(argv[i + 1]);
  }
  code(true, 16), code(true, 16, false, Domain::Unit);  // compiled before the threads start
  bool good = true;
  for (size_t f = 0; f < math_functions().size(); ++f) {
    const MathInfo& info = math_functions()[f];
    if (!out.empty() && is_done(out, info.name)) continue;
    const Worst w = check_all(static_cast<MathFn>(f), stride,
                              std::max(1u, std::thread::hardware_concurrency()));
    const bool within = w.error <= info.f32_ulp && w.different_bits == 0;
    char line[200];
    std::snprintf(line, sizeof line, "%-8s %7.4f ulp (bound %.1f) at %a, %a: %a%s\n",
                  info.name.data(), w.error, info.f32_ulp, static_cast<double>(w.x),
                  static_cast<double>(w.y), static_cast<double>(w.got),
                  within ? "" : "  NOT WITHIN ITS BOUND");
    std::fputs(line, stdout);
    std::fflush(stdout);
    if (!out.empty()) std::ofstream(out, std::ios::app) << line;
    good &= within;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace tandem::jit

int main(int argc, char** argv) { return tandem::jit::check_every_function(argc, argv); }
