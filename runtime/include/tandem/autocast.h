// Mixed precision: products and convolutions in bf16 or f16, what needs range and precision in f32
// (torch.autocast).
#ifndef TANDEM_AUTOCAST_H
#define TANDEM_AUTOCAST_H

#include <tandem/tensor.h>

namespace tandem {

struct AutocastOptions {
  bool enabled = true;  // false: a region without autocast, inside of one with it
  bool cache = true;    // parameters are converted once in the outermost region
};

/// While it lives, operations of this thread choose their dtype as PyTorch's do on CPUs
/// (torch.autocast("cpu")). Products, convolutions, attention and prelu convert f32 operands to
/// `dtype`; losses, prod, quantiles, cdist, factors and solutions of matrices, some pools and pads
/// convert halves to f32; cat, stack and index_copy take the widest; all others leave operands as
/// they are. Writing forms (x.addmm_, addmm_out) convert nothing, and neither do f64 and integers.
///
///   td::Tensor loss;
///   {
///     td::Autocast guard(td::bf16);
///     loss = td::cross_entropy(net(x), labels);  // the products in bf16, the loss in f32
///   }
///   loss.backward();                             // gradients in the parameters' dtype, f32
///   optimizer.step();
///
/// Regions nest; each function that compile() is given is compiled for the region that it is called
/// in, and may open its own. A backward computes each gradient in the dtypes of its operation,
/// wherever it is called. Error{DType} if `dtype` is neither bf16 nor f16.
class TANDEM_API Autocast {
 public:
  explicit Autocast(DType dtype = bf16, const AutocastOptions& options = {});
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  DType previous_dtype_;
  AutocastOptions previous_;
};

/// Whether this thread is in an enabled region (torch.is_autocast_enabled), and its dtype.
TANDEM_API bool autocast_enabled();
TANDEM_API DType autocast_dtype();

}  // namespace tandem

#endif  // TANDEM_AUTOCAST_H
