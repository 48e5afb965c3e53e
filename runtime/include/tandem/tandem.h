// Tandem: tensors, automatic differentiation, compile(). Include <tandem/graph.h> to read or steer
// the compiler.
#ifndef TANDEM_TANDEM_H
#define TANDEM_TANDEM_H

#include <tandem/autocast.h>
#include <tandem/autograd.h>
#include <tandem/autograd/anomaly.h>
#include <tandem/autograd/checkpoint.h>
#include <tandem/autograd/forward.h>
#include <tandem/autograd/transforms.h>
#include <tandem/autograd/value_and_grad.h>
#include <tandem/autograd/vmap.h>
#include <tandem/compile.h>
#include <tandem/control_flow.h>
#include <tandem/custom_op.h>
#include <tandem/data.h>
#include <tandem/functionalize.h>
#include <tandem/generator.h>
#include <tandem/indexing.h>
#include <tandem/io.h>
#include <tandem/matmul_precision.h>
#include <tandem/nn.h>
#include <tandem/ops.h>
#include <tandem/ops/linalg.h>
#include <tandem/ops/networks.h>
#include <tandem/ops/out_forms.h>
#include <tandem/ops/quantized.h>
#include <tandem/ops/reductions.h>
#include <tandem/ops/shapes.h>
#include <tandem/ops/sorting.h>
#include <tandem/ops/special.h>
#include <tandem/optim.h>
#include <tandem/results.h>
#include <tandem/scalar.h>
#include <tandem/structure.h>
#include <tandem/tensor.h>

#endif  // TANDEM_TANDEM_H
