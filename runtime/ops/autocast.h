// What autocast does to the operands of one public function.
#ifndef TANDEM_RUNTIME_OPS_AUTOCAST_H
#define TANDEM_RUNTIME_OPS_AUTOCAST_H

#include <tandem/autocast.h>
#include <tandem/tensor.h>

#include <initializer_list>
#include <string>
#include <string_view>

namespace tandem::runtime {

/// Of this thread; compiled functions are guarded by it.
struct AutocastState {
  DType dtype = DType::BF16;
  AutocastOptions options{.enabled = false};
  bool operator==(const AutocastState& other) const;
};
const AutocastState& autocast_state();
/// "bf16", or "off".
std::string to_string(const AutocastState& state);

enum class CastPolicy : uint8_t {
  None,
  Lower,   // to the region's dtype
  Full,    // to f32
  Widest,  // to f32 if one of some operands is
};

/// The operands of one call of a public function. While it lives, what the function calls in turn
/// converts nothing.
class OperandCasts {
 public:
  explicit OperandCasts(std::string_view function);
  ~OperandCasts();
  OperandCasts(const OperandCasts&) = delete;
  OperandCasts& operator=(const OperandCasts&) = delete;

  bool active() const { return policy_ != CastPolicy::None; }
  /// `t` itself, or converted.
  Tensor operator()(const Tensor& t) const;
  /// Operands that are to have one dtype, before the first of them is asked for.
  void note_together(std::initializer_list<const Tensor*> operands);

 private:
  CastPolicy policy_ = CastPolicy::None;
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_OPS_AUTOCAST_H
