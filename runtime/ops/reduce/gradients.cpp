// Derivatives by finite differences.
#include <tandem/ops/reductions.h>
#include <tandem/ops/shapes.h>

#include "runtime/ops/reduce/along.h"

namespace tandem {
namespace {

using ir::ErrorScope;

template <class... Args>
[[noreturn]] void reject(Errc code, fmt::format_string<Args...> text, Args&&... args) {
  ir::fail(code, ErrorScope::function() + ": " + fmt::format(text, std::forward<Args>(args)...));
}

/// The distances between neighbours along the last dimension, or the one that all have.
struct Steps {
  Tensor all;
  bool is_equal;
  Tensor operator()(int64_t start, std::optional<Dim> end = {}) const {
    return is_equal ? all : all.slice(0, start, end);
  }
};

Tensor part(const Tensor& x, int64_t start, std::optional<Dim> end = {}) {
  return x.slice(-1, start, end);
}

/// Between two neighbours, at distances h before and k behind.
Tensor inside(const Tensor& x, const Steps& steps) {
  const Tensor before = part(x, 0, -2), here = part(x, 1, -1), behind = part(x, 2);
  if (steps.is_equal) return (behind - before) / (steps.all * 2);
  const Tensor h = steps(0, -1), k = steps(1);
  return before * (-k / (h * (h + k))) + here * ((k - h) / (h * k)) + behind * (h / (k * (h + k)));
}

/// At the first of three elements, from the first at distances h and h + k.
Tensor at_first(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& h,
                const Tensor& k) {
  return x * (-(h * 2 + k) / (h * (h + k))) + y * ((h + k) / (h * k)) - z * (h / (k * (h + k)));
}

Tensor along_last(const Tensor& x, const Steps& s, int64_t edge_order) {
  if (edge_order == 1) {
    const Tensor first = (part(x, 1, 2) - part(x, 0, 1)) / s(0, 1),
                 last = (part(x, -1) - part(x, -2, -1)) / s(-1);
    return cat({first, inside(x, s), last}, -1);
  }
  const Tensor first = at_first(part(x, 0, 1), part(x, 1, 2), part(x, 2, 3), s(0, 1), s(1, 2));
  const Tensor last = at_first(part(x, -1), part(x, -2, -1), part(x, -3, -2), s(-1), s(-2, -1));
  return cat({first, inside(x, s), -last}, -1);
}

std::vector<int64_t> dims_of(const Tensor& self, const GradientOptions& o) {
  const int64_t rank = self.dim();
  std::vector<int64_t> dims;
  for (const ir::Axis d : o.dims.dims) dims.push_back(d < 0 ? d + rank : d);
  for (int64_t d = 0; d < rank && o.dims.dims.empty(); ++d) dims.push_back(d);
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] < 0 || dims[i] >= rank || std::count(dims.begin(), dims.end(), dims[i]) > 1)
      reject(Errc::Index, "dims do not fit; expected different ones of {} dimensions, got {}", rank,
             to_string(o.dims.dims));
  return dims;
}

/// steps_of(i, dim) gives the distances along the i-th of the dims.
std::vector<Tensor> derivatives(const Tensor& self, const GradientOptions& o,
                                ir::FunctionRef<Steps(size_t i, int64_t dim)> steps_of) {
  if (o.edge_order != 1 && o.edge_order != 2)
    reject(Errc::Argument, "expected an edge_order of 1 or 2, got {}", o.edge_order);
  std::vector<Tensor> results;
  const std::vector<int64_t> dims = dims_of(self, o);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (self.size(dims[i]) < o.edge_order + 1)
      reject(Errc::Shape, "too few elements; expected at least {} along each dimension, got {}",
             o.edge_order + 1, to_string(self.sizes()));
    const Tensor x = movedim(self, dims[i], -1);
    results.push_back(movedim(along_last(x, steps_of(i, dims[i]), o.edge_order), -1, dims[i]));
  }
  return results;
}

void require_count(const Tensor& self, const GradientOptions& o, size_t count) {
  if (const size_t wanted = dims_of(self, o).size(); count != wanted)
    reject(Errc::Argument, "spacing does not fit; expected one for each of {} dimensions, got {}",
           wanted, count);
}

Steps equal_steps(const Tensor& self, double spacing) {
  return {full({}, spacing, ir::is_floating(self.dtype()) ? self.dtype() : f32), true};
}

Steps steps_between(const Tensor& places, Dim count) {
  if (places.dim() != 1 || places.numel() != count)
    reject(Errc::Shape, "spacing does not fit; expected a vector of {} places, got {}",
           int64_t{count}, to_string(places.sizes()));
  return {diff(places), false};
}

}  // namespace

std::vector<Tensor> gradient(const Tensor& self, double spacing, const GradientOptions& options,
                             SourceLocation at) {
  const ErrorScope errors(at);
  return derivatives(self, options, [&](size_t, int64_t) { return equal_steps(self, spacing); });
}
std::vector<Tensor> gradient(const Tensor& self, const std::vector<double>& spacing,
                             const GradientOptions& options, SourceLocation at) {
  const ErrorScope errors(at);
  require_count(self, options, spacing.size());
  return derivatives(self, options,
                     [&](size_t i, int64_t) { return equal_steps(self, spacing[i]); });
}
std::vector<Tensor> gradient(const Tensor& self, const std::vector<Tensor>& spacing,
                             const GradientOptions& options, SourceLocation at) {
  const ErrorScope errors(at);
  require_count(self, options, spacing.size());
  return derivatives(self, options, [&](size_t i, int64_t dim) {
    return steps_between(spacing[i], self.size(dim));
  });
}

}  // namespace tandem
