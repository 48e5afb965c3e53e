#include "ir/attr.h"

namespace tandem::ir {

bool same(const AttrValue& a, const AttrValue& b) {
  const auto *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  return x && y ? Number(*x) == Number(*y) : a == b;
}

}  // namespace tandem::ir
