// Copies between tensors, below the tape.
#ifndef TANDEM_RUNTIME_EAGER_COPY_H
#define TANDEM_RUNTIME_EAGER_COPY_H

#include <memory>
#include <vector>

#include "runtime/eager/kernels.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {

/// Writes `from`'s elements, converted, to `to` (same sizes).
inline void copy_elements(const TensorImpl& to, const TensorImpl& from) {
  eager::copy_elements(from.view(), to.view());
}

/// Copies that are made later, between the memory that the tensors show now. They cannot fail.
class ContentCopies {
 public:
  void add(const TensorImpl& to, const TensorImpl& from) {
    copies_.push_back({to.storage, from.storage, to.view(), from.view()});
  }
  void run() const {
    for (const Copy& c : copies_) eager::copy_elements(c.from, c.to);
  }

 private:
  struct Copy {
    std::shared_ptr<Storage> to_memory, from_memory;
    ir::BufferView to, from;
  };
  std::vector<Copy> copies_;
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_EAGER_COPY_H
