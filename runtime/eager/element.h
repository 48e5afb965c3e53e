// Element types of kernels.
#ifndef TANDEM_RUNTIME_EAGER_ELEMENT_H
#define TANDEM_RUNTIME_EAGER_ELEMENT_H

#include "machine/element.h"

namespace tandem::runtime::eager {

using machine::All;
using machine::Bf16;
using machine::Bools;
using machine::Compute;
using machine::F16;
using machine::Floats;
using machine::Integers;
using machine::Integral;
using machine::is_half;
using machine::is_negative;
using machine::load;
using machine::maximum_of;
using machine::minimum_of;
using machine::Numbers;
using machine::store;
using machine::Tag;
using machine::with_size;
using machine::with_type;

}  // namespace tandem::runtime::eager

#endif  // TANDEM_RUNTIME_EAGER_ELEMENT_H
