#include "machine/products/panels.h"

#include "machine/cpu.h"

namespace tandem::machine::products {

// (Measured on a Zen 3: 1.0 to 2.2 times as fast as oneDNN 2.6, which loses most where leading
// dimensions are powers of two. On a Xeon with AVX-512, one thread: 0.9 to 1.1 times, where A is
// transposed 1.0 to 1.5; there models gain by what needs no library: operands packed once, a bias
// added on the way, no primitive to make for a new shape.)
const Panels* panels() { return for_this_processor<Panels>(nullptr, &kPanelsAvx2, &kPanelsAvx512); }

}  // namespace tandem::machine::products
