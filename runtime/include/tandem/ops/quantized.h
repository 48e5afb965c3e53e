// Products with weights in i8, for inference: a quarter of the memory to read. Weights are
// symmetric: value * scale, one scale for each channel. They have no gradients: asking for one is
// an Error{Autograd}. <tandem/nn/quantize.h> has whole models.
#ifndef TANDEM_OPS_QUANTIZED_H
#define TANDEM_OPS_QUANTIZED_H

#include <tandem/results.h>
#include <tandem/tensor.h>

namespace tandem {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

/// self as i8 in [-127, 127], rounded to the nearest (halves to even), and the numbers that they
/// are multiples of: for each index of `axis` a 127th of the largest magnitude. Of zeros the scale
/// is 0; of what has a NaN or an infinity it is that, so that nothing of it passes for a number.
/// Detached from self's history.
TANDEM_API QuantizedInt8 quantize_int8(const Tensor& self, int64_t axis = 0, TANDEM_AT);
/// values * scale, in scale's dtype.
TANDEM_API Tensor dequantize_int8(const Tensor& self, const Tensor& scale, int64_t axis = 0,
                                  TANDEM_AT);
/// ATen's _weight_int8pack_mm: (self @ mat2^T) * scales, of self [m, k], mat2 [n, k] of i8 and
/// scales [n] of self's dtype. Summed in f32, of f64 in f64.
TANDEM_API Tensor weight_int8pack_mm(const Tensor& self, const Tensor& mat2, const Tensor& scales,
                                     TANDEM_AT);
/// ATen's _int_mm: self [m, k] @ mat2 [k, n], both of i8, in i32, which wraps.
TANDEM_API Tensor int_mm(const Tensor& self, const Tensor& mat2, TANDEM_AT);
/// linear with a weight [n, k] of i8 and its scale [n]: x [..., k] -> [..., n].
TANDEM_API Tensor int8_linear(const Tensor& x, const Tensor& weight, const Tensor& scale,
                              const Tensor& bias = {}, TANDEM_AT);
/// The same of x whose rows are brought into i8 too, as quantize_int8 does, by themselves: faster
/// where there are many, and further from linear.
TANDEM_API Tensor dynamic_int8_linear(const Tensor& x, const Tensor& weight, const Tensor& scale,
                                      const Tensor& bias = {}, TANDEM_AT);

#undef TANDEM_AT

}  // namespace tandem

#endif  // TANDEM_OPS_QUANTIZED_H
