#include "machine/products/panels.h"

#include "machine/cpu.h"

namespace tandem::machine::products {

// (Measured on a Zen 3: 1.0 to 2.2 times as fast as oneDNN 2.6, which loses most where leading
// dimensions are powers of two. With AVX-512 the library's are not yet beaten.)
const Panels* panels() {
  const CpuFeatures& cpu = cpu_features();
  return cpu.avx2 && cpu.fma && !cpu.avx512 ? &kPanelsAvx2 : nullptr;
}

}  // namespace tandem::machine::products
