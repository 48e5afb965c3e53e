// What a Tensor handle points to: geometry over a shared storage, autograd data, and (inside a
// trace) the graph value it stands for.
#ifndef TANDEM_RUNTIME_TENSOR_TENSOR_IMPL_H
#define TANDEM_RUNTIME_TENSOR_TENSOR_IMPL_H

#include <tandem/tensor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "ir/buffer.h"
#include "ir/graph.h"
#include "runtime/tensor/view_chain.h"

namespace tandem::runtime {

class Trace;
struct Node;

/// Of an operation's results.
using TensorList = ir::InlineVector<Tensor, 2>;

/// Memory that tensors share. A traced storage has no data: it only gives aliases an identity.
class Storage {
 public:
  /// Allocates from the caching allocator; uninitialised, or filled with zeros.
  static std::shared_ptr<Storage> allocate(size_t bytes, bool zeroed = false);
  /// Wraps foreign memory; `deleter` runs when the last tensor is gone.
  static std::shared_ptr<Storage> wrap(void* data, size_t bytes, std::function<void(void*)> deleter,
                                       bool read_only);
  static std::shared_ptr<Storage> traced(bool read_only = false);
  ~Storage();

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  bool read_only() const { return read_only_; }
  /// Whether its memory is the caller's.
  bool is_foreign() const { return !owned_ && data_ != nullptr; }
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version(uint64_t by = 1) { version_.fetch_add(by, std::memory_order_relaxed); }
  /// Of a write that did not come about.
  void restore_version(uint64_t version) { version_.store(version, std::memory_order_relaxed); }
  /// A tensor over it changed its own sizes, strides or storage: counts as a write. In a trace the
  /// count of these alone is kept, for the epilogue.
  void note_rearranged() {
    bump_version();
    ++rearranged_;
  }
  int times_rearranged() const { return rearranged_; }
  /// Enlarges the memory; what is new is zero. Error{Mutation} for foreign memory.
  void grow(size_t bytes);

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  bool read_only_ = false;
  bool owned_ = false;  // from the caching allocator
  int rearranged_ = 0;
  std::atomic<uint64_t> version_{0};
  std::function<void(void*)> deleter_;  // of foreign memory; may be empty
};

/// How a view came to be: not all may be written where autograd watches, or read after a write of
/// the base or another view of it.
enum class ViewOrigin : uint8_t {
  Alone,             // in grad mode, by itself
  OneOfMany,         // by an operator that gives several views at once (split, chunk, unbind)
  WithoutGrad,       // under NoGrad
  OfCustomFunction,  // as its result, which has a history of its own
};

/// A differentiable view remembers its base, so that a write through either is seen by the other's
/// history.
struct ViewOf {
  std::shared_ptr<TensorImpl> base;  // never itself a view
  ViewChain chain;                   // from base to this
  uint64_t base_generation = 0;      // the base's history that `node` was made from
  uint64_t base_arrangement = 0;     // of the base when the view was made: `chain` starts there
  uint64_t version = 0;              // of the storage when the view was made
  ViewOrigin origin = ViewOrigin::Alone;
};

/// Autograd data of a tensor; absent (null) for tensors that never needed a gradient.
struct AutogradMeta {
  bool requires_grad = false;  // of a leaf
  bool retains_grad = false;
  Tensor grad;
  std::shared_ptr<Node> node;       // what computed it; null for leaves
  int result = 0;                   // which result of node
  std::weak_ptr<Node> accumulator;  // leaves: the node that adds into grad, while in use
  std::unique_ptr<ViewOf> view;
  uint64_t generation = 0;   // advances with every in-place write that changes the history
  uint64_t arrangement = 0;  // advances when the tensor itself changes (t_, set_, ...)
  bool has_views = false;
  std::vector<std::function<Tensor(const Tensor&)>> hooks;  // of a leaf; others keep them in node
  bool outside_history = false;  // a traced stand-in for a tensor computed outside the trace
};

/// The tangent that a tensor carries at one level of forward-mode differentiation
/// (runtime/levels/dual.h). That of a view without one is the view of its base's.
struct TangentSlot {
  uint64_t level;
  Tensor tangent;  // undefined: known to be zero
  std::shared_ptr<TangentSlot> others;
};

/// What stands for one example of many at one level of vmap (runtime/levels/batched.h).
struct Batched {
  uint64_t level;
  Tensor physical;  // all examples, [size, ...]
};

struct TensorImpl : std::enable_shared_from_this<TensorImpl> {
  std::shared_ptr<Storage> storage;
  DType dtype = DType::F32;
  Shape sizes;
  Strides strides;       // elements
  Dim offset = 0;        // elements
  bool is_weak = false;  // a Scalar or a wrapped number: lowest priority in promotion
  std::unique_ptr<AutogradMeta> autograd;
  std::shared_ptr<TangentSlot> tangents;  // by level, the last one first
  std::shared_ptr<const Batched> batched;

  // Inside a trace: the trace that made it and the value it stands for. A value of a finished trace
  // is dead.
  std::weak_ptr<Trace> trace;
  ir::ValueId value;
  std::source_location made_at;
  // The value, if it follows from constants alone (a real tensor), as of storage version
  // constant_version.
  Tensor constant;
  uint64_t constant_version = 0;

  ir::Type type() const { return {dtype, sizes, false}; }
  bool is_traced() const { return value.valid(); }
  void* data() const {
    return static_cast<char*>(storage->data()) +
           int64_t{offset} * static_cast<int64_t>(ir::size_of(dtype));
  }
  ir::BufferView view() const { return {data(), dtype, sizes, strides}; }
};

/// How far `tensor` begins behind `other`, over the same storage: in elements of the smaller of the
/// two dtypes.
Dim offset_between(const TensorImpl& tensor, const TensorImpl& other);
/// Tensor::shares_storage, asked by the library: nothing that a user's function could branch on.
bool share_storage(const Tensor& a, const Tensor& b);
/// A new contiguous tensor with its own uninitialised storage.
Tensor empty_tensor(const Shape& sizes, DType dtype);
/// The same with other strides, which must be those of a permutation of a contiguous tensor.
Tensor empty_tensor(const Shape& sizes, const Strides& strides, DType dtype);
/// A contiguous one of zeros.
Tensor zero_tensor(const Shape& sizes, DType dtype);
/// A tensor over `like`'s storage with another geometry.
Tensor view_tensor(const Tensor& like, const Shape& sizes, const Strides& strides, Dim offset);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TENSOR_TENSOR_IMPL_H
