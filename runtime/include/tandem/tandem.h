// Tandem: tensors, automatic differentiation, compile(). Include <tandem/graph.h> to read or steer
// the compiler.
#ifndef TANDEM_TANDEM_H
#define TANDEM_TANDEM_H

#include <tandem/anomaly.h>
#include <tandem/autocast.h>
#include <tandem/autograd.h>
#include <tandem/checkpoint.h>
#include <tandem/compile.h>
#include <tandem/custom_op.h>
#include <tandem/data.h>
#include <tandem/forward.h>
#include <tandem/functionalize.h>
#include <tandem/generator.h>
#include <tandem/indexing.h>
#include <tandem/io.h>
#include <tandem/linalg.h>
#include <tandem/networks.h>
#include <tandem/nn.h>
#include <tandem/ops.h>
#include <tandem/optim.h>
#include <tandem/out_forms.h>
#include <tandem/reductions.h>
#include <tandem/results.h>
#include <tandem/scalar.h>
#include <tandem/shapes.h>
#include <tandem/sorting.h>
#include <tandem/special.h>
#include <tandem/structure.h>
#include <tandem/tensor.h>
#include <tandem/value_and_grad.h>

#endif  // TANDEM_TANDEM_H
