// The safetensors format: u64 little-endian header length, a JSON header {name: {dtype, shape,
// data_offsets}}, then the raw data in C order. Strict: no holes, no overlaps, no duplicate names,
// sizes that agree with shapes.
#ifndef TANDEM_IR_JSON_SAFETENSORS_H
#define TANDEM_IR_JSON_SAFETENSORS_H

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/export.h"
#include "ir/type.h"

namespace tandem::ir {

/// One tensor of a file: its data are bytes [begin, end) after the header.
struct SafetensorsEntry {
  std::string name;
  Type type;
  size_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their data
  std::map<std::string, std::string> metadata;
  size_t data_start = 0;  // bytes from the start of the file
};

/// Largest header that is read, in bytes, and most tensors in a file.
inline constexpr size_t kMaxSafetensorsHeader = size_t{16} << 20;
inline constexpr size_t kMaxSafetensorsEntries = 1'000'000;

/// Where the data of a file of `file_bytes` start, from its first bytes (8 are enough).
/// Error{File} says what is malformed.
TANDEM_API size_t safetensors_data_start(std::string_view start, size_t file_bytes);
/// Reads the header of a file of `file_bytes` from its bytes up to where the data start, or more.
/// Error{File} says what is malformed.
TANDEM_API SafetensorsHeader read_safetensors_header(std::string_view start, size_t file_bytes);

/// The header bytes (length prefix included, padded to 8) for tensors that are written one after
/// the other in this order. Error{Argument} for what could not be read again: names that are not
/// UTF-8, or reserved, or not unique, and too many of them.
TANDEM_API std::string write_safetensors_header(
    std::span<const SafetensorsEntry> entries,
    const std::map<std::string, std::string>& metadata = {});

/// Which file each tensor of a sharded set lies in, by name ("weight_map"). Error{File} says what
/// is malformed: among others a file that is no plain name.
TANDEM_API std::map<std::string, std::string> read_safetensors_index(std::string_view json);
TANDEM_API std::string write_safetensors_index(const std::map<std::string, std::string>& file_of,
                                               int64_t total_bytes);

}  // namespace tandem::ir

#endif  // TANDEM_IR_JSON_SAFETENSORS_H
