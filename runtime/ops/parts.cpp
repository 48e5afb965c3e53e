// Views of parts: free functions and methods.
#include <fmt/format.h>
#include <tandem/ops.h>

#include <algorithm>

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "runtime/tape/autograd.h"

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

std::vector<Tensor> split_with_sizes(const Tensor& self, const Shape& lengths, int64_t dim,
                                     SourceLocation at) {
  const ir::ErrorScope errors(at);
  Dim total = 0;
  for (Dim length : lengths) total += length;
  if (total != self.size(dim) || std::ranges::any_of(lengths, [](Dim d) { return d < 0; }))
    ir::fail(Errc::Argument, fmt::format("split_with_sizes: expected lengths that add up to {}, "
                                         "got {}",
                                         int64_t{self.size(dim)}, to_string(lengths)));
  std::vector<Tensor> parts;
  Dim start = 0;
  for (Dim length : lengths) {
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

std::vector<Tensor> hsplit(const Tensor& self, Dim sections, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return equal_parts("hsplit", self, sections, self.dim() > 1 ? 1 : 0, at);
}
std::vector<Tensor> vsplit(const Tensor& self, Dim sections, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (self.dim() < 2)
    ir::fail(Errc::Shape, fmt::format("vsplit: expected at least two dimensions, got {}",
                                      to_string(self.sizes())));
  return equal_parts("vsplit", self, sections, 0, at);
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

std::vector<Tensor> Tensor::split_with_sizes(const Shape& lengths, int64_t dim,
                                             SourceLocation at) const {
  return tandem::split_with_sizes(*this, lengths, dim, at);
}
std::vector<Tensor> Tensor::tensor_split(Dim sections, int64_t dim, SourceLocation at) const {
  return tandem::tensor_split(*this, sections, dim, at);
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
