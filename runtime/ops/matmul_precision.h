// The precision of f32 products (<tandem/matmul_precision.h>) as others name it.
#ifndef TANDEM_RUNTIME_OPS_MATMUL_PRECISION_H
#define TANDEM_RUNTIME_OPS_MATMUL_PRECISION_H

#include <tandem/matmul_precision.h>

#include <string_view>

#include "machine/library/matmul.h"

namespace tandem::runtime {

machine::MatmulPrecision of_machine(MatmulPrecision precision);
/// "highest", "high", "medium": PyTorch's names.
std::string_view name(MatmulPrecision precision);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_OPS_MATMUL_PRECISION_H
