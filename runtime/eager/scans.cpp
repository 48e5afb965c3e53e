// Scans, sorts and searches: functions of the library.
#include "ir/attr_integers.h"
#include "machine/lines/lines.h"
#include "runtime/eager/kernel_table.h"
#include "runtime/eager/kernels.h"

namespace tandem::runtime::eager::kernels {

#define X(name)                                                      \
  void name(const Args& a) {                                         \
    if (ir::numel(a.out.sizes) != 0)                                 \
      machine::lines::name(a.in, ir::attr_integers(a.attrs), a.out); \
  }
TANDEM_LINE_FUNCTIONS(X)
#undef X

}  // namespace tandem::runtime::eager::kernels
