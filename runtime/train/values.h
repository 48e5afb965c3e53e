// What every log asks of the values that it is given.
#ifndef TANDEM_RUNTIME_TRAIN_VALUES_H
#define TANDEM_RUNTIME_TRAIN_VALUES_H

#include <tandem/train/logs.h>

#include <string_view>

namespace tandem::runtime {

/// Error{Argument} for names that are empty, "step" or given twice. `log`: its class.
void check_names(std::string_view log, const train::Values& values);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TRAIN_VALUES_H
