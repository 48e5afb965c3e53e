#include "bench/limits/machine.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "codegen/exec/allocator.h"
#include "codegen/exec/thread_pool.h"

namespace bench {
namespace {

using tandem::exec::parallel_for;

// Copies for the instruction sets of the day; the loop is simple enough for the compiler's
// vectoriser (this file is compiled with -O3).
#define EVERY_CPU __attribute__((target_clones("avx512f", "avx2", "default")))

EVERY_CPU void triad(float* a, const float* b, const float* c, float s, int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] = b[i] + s * c[i];
}

/// Twelve independent chains, 24 operations a lane and round; the sum keeps them alive. They start
/// differently, or the compiler would make them one.
__attribute__((target("avx512f"))) float chains_512(int64_t rounds) {
  __m512 v[12], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
  for (int i = 0; i < 12; ++i) v[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t r = 0; r < rounds; ++r)
    for (__m512& chain : v) chain = _mm512_fmadd_ps(chain, x, y);
  for (int i = 1; i < 12; ++i) v[0] += v[i];
  return v[0][0] + v[0][15];
}
__attribute__((target("avx2,fma"))) float chains_256(int64_t rounds) {
  __m256 v[12], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  for (int i = 0; i < 12; ++i) v[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int64_t r = 0; r < rounds; ++r)
    for (__m256& chain : v) chain = _mm256_fmadd_ps(chain, x, y);
  for (int i = 1; i < 12; ++i) v[0] += v[i];
  return v[0][0] + v[0][7];
}

/// Memory of the library's own allocator: the pages that its kernels use.
struct Floats {
  explicit Floats(size_t count)
      : bytes(count * sizeof(float)), data(static_cast<float*>(tandem::exec::allocate(bytes))) {
    std::fill_n(data, count, 1.0f);
  }
  Floats(const Floats&) = delete;
  ~Floats() { tandem::exec::release(data, bytes); }
  size_t bytes;
  float* data;
};

}  // namespace

double best_time(const std::function<void()>& run, double seconds) {
  using Clock = std::chrono::steady_clock;
  run();
  double best = 1e9, total = 0;
  for (int i = 0; i < 5 || total < seconds; ++i) {
    const auto start = Clock::now();
    run();
    const double s = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, s);
    total += s;
  }
  return best;
}

double triad_bandwidth(size_t bytes) {
  const auto count = static_cast<int64_t>(std::max<size_t>(bytes / 12, 1024));
  Floats a(static_cast<size_t>(count)), b(static_cast<size_t>(count)),
      c(static_cast<size_t>(count));
  const double s = best_time([&] {
    parallel_for(count, 4096, [&](int64_t begin, int64_t end, int) {
      triad(a.data + begin, b.data + begin, c.data + begin, 0.5f, end - begin);
    });
  });
  return 12.0 * static_cast<double>(count) / s;
}

double peak_flops() {
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0;
  constexpr int64_t kRounds = 200000;
  const int threads = tandem::exec::num_threads();
  std::vector<float> sums(static_cast<size_t>(threads) * 64);
  const double s = best_time([&] {
    parallel_for(threads, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t)
        sums[static_cast<size_t>(t) * 64] = wide ? chains_512(kRounds) : chains_256(kRounds);
    });
  });
  return 24.0 * (wide ? 16 : 8) * static_cast<double>(kRounds) * threads / s;
}

}  // namespace bench
