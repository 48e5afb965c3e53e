// Compressed bytes (zlib).
#ifndef TANDEM_RUNTIME_IO_DEFLATE_H
#define TANDEM_RUNTIME_IO_DEFLATE_H

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::runtime {

/// Raw deflate, as in zip archives.
std::string deflate_bytes(std::string_view bytes);
/// Exactly `size` bytes; Error{File} if there are more or fewer, or the data are malformed.
std::string inflate_bytes(std::string_view compressed, size_t size);

/// Whether these are the bytes of a gzip file.
bool is_gzip(std::string_view bytes);
/// The contents, checked; Error{File} if they are malformed.
std::string gunzip(std::string_view compressed);

uint32_t crc32_of(std::string_view bytes);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_IO_DEFLATE_H
