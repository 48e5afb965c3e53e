// What a graph needs to know of an operator that users registered: an interface, and the one
// registry of names in the process.
#ifndef TANDEM_IR_INTERFACES_CUSTOM_OPERATOR_H
#define TANDEM_IR_INTERFACES_CUSTOM_OPERATOR_H

#include <tandem/ir/buffer.h>
#include <tandem/ir/error.h>
#include <tandem/ir/export.h>
#include <tandem/ir/type.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::ir {

/// A function of its operands: results are the new contents of the arguments that the operator
/// writes, then what it returns. `arguments`: the call's numbers, as in the attribute.
class TANDEM_API CustomOperator {
 public:
  virtual ~CustomOperator() = default;
  /// Does something beside giving results, which must happen once for each call, in order.
  virtual bool is_ordered() const { return false; }
  /// Throws Error on operands that the operator does not take.
  virtual std::vector<Type> result_types(std::span<const Type> operands,
                                         std::string_view arguments) const = 0;
  /// Operands and results do not overlap; results are written completely. Any number of threads may
  /// call at once.
  virtual void run(std::span<const BufferView> operands, std::string_view arguments,
                   std::span<const BufferView> results) const = 0;
};

/// The one operator that is always registered: `arguments` are refusal_text's, running it throws
/// that Error, and its result would have the type of its last operand. So a graph can say what
/// must not be computed: a gradient that there is no formula for.
inline constexpr std::string_view kRefuse = "refuse";
TANDEM_API std::string refusal_text(Errc code, std::string_view message);

/// Makes `name` known for the rest of the process. Error{Argument} if it is taken.
TANDEM_API void register_custom_operator(const std::string& name,
                                         std::shared_ptr<const CustomOperator> custom);
/// Error{Graph} if nothing is registered under `name`.
TANDEM_API std::shared_ptr<const CustomOperator> find_custom_operator(std::string_view name);

}  // namespace tandem::ir

#endif  // TANDEM_IR_INTERFACES_CUSTOM_OPERATOR_H
