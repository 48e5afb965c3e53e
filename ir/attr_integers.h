// The attributes of an op whose attributes are all integers or truth values.
#ifndef TANDEM_IR_ATTR_INTEGERS_H
#define TANDEM_IR_ATTR_INTEGERS_H

#include <vector>

#include "ir/graph.h"

namespace tandem::ir {

inline std::vector<int64_t> attr_integers(std::span<const AttrValue> attrs) {
  std::vector<int64_t> integers;
  for (const AttrValue& attr : attrs) {
    if (const auto* dim = std::get_if<Dim>(&attr))
      integers.push_back(*dim);
    else if (const auto* flag = std::get_if<bool>(&attr))
      integers.push_back(*flag ? 1 : 0);
    else
      integers.push_back(std::get<int64_t>(attr));
  }
  return integers;
}

}  // namespace tandem::ir

#endif  // TANDEM_IR_ATTR_INTEGERS_H
