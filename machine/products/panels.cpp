#include "machine/products/panels.h"

#include "machine/cpu.h"

namespace tandem::machine::products {

const Panels* panels() {
  const CpuFeatures& cpu = cpu_features();
  if (cpu.avx512) return &kPanelsAvx512;
  return cpu.avx2 && cpu.fma ? &kPanelsAvx2 : nullptr;
}

}  // namespace tandem::machine::products
