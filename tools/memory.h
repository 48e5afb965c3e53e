// Strided memory of graph inputs and outputs, as plain buffers.
#ifndef TANDEM_TOOLS_MEMORY_H
#define TANDEM_TOOLS_MEMORY_H

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ir/buffer.h"
#include "tools/files.h"

namespace tandem::tools {

/// An owned tensor with any strides; zero-filled. May be moved: the view stays valid.
class StridedBuffer {
 public:
  StridedBuffer() = default;
  StridedBuffer(const ir::Type& type, const ir::Strides& strides);
  StridedBuffer(StridedBuffer&&) = default;
  StridedBuffer& operator=(StridedBuffer&&) = default;
  const ir::BufferView& view() const { return view_; }

 private:
  std::shared_ptr<void> memory_;
  ir::BufferView view_;
};

/// The elements of `from` into those of `to`, which have the same dtype and sizes.
void copy_elements(const ir::BufferView& from, const ir::BufferView& to);

/// Adds the elements of `from` to those of `to`, one after the other (where several elements of
/// `to` share memory, it receives the sum).
void add_elements(const ir::BufferView& from, const ir::BufferView& to);

/// A part of view's memory.
ir::BufferView part_of(const ir::BufferView& view, ir::Dim offset, const ir::Shape& sizes,
                       const ir::Strides& strides);

/// The view that `chain` makes of `view`.
ir::BufferView view_of(ir::BufferView view, std::span<const ir::ViewStep> chain);

/// A graph's inputs: those that share memory lie in one block.
class InputMemory {
 public:
  /// Takes the tensors by name; an rng input without one gets (seed, 0).
  InputMemory(const ir::Graph& graph, const Tensors& tensors, uint64_t seed);

  std::span<const ir::BufferView> views() const { return views_; }
  const ir::BufferView& view(int input) const { return views_[static_cast<size_t>(input)]; }
  /// The input without alias_of in whose memory input `i` lies, and where (elements).
  int root(int i) const;
  ir::Dim offset_in_root(int i) const;

 private:
  void add_root(int i, const Tensors& tensors, uint64_t seed);
  void add_alias(int i);

  const ir::Graph& graph_;
  std::vector<StridedBuffer> roots_;  // by input; empty for aliases
  std::vector<ir::BufferView> views_;
};

}  // namespace tandem::tools

#endif  // TANDEM_TOOLS_MEMORY_H
