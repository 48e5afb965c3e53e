// How exactly products of f32 matrices are computed (torch.set_float32_matmul_precision).
#ifndef TANDEM_MATMUL_PRECISION_H
#define TANDEM_MATMUL_PRECISION_H

#include <tandem/ir/export.h>

#include <cstdint>

namespace tandem {

/// What large products of f32 matrices may be made of, on processors with AMX. An f32 number is
/// there split into bf16 numbers of 8 bits each, whose products are summed in f32.
///
///   Highest  f32 products and sums.
///   High     three parts, six products of parts: as exact as Highest; the root mean square of the
///            errors is 1 to 3e-7 of that of the results (of Highest 3e-7).
///   Medium   two parts, three products of parts: 5e-6. (PyTorch's medium has one part: 2e-3.)
///
/// That is, an element of A B [m, k] [k, n] differs from the exact one by less than 2^-21 (High) or
/// 2^-15 (Medium) for the parts, and k 2^-24 for the sum, times that element of |A| |B|. Infinities
/// and NaN come out as of Highest, and so do numbers too large or too small for parts: where of 32
/// rows and 32 columns one is above 2^60, or all are below 2^-70, or all products below 2^-80,
/// these are multiplied as f32. What is left is that parts and products below 2^-126 count as 0: an
/// error below k 2^-40 times the largest product among those 32 rows and columns.
///
/// Which products are computed so follows from their sizes, and is the same in eager and compiled
/// code; those of bf16 and f16 that are computed in f32 count among them. Convolutions and
/// attention stay as they are. Elsewhere, and in what a Backend of the user's own runs, the setting
/// changes nothing.
enum class MatmulPrecision : uint8_t { Highest, High, Medium };

/// Sets it for the process; at first it is Highest. A compiled function is compiled for the
/// precision that it is called with, and each gradient is computed with that of its operation.
TANDEM_API void set_float32_matmul_precision(MatmulPrecision precision);

/// This thread's: of its innermost scope, else the process's.
TANDEM_API MatmulPrecision float32_matmul_precision();

/// While it lives, this thread has a precision of its own.
class TANDEM_API MatmulPrecisionScope {
 public:
  explicit MatmulPrecisionScope(MatmulPrecision precision);
  ~MatmulPrecisionScope();
  MatmulPrecisionScope(const MatmulPrecisionScope&) = delete;
  MatmulPrecisionScope& operator=(const MatmulPrecisionScope&) = delete;

 private:
  int previous_;
};

}  // namespace tandem

#endif  // TANDEM_MATMUL_PRECISION_H
