#include "runtime/networks/images.h"

#include <algorithm>
#include <limits>

#include "ir/base/error.h"

namespace tandem::runtime {

Images images(Call& c, const Tensor& t, int spatial, const char* name) {
  const V v = c.in(t, name);
  const int rank = c.b.rank(v);
  if (rank != spatial + 1 && rank != spatial + 2)
    ir::fail(Errc::Shape,
             fmt::format("{}: {} has the wrong number of dimensions; expected {} or, with a batch, "
                         "{}, got {}",
                         ir::ErrorScope::function(), name, spatial + 1, spatial + 2,
                         to_string(c.b.sizes(v))));
  const bool is_single = rank == spatial + 1;
  return {is_single ? c.b.unsqueeze(v, 0) : v, is_single};
}

namespace {

V without_n(Call& c, V v, const Images& in) {
  return in.is_single ? c.b.squeeze(v, ir::Axes{0}) : v;
}

}  // namespace

Tensor given_back(Call& c, V v, const Images& in) { return c.out(without_n(c, v, in)); }

std::array<Tensor, 2> given_back(Call& c, V first, V second, const Images& in) {
  return c.outs(without_n(c, first, in), without_n(c, second, in));
}

V widened(Call& c, V v) {
  const DType dtype = c.b.dtype(v);
  return ir::is_floating(dtype) || dtype == boolean ? v : c.b.convert(v, i64);
}

ir::Dims each(const Spatial& numbers, int spatial, const char* name) {
  const Shape& given = numbers.dims();
  if (given.rank() != 1 && given.rank() != spatial)
    ir::fail(Errc::Argument,
             fmt::format("{}: wrong number of numbers in {}; expected one, or {}, got {}",
                         ir::ErrorScope::function(), name, spatial, to_string(given)));
  ir::Dims out;
  for (int d = 0; d < spatial; ++d) out.push_back(given[given.rank() == 1 ? 0 : d]);
  return out;
}

// (Products of two such numbers, and sums of them, are within 64 bits.)
ir::Dims window_numbers(const Spatial& numbers, int spatial, const char* name) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  ir::Dims out = each(numbers, spatial, name);
  if (std::ranges::any_of(out, [](Dim n) { return n > kMost; }))
    ir::fail(Errc::Argument, fmt::format("{}: {} out of range; expected at most {}, got {}",
                                         ir::ErrorScope::function(), name, kMost, to_string(out)));
  return out;
}

ir::Dims window_numbers_or(const Spatial& numbers, const ir::Dims& other, int spatial,
                           const char* name) {
  return numbers.dims().empty() ? other : window_numbers(numbers, spatial, name);
}

ir::Dims spatial_sizes(Call& c, V v) {
  ir::Dims out;
  for (int d = 2; d < c.b.rank(v); ++d) out.push_back(c.b.sizes(v)[d]);
  return out;
}

}  // namespace tandem::runtime
