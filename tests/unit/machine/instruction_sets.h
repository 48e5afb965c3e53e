// Kernels that are compiled for each instruction set: which of them this processor can run.
#ifndef TANDEM_TESTS_UNIT_MACHINE_INSTRUCTION_SETS_H
#define TANDEM_TESTS_UNIT_MACHINE_INSTRUCTION_SETS_H

#include <vector>

#include "machine/cpu.h"

namespace tandem::machine {

template <class T>
std::vector<const T*> those_that_run(const T& base, const T& avx2, const T& avx512) {
  const CpuFeatures& cpu = cpu_features();
  std::vector<const T*> out{&base};
  if (cpu.avx2 && cpu.fma) out.push_back(&avx2);
  if (cpu.avx512 && cpu.fma) out.push_back(&avx512);
  return out;
}

}  // namespace tandem::machine

#endif  // TANDEM_TESTS_UNIT_MACHINE_INSTRUCTION_SETS_H
