// What a layer without a constructor says of bad options where it is made: its last member is
// initialized by one of these, of the members before it. (Who changes them later is refused where
// the layer is called.)
#ifndef TANDEM_NN_OPTIONS_H
#define TANDEM_NN_OPTIONS_H

#include <tandem/tensor.h>

#include <string_view>

namespace tandem::nn {

struct CheckedOptions {};

#define TANDEM_AT SourceLocation at = SourceLocation::current()

/// Error{Argument} with the layer's name unless 0 <= p <= 1.
TANDEM_API CheckedOptions require_probability(double p, std::string_view layer, TANDEM_AT);
/// Unless min <= max.
TANDEM_API CheckedOptions require_order(double min, double max, std::string_view layer, TANDEM_AT);
/// Unless the power is 1 or 2.
TANDEM_API CheckedOptions require_power(int64_t p, std::string_view layer, TANDEM_AT);
/// Unless margin > 0.
TANDEM_API CheckedOptions require_margin(double margin, std::string_view layer, TANDEM_AT);

#undef TANDEM_AT

}  // namespace tandem::nn

#endif  // TANDEM_NN_OPTIONS_H
