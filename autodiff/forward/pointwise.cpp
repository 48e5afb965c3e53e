// Pointwise ops: a diagonal Jacobian is its own transpose, so each rule is that of the gradient,
// but of those whose purpose is that tangents go another way than gradients.
#include "autodiff/forward/rules.h"

namespace tandem::autodiff {
namespace {

/// (Of convert the two have different dtypes.)
constexpr JvpRule pointwise(Op op) {
  switch (op) {
    case Op::convert:
    case Op::stop_backward:
      return linear(kSelf);
    case Op::keep_backward:
      return linear(kSelf | kOther);
    case Op::keep_history:
      return formula([](Along a) { return through_operands(a, [](Term t) { return t; }); });
    default:
      return kElementwise;
  }
}

}  // namespace

#define TANDEM_RULE_Pointwise(name) const JvpRule jvp_##name = pointwise(Op::name);
#define TANDEM_RULE_Reduction(name)
#define TANDEM_RULE_Scan(name)
#define TANDEM_RULE_Linalg(name)
#define TANDEM_RULE_Contraction(name)
#define TANDEM_RULE_View(name)
#define TANDEM_RULE_Shape(name)
#define TANDEM_RULE_Factory(name)
#define TANDEM_RULE_Index(name)
#define TANDEM_RULE_Random(name)
#define TANDEM_RULE_Control(name)
#define TANDEM_RULE_External(name)
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  TANDEM_RULE_##class_(name)
#include "ir/ops.def"

}  // namespace tandem::autodiff
