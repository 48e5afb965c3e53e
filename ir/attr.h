// The values of attributes.
#ifndef TANDEM_IR_ATTR_H
#define TANDEM_IR_ATTR_H

#include <tandem/ir/type.h>

#include <initializer_list>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace tandem::ir {

/// One attribute's value; which alternative is held follows from the attribute's AttrType.
using AttrValue =
    std::variant<bool, int64_t, Dim, Dims, Axes, double, Number, DType, std::string, SubgraphId>;

/// Floats are the same if their bits are, or if both are NaN.
TANDEM_API bool same(const AttrValue& a, const AttrValue& b);

/// Attributes as an argument: refers to a list, or to what stands in braces in the call.
class AttrsRef : public std::span<const AttrValue> {
 public:
  AttrsRef() = default;
  AttrsRef(std::initializer_list<AttrValue> values) : span(values.begin(), values.size()) {}
  AttrsRef(std::span<const AttrValue> values) : span(values) {}     // NOLINT
  AttrsRef(const std::vector<AttrValue>& values) : span(values) {}  // NOLINT
};

}  // namespace tandem::ir

#endif  // TANDEM_IR_ATTR_H
