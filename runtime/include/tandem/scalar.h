// Scalar: a number that may change from call to call without recompiling. It is a handle to a 0-d
// tensor (f64 or i64) and has the lowest priority in promotion: scalar * f32 is f32.
#ifndef TANDEM_SCALAR_H
#define TANDEM_SCALAR_H

#include <tandem/tensor.h>

namespace tandem {

class TANDEM_API Scalar {
 public:
  Scalar() : Scalar(Number(0.0)) {}
  explicit Scalar(const Number& value);
  template <NumberLike N>
  explicit Scalar(N value) : Scalar(Number(value)) {}
  /// The number that a 0-d tensor holds, of the lowest priority in promotion from here on.
  explicit Scalar(const Tensor& zero_dim);

  const Tensor& tensor() const { return tensor_; }
  double value() const { return tensor_.item<double>(); }
  /// Writes the value that all copies of this handle see.
  void set(const Number& value, SourceLocation at = SourceLocation::current()) const;

 private:
  Tensor tensor_;
};

inline Located::Located(const Scalar& s, SourceLocation at) : tensor(&s.tensor()), location(at) {}

}  // namespace tandem

#endif  // TANDEM_SCALAR_H
