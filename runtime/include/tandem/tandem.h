// Everything users of Tandem include.
#ifndef TANDEM_TANDEM_H
#define TANDEM_TANDEM_H

#include <tandem/autograd.h>
#include <tandem/ops.h>
#include <tandem/tensor.h>

#endif  // TANDEM_TANDEM_H
