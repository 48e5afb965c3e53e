// Factors and solutions of matrices: functions of the library.
#include "ir/attr_integers.h"
#include "machine/linalg/matrices.h"
#include "runtime/eager/kernel_table.h"
#include "runtime/eager/kernels.h"

namespace tandem::runtime::eager::kernels {

#define X(op)                                                                                \
  void op(const Args& a) {                                                                   \
    machine::matrices::op({a.in, ir::attr_integers(a.attrs), a.outs, ir::name(ir::Op::op)}); \
  }
TANDEM_MATRIX_FUNCTIONS(X)
#undef X

}  // namespace tandem::runtime::eager::kernels
