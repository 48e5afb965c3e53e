// The variants that a compiled function has.
#ifndef TANDEM_RUNTIME_COMPILE_VARIANT_LIST_H
#define TANDEM_RUNTIME_COMPILE_VARIANT_LIST_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ir/base/inline_vector.h"

namespace tandem::runtime {

struct Variant;

/// Safe to use from any thread: what is in the list is looked at under a lock, and used outside.
class VariantList {
 public:
  using Pointer = std::shared_ptr<const Variant>;

  /// The one that was compiled last; null if there is none.
  Pointer newest() const;
  /// Those for calls that look so (look_of), the newest first.
  ir::InlineVector<Pointer, 2> looking_like(uint64_t look) const;
  /// How many there ever were.
  size_t added() const { return added_.load(std::memory_order_acquire); }

  /// Adds the variant for calls that look so, and drops those that were used least recently while
  /// all hold more than `most_bytes`; not the newest, whatever it holds.
  void add(uint64_t look, Pointer newest, int64_t most_bytes);
  /// `variant` lives as long as the list does, though it be dropped: somebody reads its graphs.
  const Variant& keep(Pointer variant);

 private:
  struct Listed {
    uint64_t look;
    Pointer variant;
  };

  int64_t held_bytes() const;
  Pointer take_least_recently_used();

  std::vector<Listed> listed_;  // in the order in which they were compiled
  std::vector<Pointer> kept_;
  std::atomic<size_t> added_{0};
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_COMPILE_VARIANT_LIST_H
