// CPU detection through CPUID leaves 1, 7 and those of caches, and XGETBV.
#include "machine/cpu.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "ir/base/error.h"
#include "machine/threads/processors.h"

#if defined(__x86_64__)
#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tandem::machine {
namespace {

#if defined(__x86_64__)

struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf cpuid(uint32_t leaf, uint32_t subleaf) {
  Leaf r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx,
                    &r.edx);  // zeros when the leaf is absent
  return r;
}

bool bit(uint32_t word, int index) { return (word >> index) & 1; }

/// The register states that the operating system saves (XCR0), or 0 without OSXSAVE.
uint64_t saved_states(const Leaf& leaf1) {
  if (!bit(leaf1.ecx, 27)) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

/// Asks for the tiles' data, of 8 KiB, which Linux saves for a process and its later threads only
/// once that is granted. (To ask again is harmless: the library does too.)
bool may_use_tiles() {
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, kTileData) == 0;
}

CpuFeatures detect() {
  const Leaf leaf1 = cpuid(1, 0), leaf7 = cpuid(7, 0), leaf7_1 = cpuid(7, 1);
  const uint64_t states = saved_states(leaf1);
  const bool os_avx = (states & 0x6) == 0x6;          // xmm, ymm
  const bool os_avx512 = (states & 0xe6) == 0xe6;     // and opmask, both halves of zmm
  const bool os_amx = (states & 0x60000) == 0x60000;  // tile configuration and data

  CpuFeatures f;
  f.sse42 = bit(leaf1.ecx, 20) && bit(leaf1.ecx, 23);
  f.avx2 = f.sse42 && os_avx && bit(leaf1.ecx, 28) && bit(leaf7.ebx, 5);
  f.fma = f.avx2 && bit(leaf1.ecx, 12);
  f.f16c = f.avx2 && bit(leaf1.ecx, 29);
  f.avx512 = f.fma && f.f16c && os_avx512 && bit(leaf7.ebx, 16) && bit(leaf7.ebx, 17) &&
             bit(leaf7.ebx, 30) && bit(leaf7.ebx, 31);
  f.avx512_bf16 = f.avx512 && bit(leaf7_1.eax, 5);
  f.avx512_vnni = f.avx512 && bit(leaf7.ecx, 11);
  f.amx_tile = f.avx512 && os_amx && bit(leaf7.edx, 24) && may_use_tiles();
  f.amx_bf16 = f.amx_tile && bit(leaf7.edx, 22);
  f.amx_int8 = f.amx_tile && bit(leaf7.edx, 25);
  f.vector_bytes = f.avx512 ? 64 : f.avx2 ? 32 : 16;
  return f;
}

struct Cache {
  bool has_data;
  int level;
  int64_t ways, bytes;
};

/// Intel describes its caches in leaf 4, AMD in the same form in leaf 0x8000001d.
template <class F>
void for_each_cache(F f) {
  for (const uint32_t leaf : {uint32_t{4}, uint32_t{0x8000001d}})
    for (uint32_t i = 0; i < 8; ++i) {
      const Leaf cache = cpuid(leaf, i);
      const uint32_t type = cache.eax & 31, ways = (cache.ebx >> 22) + 1,
                     parts = ((cache.ebx >> 12) & 1023) + 1, line = (cache.ebx & 4095) + 1;
      if (type == 0) break;
      f(Cache{type != 2, static_cast<int>((cache.eax >> 5) & 7), ways,
              int64_t{ways} * parts * line * (int64_t{cache.ecx} + 1)});
    }
}

int64_t detect_cache_bytes() {
  int64_t most = 0;
  for_each_cache([&](const Cache& c) { most = std::max(most, c.bytes); });
  return most;
}

int64_t detect_first_level_ways() {
  int64_t ways = 0;
  for_each_cache([&](const Cache& c) {
    if (c.has_data && c.level == 1) ways = c.ways;
  });
  return ways;
}

#else

CpuFeatures detect() { return {}; }
int64_t detect_cache_bytes() { return 0; }
int64_t detect_first_level_ways() { return 0; }

#endif

CpuFeatures detect_and_lower() {
  const char* isa = std::getenv("TANDEM_ISA");
  return isa && *isa ? lower_features(detect(), isa) : detect();
}

}  // namespace

CpuFeatures lower_features(CpuFeatures f, const std::string& isa) {
  if (isa == "avx512") return f;
  if (isa != "avx2" && isa != "sse")
    ir::fail(ir::Errc::Argument,
             "TANDEM_ISA: unknown instruction set; expected avx512, avx2 or sse, got " + isa);
  f.avx512 = f.avx512_bf16 = f.avx512_vnni = f.amx_tile = f.amx_bf16 = f.amx_int8 = false;
  if (isa == "sse") f.avx2 = f.fma = f.f16c = false;
  f.vector_bytes = f.avx2 ? 32 : 16;
  return f;
}

const CpuFeatures& cpu_features() {
  static CpuFeatures features = detect_and_lower();
  return features;
}

int64_t first_level_ways() {
  static const int64_t ways = detect_first_level_ways();
  return ways;
}

int64_t last_level_cache_bytes() {
  static const int64_t bytes = detect_cache_bytes();
  return bytes;
}

int64_t own_cache_bytes() {
  constexpr int64_t kOfAProcessor = int64_t{16} << 20;
  static const int64_t bytes =
      std::min(last_level_cache_bytes(), kOfAProcessor * available_processors());
  return bytes;
}

std::string feature_string(const CpuFeatures& f) {
  const struct {
    bool present;
    const char* text;
  } table[] = {
      {f.sse42, "+sse4.2,+popcnt"},
      {f.avx2, "+avx,+avx2"},
      {f.fma, "+fma"},
      {f.f16c, "+f16c"},
      {f.avx512, "+avx512f,+avx512bw,+avx512dq,+avx512vl"},
      {f.avx512_bf16, "+avx512bf16"},
      {f.avx512_vnni, "+avx512vnni"},
      {f.amx_tile, "+amx-tile"},
      {f.amx_bf16, "+amx-bf16"},
      {f.amx_int8, "+amx-int8"},
  };
  std::string text;
  for (const auto& row : table) {
    if (row.present) text += (text.empty() ? "" : ",") + std::string(row.text);
  }
  return text;
}

}  // namespace tandem::machine
