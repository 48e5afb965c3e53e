// The attributes of an equation as a list.
#ifndef TANDEM_IR_ATTR_LIST_H
#define TANDEM_IR_ATTR_LIST_H

#include <utility>
#include <vector>

#include "type.h"

namespace tandem::ir {

/// `values` in order. They are moved, which an initializer list cannot do.
template <class... Values>
std::vector<AttrValue> attr_list(Values&&... values) {
  std::vector<AttrValue> list;
  list.reserve(sizeof...(values));
  (list.emplace_back(std::forward<Values>(values)), ...);
  return list;
}

}  // namespace tandem::ir

#endif  // TANDEM_IR_ATTR_LIST_H
