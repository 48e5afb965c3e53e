// Views and view inverses by view, permute, slice and slice_scatter. Below the Traced level they
// are values like any other.
#include <numeric>

#include "decomps/rules.h"

namespace tandem::decomps::rules {

V select(Context& c) {
  const Dim index = c.attr<Dim>(Attr::index);
  const int dim = static_cast<int>(c.attr<int64_t>(Attr::dim));
  return c.b.view(c.b.slice(c[0], dim, index, index + 1), c.result.sizes);
}

V squeeze(Context& c) { return c.b.view(c[0], c.result.sizes); }
V unsqueeze(Context& c) { return c.b.view(c[0], c.result.sizes); }

V transpose(Context& c) {
  std::vector<Dim> dims(static_cast<size_t>(c.b.rank(c[0])));
  std::iota(dims.begin(), dims.end(), int64_t{0});
  const auto at = [&](Attr a) -> Dim& { return dims[static_cast<size_t>(c.attr<int64_t>(a))]; };
  if (!dims.empty()) std::swap(at(Attr::dim0), at(Attr::dim1));
  return c.b.permute(c[0], dims);
}

V alias(Context& c) { return c[0]; }
V detach(Context& c) { return c.b.stop_gradient(c[0]); }

V select_scatter(Context& c) {
  const Dim index = c.attr<Dim>(Attr::index);
  const int dim = static_cast<int>(c.attr<int64_t>(Attr::dim));
  Shape sizes = c.b.sizes(c[1]);
  sizes.insert(dim, 1);
  return c.b.slice_scatter(c[0], c.b.reshape(c[1], sizes), dim, index, index + 1, 1);
}

}  // namespace tandem::decomps::rules
