// Object code kept on disk between runs. An entry holds the content that it was made from, so it is
// found by equality, not by trust in a hash, and a checksum, so that damage shows. It is no defence
// against who can write the folder.
#ifndef TANDEM_CODEGEN_JIT_OBJECT_CACHE_H
#define TANDEM_CODEGEN_JIT_OBJECT_CACHE_H

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "codegen/jit/form.h"
#include "codegen/jit/jit.h"

namespace tandem::jit {

class ObjectCache {
 public:
  /// The cache in `folder`, or in TANDEM_CACHE_DIR if that is empty; null if neither is set. A
  /// folder that does not exist is made, for its owner alone. Null, with one line on stderr, for a
  /// folder that cannot be made, belongs to somebody else or can be written by others.
  static std::shared_ptr<const ObjectCache> in(const std::string& folder);

  /// The object stored for exactly `content`; none if there is no entry or it is damaged in any
  /// way.
  std::optional<std::string> find(std::string_view content) const;
  /// Keeps the entry if it can: readers see all of it or nothing, also when this process is killed.
  void store(std::string_view content, std::string_view object) const;

  /// Where the entry of `content` lies.
  std::string path(std::string_view content) const;

  explicit ObjectCache(std::string folder) : folder_(std::move(folder)) {}

 private:
  std::string folder_;
};

/// All that the object of a module of one kernel is made from: its form, target, LLVM and this
/// library.
std::string object_content(const Form& form, const Target& target);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_OBJECT_CACHE_H
