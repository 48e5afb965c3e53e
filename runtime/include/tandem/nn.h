// Modules: plain structs whose fields are tensors and other modules, listed by TANDEM_FIELDS. A
// module is called like a function; its parameters and buffers are named by their path
// ("blocks.0.attn.weight"), as in PyTorch's state_dict.
#ifndef TANDEM_NN_H
#define TANDEM_NN_H

#include <tandem/nn/activation.h>
#include <tandem/nn/adaptive_softmax.h>
#include <tandem/nn/attention.h>
#include <tandem/nn/averaged_model.h>
#include <tandem/nn/convolution.h>
#include <tandem/nn/dropout.h>
#include <tandem/nn/embedding.h>
#include <tandem/nn/init.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/module.h>
#include <tandem/nn/normalization.h>
#include <tandem/nn/parametrizations.h>
#include <tandem/nn/pooling.h>
#include <tandem/nn/quantize.h>
#include <tandem/nn/recurrent.h>
#include <tandem/nn/sequential.h>
#include <tandem/nn/shape.h>

#endif  // TANDEM_NN_H
