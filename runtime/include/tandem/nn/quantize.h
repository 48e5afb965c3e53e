// Models for inference with weights in i8: every nn::Linear of a module, in place.
//
//   td::nn::quantize(model);
//   td::save(model, "model.safetensors");
//
// The module is used as before, eager or compiled. It cannot be trained: asking for a gradient
// through one of these layers is an Error{Autograd}. Its state has the weight in i8 and a
// "scale" beside it, so that what is to load it is quantised first; the state of one that is not
// does not fit, which says so.
#ifndef TANDEM_NN_QUANTIZE_H
#define TANDEM_NN_QUANTIZE_H

#include <tandem/nn/fields.h>
#include <tandem/nn/linear.h>

#include <type_traits>

namespace tandem::nn {

struct QuantizeOptions {
  // What the layers are given is brought into i8 too, row by row, and multiplied as such: faster
  // where there are many rows, and further from what was trained.
  bool dynamic = false;
};

namespace fields {
TANDEM_API void quantize(const structure::Fields& fields, const QuantizeOptions& options);
}  // namespace fields

/// Gives every nn::Linear (exactly) in the module, at any depth, a weight of i8, and a scale for
/// each of its rows; those that have one already only take the options. Layers that share a weight
/// share the new one; what else holds it, as an embedding or an optimizer, keeps the old one. A
/// Linear whose weight other fields compute (a parametrization's) is an Error{Argument}, as are
/// weights that are not finite: nothing is changed then. Not inside a trace.
template <class Module>
void quantize(Module& module, const QuantizeOptions& options = {}) {
  static_assert(!std::is_const_v<Module>, "nn::quantize: expected a module that is not const");
  fields::quantize(structure::fields_of(module), options);
}

}  // namespace tandem::nn

#endif  // TANDEM_NN_QUANTIZE_H
