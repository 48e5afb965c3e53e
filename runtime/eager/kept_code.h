// Code that eager operations made, by what it was made for.
#ifndef TANDEM_RUNTIME_EAGER_KEPT_CODE_H
#define TANDEM_RUNTIME_EAGER_KEPT_CODE_H

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "machine/threads/fork_lock.h"

namespace tandem::runtime::eager {

/// Keeps what says how many `held_bytes` it holds up to `max_bytes` in all; the least recently used
/// gives way, the newest stays.
template <class T>
class KeptCode {
 public:
  using Kept = std::shared_ptr<const T>;
  explicit KeptCode(int64_t max_bytes) : max_bytes_(max_bytes) {}

  /// What was kept by `key` and fits, or null.
  template <class Fits>
  Kept find(const std::string& key, Fits fits) {
    const std::lock_guard lock(mutex());
    const auto [first, last] = by_key_.equal_range(key);
    for (auto it = first; it != last; ++it) {
      if (!fits(*it->second->second)) continue;
      recent_.splice(recent_.begin(), recent_, it->second);
      return it->second->second;
    }
    return nullptr;
  }
  Kept find(const std::string& key) {
    return find(key, [](const T&) { return true; });
  }

  void keep(std::string key, Kept made) {
    const std::lock_guard lock(mutex());
    recent_.emplace_front(std::move(key), std::move(made));
    by_key_.emplace(recent_.front().first, recent_.begin());
    int64_t bytes = 0;  // of some it grows
    for (const auto& [_, kept] : recent_) bytes += kept->held_bytes;
    while (bytes > max_bytes_ && recent_.size() > 1) {
      bytes -= recent_.back().second->held_bytes;
      forget_oldest();
    }
  }

 private:
  using Entries = std::list<std::pair<const std::string, Kept>>;

  static std::mutex& mutex() { return machine::fork_safe_mutex<KeptCode>(); }

  void forget_oldest() {
    const auto oldest = std::prev(recent_.end());
    const auto [first, last] = by_key_.equal_range(oldest->first);
    for (auto it = first; it != last; ++it) {
      if (it->second != oldest) continue;
      by_key_.erase(it);
      break;
    }
    recent_.pop_back();
  }

  const int64_t max_bytes_;
  Entries recent_;  // last used first
  std::unordered_multimap<std::string_view, typename Entries::iterator> by_key_;
};

}  // namespace tandem::runtime::eager

#endif  // TANDEM_RUNTIME_EAGER_KEPT_CODE_H
