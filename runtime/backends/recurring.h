// What recurs gets code of its own: an executable whose code takes all sizes becomes one for its
// sizes alone once it has run so long that to compile that pays.
#ifndef TANDEM_RUNTIME_BACKENDS_RECURRING_H
#define TANDEM_RUNTIME_BACKENDS_RECURRING_H

#include <functional>
#include <memory>

#include "ir/interfaces/backend.h"

namespace tandem::runtime {

/// Makes an executable of the same results, bit for bit, that runs faster.
using MakeOwn = std::function<std::unique_ptr<ir::Executable>()>;

/// For how many seconds an executable with so many kernels of code that takes all sizes runs before
/// code of its own has paid.
double seconds_that_pay(int general_kernels);

/// `general`, until it has run for `seconds`; then what `make_own` gives, made in the call that
/// comes next, while other threads go on with `general`. What make_own throws that call throws
/// before it runs, and a later call tries again.
std::unique_ptr<ir::Executable> with_own_code(std::unique_ptr<ir::Executable> general,
                                              MakeOwn make_own, double seconds);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_BACKENDS_RECURRING_H
