// Mutated files through the strict readers: graphs as text and as JSON, safetensors, cost tables,
// entries of the cache of object code; tables, IDX, images, vocabularies with merges.
// Most mutations keep a file valid, so that what lies behind a reader's first checks is reached.
#ifndef TANDEM_TESTS_SUPPORT_RANDOM_READER_FUZZ_H
#define TANDEM_TESTS_SUPPORT_RANDOM_READER_FUZZ_H

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::testing {

enum class FileForm : uint8_t {
  Text,
  Json,
  Safetensors,
  Costs,
  CacheEntry,
  Table,
  Idx,
  Image,
  Merges
};
inline constexpr FileForm kFileForms[] = {
    FileForm::Text,  FileForm::Json, FileForm::Safetensors, FileForm::Costs, FileForm::CacheEntry,
    FileForm::Table, FileForm::Idx,  FileForm::Image,       FileForm::Merges};
std::string_view name(FileForm form);

/// A valid file after one to four mutations; the same for a seed.
std::string mutated_file(FileForm form, uint64_t seed);

/// What became of one file.
struct ReaderVerdict {
  bool accepted = false;
  /// Empty, or what is wrong: an exception that is no Error, something read that is not written and
  /// read as the same again, or a graph that does not run.
  std::string fault;
};
ReaderVerdict check_reader(FileForm form, const std::string& file);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_RANDOM_READER_FUZZ_H
