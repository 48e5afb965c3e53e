#include "codegen/nodes/elements.h"

#include <algorithm>
#include <utility>

namespace tandem::codegen {
namespace {

/// The least and the greatest remainder of the places divided by `modulus` (0: of the places
/// themselves), if what lies between them does not wrap around.
std::optional<std::pair<int64_t, int64_t>> remainders(const Elements& e, int64_t modulus) {
  int64_t low = e.offset, reach = 0;
  for (const auto& [size, stride] : e.runs) {
    if (modulus != 0 && stride % modulus == 0) continue;
    low += std::min<int64_t>(stride * (size - 1), 0);
    reach += std::abs(stride) * (size - 1);
  }
  if (modulus == 0) return std::pair(low, low + reach);
  low = (low % modulus + modulus) % modulus;
  if (low + reach >= modulus) return std::nullopt;
  return std::pair(low, low + reach);
}

bool are_apart(const Elements& a, const Elements& b, int64_t modulus) {
  const auto x = remainders(a, modulus), y = remainders(b, modulus);
  return x && y && (x->second < y->first || y->second < x->first);
}

}  // namespace

Elements elements_of(const View& view) {
  const Runs runs = collapsed(view);
  Elements e{view.offset, {}};
  for (size_t i = 0; i < runs.size(); ++i) e.runs.push_back(runs[i]);
  return e;
}

// As parts of a dense value differ in a coordinate: in where they lie between neighbours along the
// next larger dimension, whose stride is among the runs.
bool are_apart(const Elements& a, const Elements& b) {
  if (are_apart(a, b, 0)) return true;
  for (const Elements* e : {&a, &b})
    for (const auto& [size, stride] : e->runs)
      if (size > 1 && std::abs(stride) > 1 && are_apart(a, b, std::abs(stride))) return true;
  return false;
}

bool are_apart(const std::vector<Elements>& a, const std::vector<Elements>& b) {
  return std::ranges::all_of(a, [&](const Elements& x) {
    return std::ranges::all_of(b, [&](const Elements& y) { return are_apart(x, y); });
  });
}

}  // namespace tandem::codegen
