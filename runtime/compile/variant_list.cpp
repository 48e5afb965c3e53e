#include "runtime/compile/variant_list.h"

#include <algorithm>
#include <mutex>
#include <ranges>

#include "machine/threads/fork_lock.h"
#include "runtime/compile/variant.h"

namespace tandem::runtime {
namespace {

/// Of every function's list: it is held for a look at one, and a fork must find it free.
std::mutex& list_mutex() { return machine::fork_safe_mutex<VariantList>(); }

}  // namespace

VariantList::Pointer VariantList::newest() const {
  const std::lock_guard lock(list_mutex());
  return listed_.empty() ? nullptr : listed_.back().variant;
}

ir::InlineVector<VariantList::Pointer, 2> VariantList::looking_like(uint64_t look) const {
  ir::InlineVector<Pointer, 2> found;
  const std::lock_guard lock(list_mutex());
  for (const Listed& l : listed_ | std::views::reverse)
    if (l.look == look) found.push_back(l.variant);
  return found;
}

void VariantList::add(uint64_t look, Pointer newest, int64_t most_bytes) {
  std::vector<Pointer> dropped;  // they go after the lock
  const std::lock_guard lock(list_mutex());
  listed_.push_back({look, std::move(newest)});
  added_.fetch_add(1, std::memory_order_release);
  for (int64_t bytes = held_bytes(); bytes > most_bytes && listed_.size() > 1;) {
    dropped.push_back(take_least_recently_used());
    bytes -= dropped.back()->held_bytes.load(std::memory_order_relaxed);
  }
}

const Variant& VariantList::keep(Pointer variant) {
  const std::lock_guard lock(list_mutex());
  const Variant& shown = *variant;
  if (std::ranges::find(kept_, variant) == kept_.end()) kept_.push_back(std::move(variant));
  return shown;
}

int64_t VariantList::held_bytes() const {
  int64_t bytes = 0;
  for (const Listed& l : listed_) bytes += l.variant->held_bytes.load(std::memory_order_relaxed);
  return bytes;
}

/// But for the newest.
VariantList::Pointer VariantList::take_least_recently_used() {
  const auto oldest = std::ranges::min_element(
      listed_.begin(), listed_.end() - 1, {},
      [](const Listed& l) { return l.variant->last_used.load(std::memory_order_relaxed); });
  Pointer taken = std::move(oldest->variant);
  listed_.erase(oldest);
  return taken;
}

}  // namespace tandem::runtime
