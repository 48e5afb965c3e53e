// What the processor under us can do, read from its CPUID bits (never from its name: a hypervisor
// may mask that) and from what the operating system saves on a context switch.
#ifndef TANDEM_MACHINE_CPU_H
#define TANDEM_MACHINE_CPU_H

#include <cstdint>
#include <string>

namespace tandem::machine {

/// The instruction sets that kernels may use.
struct CpuFeatures {
  bool sse42 = false;  // with popcnt
  bool avx2 = false;   // with avx
  bool fma = false;
  bool f16c = false;
  bool avx512 = false;  // F, BW, DQ and VL together
  bool avx512_bf16 = false;
  bool avx512_vnni = false;
  bool amx_tile = false;  // and the operating system lets this process use it
  bool amx_bf16 = false;
  bool amx_int8 = false;
  int vector_bytes = 16;  // the widest vector that kernels use: 64, 32 or 16

  bool operator==(const CpuFeatures&) const = default;
};

/// The features of this machine, lowered by TANDEM_ISA=avx512|avx2|sse when that is set. Read once;
/// throws Error (argument) on any other value of TANDEM_ISA.
const CpuFeatures& cpu_features();

/// Of what is compiled for each instruction set (the latter two with FMA), what this processor
/// runs.
template <class T>
const T* for_this_processor(const T* base, const T* avx2, const T* avx512) {
  const CpuFeatures& cpu = cpu_features();
  if (!cpu.fma) return base;
  return cpu.avx512 ? avx512 : cpu.avx2 ? avx2 : base;
}

/// How many lines each set of the first-level data cache holds, by CPUID; 0 if that does not tell.
/// Read once.
int64_t first_level_ways();

/// Bytes of the largest cache, by CPUID; 0 if that does not tell. Read once.
int64_t last_level_cache_bytes();

/// How much of it this process can expect to find its data in: at most 16 MiB for each of its
/// processors. A virtual machine reads of the whole host's cache, whose rest is others': on 2
/// processors of a Xeon that tells of 480 MiB, arrays of 96 MiB and more come from memory even when
/// the host is quiet. Read once.
int64_t own_cache_bytes();

/// `features` without what `isa` (avx512, avx2 or sse) lacks. It never adds anything.
CpuFeatures lower_features(CpuFeatures features, const std::string& isa);

/// The features as LLVM target features ("+avx,+avx2,..."), which also serve as a cache key.
std::string feature_string(const CpuFeatures& features);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_CPU_H
