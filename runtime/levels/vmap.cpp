// What users see of vmap: examples go in, levels are entered, all examples come out.
#include <fmt/format.h>
#include <tandem/autograd/vmap.h>
#include <tandem/ops.h>
#include <tandem/ops/shapes.h>

#include <algorithm>
#include <utility>

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "runtime/levels/batched.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/autograd.h"

namespace tandem::runtime {
namespace {

[[noreturn]] void refuse(Errc code, const std::string& problem) {
  ir::fail(code, "vmap: " + problem);
}

int wrapped(int dim, int rank, std::string_view what) {
  if (dim < -rank || dim >= rank)
    refuse(Errc::Index,
           fmt::format("{} out of range; expected {} <= dim < {}, got {}", what, -rank, rank, dim));
  return dim < 0 ? dim + rank : dim;
}

}  // namespace

VmapCall::VmapCall(const VmapOptions& options, const SourceLocation& at)
    : options_(options), at_(at) {
  if (options.chunk_size < 0)
    refuse(Errc::Argument,
           fmt::format("expected a chunk_size of at least 0, got {}", options.chunk_size));
}

VmapCall::~VmapCall() {
  if (inside_) leave_level();
}

void VmapCall::add(const Tensor& t, size_t argument) {
  given_.push_back({t, argument, {}});
  if (!t.defined()) return;
  const auto& dims = options_.in_dims;
  if (argument < dims.size() || dims.empty())
    given_.back().dim = dims.empty() ? std::optional<int>(0) : dims[argument];
}

void VmapCall::check(size_t count) {
  if (!options_.in_dims.empty() && options_.in_dims.size() != count)
    refuse(Errc::Argument, fmt::format("expected as many in_dims as arguments, {}, got {}", count,
                                       options_.in_dims.size()));
  for (Given& g : given_) {
    if (!g.dim) continue;
    const Shape& sizes = g.tensor.sizes();
    if (sizes.empty())
      refuse(Errc::Shape, fmt::format("argument {} has a tensor without dimensions; expected one "
                                      "that counts examples, or in_dims nullopt",
                                      g.argument));
    g.dim = wrapped(*g.dim, sizes.rank(), "in_dims");
    const Dim size = sizes[*g.dim];
    if (size_ >= 0 && size != size_)
      refuse(Errc::Shape, fmt::format("arguments have different numbers of examples; expected {} "
                                      "everywhere, got {} in argument {}",
                                      int64_t{size_}, int64_t{size}, g.argument));
    size_ = size;
  }
  if (size_ < 0) refuse(Errc::Argument, "no argument is batched; expected a tensor with examples");
}

bool VmapCall::next() {
  if (std::exchange(started_, true) && end_ == size_) return false;
  begin_ = end_;
  end_ = options_.chunk_size == 0 ? size_ : std::min<Dim>(size_, begin_ + options_.chunk_size);
  cursor_ = 0;
  if (options_.randomness == Randomness::Same && end_ != size_) draws_.emplace();
  enter_level(Batch{end_ - begin_, options_.randomness});
  inside_ = true;
  return true;
}

Tensor VmapCall::seen() {
  const Given& g = given_[cursor_++];
  if (!g.dim) return g.tensor;
  const LocationScope location(at_);
  const size_t depth = level_depth();
  const LevelDepth around(depth - 1);
  Tensor t = in_current_trace(g.tensor);
  if (end_ - begin_ != size_) t = narrow(t, *g.dim, begin_, end_ - begin_, at_);
  return one_example(*g.dim == 0 ? t : movedim(t, {*g.dim}, {0}, at_), depth);
}

int VmapCall::out_dim(size_t i, int rank) const {
  const auto& dims = options_.out_dims;
  if (dims.size() > 1 && i >= dims.size())
    refuse(Errc::Argument,
           fmt::format("expected an out_dim for each tensor of the result, got {}", dims.size()));
  return dims.empty() ? 0 : wrapped(dims.size() == 1 ? dims[0] : dims[i], rank, "out_dims");
}

void VmapCall::take(const Tensor& t) {
  const size_t i = cursor_++ - given_.size();
  if (i >= taken_.size()) taken_.resize(i + 1);
  if (!t.defined()) return;
  const LocationScope location(at_);
  const size_t depth = level_depth();
  const Tensor all = all_examples(in_current_trace(t), depth);
  const int dim = taken_[i].dim = out_dim(i, all.sizes().rank());
  const LevelDepth around(depth - 1);
  taken_[i].parts.push_back(dim == 0 ? all : movedim(all, {0}, {dim}, at_));
}

void VmapCall::leave() {
  inside_ = false;
  leave_level();
  draws_.reset();
  if (end_ == size_) cursor_ = 0;
}

Tensor VmapCall::result() {
  const Taken& taken = taken_[cursor_++];
  if (taken.parts.empty()) return {};
  return taken.parts.size() == 1 ? taken.parts[0] : cat(taken.parts, taken.dim, at_);
}

}  // namespace tandem::runtime
