// Views of parts: free functions and methods.
#include <fmt/format.h>
#include <tandem/ops/shapes.h>

#include <algorithm>

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "runtime/tape/autograd.h"
#include "runtime/trace/trace.h"

namespace tandem {
namespace {

/// As one operator's results, which autograd does not let be written. (Parts of a view made under
/// NoGrad are of that origin too.)
std::vector<Tensor> together(std::vector<Tensor> parts) {
  for (const Tensor& t : parts) {
    const runtime::ViewOf* view = runtime::view_of(t);
    if (view != nullptr && view->origin == runtime::ViewOrigin::Alone)
      runtime::note_origin(t, runtime::ViewOrigin::OneOfMany);
  }
  return parts;
}

}  // namespace

std::vector<Tensor> unbind(const Tensor& self, int64_t dim, SourceLocation at) {
  const ir::ErrorScope errors(at);
  std::vector<Tensor> parts;
  for (Dim i = 0; i < self.size(dim); i += 1) parts.push_back(select(self, dim, i, at));
  return together(std::move(parts));
}

std::vector<Tensor> split_with_sizes(const Tensor& self, const std::vector<Dim>& lengths,
                                     int64_t dim, SourceLocation at) {
  const ir::ErrorScope errors(at);
  Dim total = 0;
  for (Dim length : lengths) total += length;
  if (total != self.size(dim) || std::ranges::any_of(lengths, [](Dim d) { return d < 0; }))
    ir::fail(Errc::Argument, fmt::format("split_with_sizes: expected lengths that add up to {}, "
                                         "got {}",
                                         int64_t{self.size(dim)}, to_string(lengths)));
  std::vector<Tensor> parts;
  Dim start = 0;
  for (const Dim length : lengths) {
    parts.push_back(slice(self, dim, start, start + length, 1, at));
    start += length;
  }
  return together(std::move(parts));
}

std::vector<Tensor> tensor_split(const Tensor& self, const std::vector<Dim>& indices, int64_t dim,
                                 SourceLocation at) {
  const ir::ErrorScope errors(at);
  std::vector<Tensor> parts;
  Dim start = 0;
  for (Dim end : indices) {
    parts.push_back(slice(self, dim, start, end, 1, at));
    start = end;
  }
  parts.push_back(slice(self, dim, start, {}, 1, at));
  return parts;
}

std::vector<Tensor> tensor_split(const Tensor& self, Dim sections, int64_t dim, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (sections < 1)
    ir::fail(Errc::Argument,
             fmt::format("tensor_split: expected at least 1 section, got {}", int64_t{sections}));
  const Dim size = self.size(dim), rest = size % sections;
  std::vector<Dim> cuts;
  for (Dim i = 1; i < sections; i += 1)
    cuts.push_back(i * (size / sections) + std::min<int64_t>(i, rest));
  return tensor_split(self, cuts, dim, at);
}

namespace {

std::vector<Tensor> equal_parts(const char* name, const Tensor& self, Dim sections, int64_t dim,
                                const SourceLocation& at) {
  if (sections < 1 || self.size(dim) % sections != 0)
    ir::fail(Errc::Argument, fmt::format("{}: expected a number of sections that divides {}, got "
                                         "{}",
                                         name, int64_t{self.size(dim)}, int64_t{sections}));
  return tensor_split(self, sections, dim, at);
}

}  // namespace

namespace {

/// The dimension that hsplit, vsplit and dsplit cut.
int64_t cut_dim(const char* name, const Tensor& self, int64_t dim) {
  if (self.dim() <= dim)
    ir::fail(Errc::Shape, fmt::format("{}: too few dimensions; expected at least {}, got {}", name,
                                      dim + 1, to_string(self.sizes())));
  return dim;
}
int64_t horizontal(const Tensor& self) { return self.dim() > 1 ? 1 : 0; }

}  // namespace

#define CUTS(op, along)                                                                            \
  std::vector<Tensor> op(const Tensor& self, Dim sections, SourceLocation at) {                    \
    const ir::ErrorScope errors(at);                                                               \
    return equal_parts(#op, self, sections, cut_dim(#op, self, along), at);                        \
  }                                                                                                \
  std::vector<Tensor> op(const Tensor& self, const std::vector<Dim>& indices, SourceLocation at) { \
    const ir::ErrorScope errors(at);                                                               \
    return tensor_split(self, indices, cut_dim(#op, self, along), at);                             \
  }                                                                                                \
  std::vector<Tensor> Tensor::op(Dim sections, SourceLocation at) const {                          \
    return tandem::op(*this, sections, at);                                                        \
  }                                                                                                \
  std::vector<Tensor> Tensor::op(const std::vector<Dim>& indices, SourceLocation at) const {       \
    return tandem::op(*this, indices, at);                                                         \
  }
CUTS(hsplit, horizontal(self))
CUTS(vsplit, (self.dim() > 1 ? 0 : 1))
CUTS(dsplit, 2)
#undef CUTS

std::vector<Tensor> tensor_split(const Tensor& self, const Tensor& indices_or_sections, int64_t dim,
                                 SourceLocation at) {
  const ir::ErrorScope errors(at);
  const Tensor& cuts = indices_or_sections;
  if (cuts.dtype() != i64 || cuts.dim() > 1)
    ir::fail(Errc::Argument, fmt::format("tensor_split: expected a number of sections or a vector "
                                         "of indices, of i64, got {} of {}",
                                         to_string(cuts.sizes()), ir::name(cuts.dtype())));
  if (runtime::Trace::current() != nullptr)
    ir::fail(Errc::Trace,
             "tensor_split: sizes depend on data, which a trace cannot hold; expected "
             "numbers, got a tensor inside a trace");
  if (cuts.dim() == 0) return tensor_split(self, Dim(cuts.item<int64_t>(at)), dim, at);
  const std::vector<int64_t> numbers = cuts.to_vector<int64_t>();
  return tensor_split(self, std::vector<Dim>(numbers.begin(), numbers.end()), dim, at);
}

std::vector<Tensor> split(const Tensor& self, const std::vector<Dim>& lengths, int64_t dim,
                          SourceLocation at) {
  const ir::ErrorScope errors(at);
  return split_with_sizes(self, lengths, dim, at);
}

std::vector<Tensor> split(const Tensor& self, Dim size, int64_t dim, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (size < 1)
    ir::fail(Errc::Argument,
             fmt::format("split: expected parts of at least 1, got {}", int64_t{size}));
  const Dim total = self.size(dim);
  std::vector<Tensor> parts;
  for (Dim start = 0; start < total || parts.empty(); start += size)
    parts.push_back(slice(self, dim, start, std::min<int64_t>(start + size, total), 1, at));
  return together(std::move(parts));
}

std::vector<Tensor> chunk(const Tensor& self, Dim chunks, int64_t dim, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (chunks < 1)
    ir::fail(Errc::Argument,
             fmt::format("chunk: expected at least 1 part, got {}", int64_t{chunks}));
  return split(self, std::max<int64_t>((self.size(dim) + chunks - 1) / chunks, 1), dim, at);
}

// --- as methods

std::vector<Tensor> Tensor::split_with_sizes(const std::vector<Dim>& lengths, int64_t dim,
                                             SourceLocation at) const {
  return tandem::split_with_sizes(*this, lengths, dim, at);
}
std::vector<Tensor> Tensor::tensor_split(Dim sections, int64_t dim, SourceLocation at) const {
  return tandem::tensor_split(*this, sections, dim, at);
}
std::vector<Tensor> Tensor::tensor_split(const Tensor& indices_or_sections, int64_t dim,
                                         SourceLocation at) const {
  return tandem::tensor_split(*this, indices_or_sections, dim, at);
}
std::vector<Tensor> Tensor::split(const std::vector<Dim>& lengths, int64_t dim,
                                  SourceLocation at) const {
  return tandem::split(*this, lengths, dim, at);
}
std::vector<Tensor> Tensor::chunk(Dim chunks, int64_t dim, SourceLocation at) const {
  return tandem::chunk(*this, chunks, dim, at);
}
std::vector<Tensor> Tensor::split(Dim size, int64_t dim, SourceLocation at) const {
  return tandem::split(*this, size, dim, at);
}
std::vector<Tensor> Tensor::unbind(int64_t dim, SourceLocation at) const {
  return tandem::unbind(*this, dim, at);
}

}  // namespace tandem
