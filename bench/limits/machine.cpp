#include "bench/limits/machine.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/clock.h"
#include "machine/cpu.h"
#include "machine/memory/allocator.h"
#include "machine/threads/thread_pool.h"

namespace bench {
namespace {

using tandem::machine::parallel_for;

// Copies for the instruction sets of the day; the loop is simple enough for the compiler's
// vectoriser (this file is compiled with -O3).
#define EVERY_CPU __attribute__((target_clones("avx512f", "avx2", "default")))

EVERY_CPU void triad(float* a, const float* b, const float* c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] = b[i] + 0.5f * c[i];
}
EVERY_CPU void copy(float* a, const float* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] = b[i];
}
EVERY_CPU uint32_t sum(const uint32_t* a, int64_t n) {
  uint32_t total = 0;
  for (int64_t i = 0; i < n; ++i) total += a[i];
  return total;
}

/// A triad, or a copy where `c` is null, past the caches; `n` is a multiple of 16.
__attribute__((target("avx512f"))) void stream_512(float* a, const float* b, const float* c,
                                                   int64_t n) {
  const __m512 half = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < n; i += 16) {
    __m512 v = _mm512_load_ps(b + i);
    if (c) v = _mm512_fmadd_ps(half, _mm512_load_ps(c + i), v);
    _mm512_stream_ps(a + i, v);
  }
  _mm_sfence();
}
__attribute__((target("avx2,fma"))) void stream_256(float* a, const float* b, const float* c,
                                                    int64_t n) {
  const __m256 half = _mm256_set1_ps(0.5f);
  for (int64_t i = 0; i < n; i += 8) {
    __m256 v = _mm256_load_ps(b + i);
    if (c) v = _mm256_fmadd_ps(half, _mm256_load_ps(c + i), v);
    _mm256_stream_ps(a + i, v);
  }
  _mm_sfence();
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
      : bytes(count * sizeof(float)), data(static_cast<float*>(tandem::machine::allocate(bytes))) {
    std::fill_n(data, count, 1.0f);
  }
  Floats(const Floats&) = delete;
  ~Floats() { tandem::machine::release(data, bytes); }
  size_t bytes;
  float* data;
};

}  // namespace

double best_time(const std::function<void()>& run, double seconds) {
  run();
  double best = 1e9, total = 0;
  for (int i = 0; i < 5 || total < seconds; ++i) {
    const double s = seconds_of(run);
    best = std::min(best, s);
    total += s;
  }
  return best;
}

struct Traffic::Arrays {
  std::array<std::unique_ptr<Floats>, 3> of;
  float* at(size_t i, int64_t element) const { return of[i] ? of[i]->data + element : nullptr; }
};

Traffic::Traffic(int reads, int writes, double bytes, size_t sets)
    : reads_(reads), writes_(writes), sets_(sets) {
  lines_ = static_cast<int64_t>(bytes / (64 * (reads + writes))) + 1;
  for (Arrays& set : sets_)
    for (int i = writes == 0 ? 1 : 0; i <= reads; ++i)
      set.of[static_cast<size_t>(i)] = std::make_unique<Floats>(static_cast<size_t>(lines_) * 16);
  sums_.resize(static_cast<size_t>(tandem::machine::num_threads()) * 64);
}
Traffic::~Traffic() = default;

void Traffic::run(bool streams) {
  constexpr int64_t kGrain = 256;
  const Arrays& set = sets_[next_++ % sets_.size()];
  parallel_for(lines_, kGrain, [&](int64_t begin, int64_t end, int thread) {
    const int64_t n = 16 * (end - begin);
    float *a = set.at(0, 16 * begin), *b = set.at(1, 16 * begin), *c = set.at(2, 16 * begin);
    if (writes_ == 0)
      sums_[static_cast<size_t>(thread) * 64] = sum(reinterpret_cast<uint32_t*>(b), n);
    else if (streams)
      __builtin_cpu_supports("avx512f") ? stream_512(a, b, c, n) : stream_256(a, b, c, n);
    else
      c ? triad(a, b, c, n) : copy(a, b, n);
  });
}

bool Traffic::can_stream() const {
  return writes_ > 0 && (__builtin_cpu_supports("avx512f") ||
                         (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
}

size_t sets_from_memory(double bytes) {
  const auto cache = static_cast<double>(tandem::machine::last_level_cache_bytes());
  return static_cast<size_t>(std::max(1.0, std::ceil(kFromMemory * cache / bytes)));
}

double peak_flops(double seconds) {
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0;
  constexpr int64_t kRounds = 200000;
  const int threads = tandem::machine::num_threads();
  std::vector<float> sums(static_cast<size_t>(threads) * 64);
  const double s = best_time(
      [&] {
        parallel_for(threads, 1, [&](int64_t begin, int64_t end, int) {
          for (int64_t t = begin; t < end; ++t)
            sums[static_cast<size_t>(t) * 64] = wide ? chains_512(kRounds) : chains_256(kRounds);
        });
      },
      seconds);
  return 24.0 * (wide ? 16 : 8) * static_cast<double>(kRounds) * threads / s;
}

}  // namespace bench
