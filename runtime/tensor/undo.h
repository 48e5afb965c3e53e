// All or nothing: what a call changes of its caller's tensors beside their contents is changed
// first, and put back if the call fails before it has written.
#ifndef TANDEM_RUNTIME_TENSOR_UNDO_H
#define TANDEM_RUNTIME_TENSOR_UNDO_H

#include <memory>
#include <vector>

#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {

/// What tensors are (memory, geometry, autograd data, version), put back by the destructor unless
/// keep() was called.
class Undo {
 public:
  Undo() = default;
  ~Undo();
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;

  /// Notes what `t` is now, and the base that it is a view of.
  void note(const Tensor& t);
  /// Notes the version of its memory only.
  void note_version(const Tensor& t);
  /// What was changed stays.
  void keep();

 private:
  struct State {
    std::shared_ptr<TensorImpl> impl;
    std::shared_ptr<Storage> storage;
    DType dtype;
    Shape sizes;
    Strides strides;
    Dim offset;
    std::unique_ptr<AutogradMeta> autograd;
  };
  struct Version {
    std::shared_ptr<Storage> storage;
    uint64_t version;
  };
  void note(const std::shared_ptr<TensorImpl>& impl);

  std::vector<State> states_;
  std::vector<Version> versions_;
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TENSOR_UNDO_H
