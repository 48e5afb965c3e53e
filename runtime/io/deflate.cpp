#include "runtime/io/deflate.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "ir/base/error.h"

namespace tandem::runtime {
namespace {

// zlib's word for the form: the window's bits, negative without a header, plus 16 with gzip's.
constexpr int kRaw = -15, kGzip = 15 + 16;
constexpr size_t kPart = size_t{1} << 20;

/// No deflated byte stands for more.
constexpr size_t kMostPerByte = 1032;

Bytef* input(std::string_view bytes) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
}

/// A stream of zlib's, ended with its scope.
template <int (*End)(z_stream*)>
struct Stream : z_stream {
  Stream() : z_stream{} {}
  ~Stream() { End(this); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// The next of what is still `left` to be read.
  void feed(std::string_view& left) {
    if (avail_in > 0 || left.empty()) return;
    const std::string_view part = left.substr(0, size_t{1} << 30);
    next_in = input(part);
    avail_in = static_cast<uInt>(part.size());
    left.remove_prefix(part.size());
  }
  /// Room for `part` bytes more behind `out`.
  void make_room(std::string& out, size_t part) {
    const size_t size = out.size();
    out.resize(size + part);
    next_out = reinterpret_cast<Bytef*>(out.data() + size);
    avail_out = static_cast<uInt>(part);
  }
};
using Inflating = Stream<inflateEnd>;
using Deflating = Stream<deflateEnd>;

[[noreturn]] void malformed(const char* what) {
  ir::fail(ir::Errc::File, fmt::format("compressed data: {}", what));
}
[[noreturn]] void out_of_memory() { ir::fail(ir::Errc::OutOfMemory, "zlib: out of memory"); }

/// One member: `left` loses what it is made of. At most `most` bytes.
void inflate_member(std::string_view& left, int form, size_t most, std::string& out) {
  Inflating stream;
  if (inflateInit2(&stream, form) != Z_OK) out_of_memory();
  const size_t start = out.size();
  for (int status = Z_OK; status != Z_STREAM_END;) {
    stream.feed(left);
    const size_t part = std::min(kPart, most - (out.size() - start) + 1);
    stream.make_room(out, part);
    status = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
    if (status == Z_MEM_ERROR) out_of_memory();
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      malformed(stream.msg != nullptr ? stream.msg : "malformed");
    if (out.size() - start > most) malformed("longer than its header says");
    if (status == Z_BUF_ERROR && stream.avail_in == 0 && left.empty()) malformed("ends too early");
  }
  left = std::string_view(left.data() - stream.avail_in, left.size() + stream.avail_in);
}

}  // namespace

std::string deflate_bytes(std::string_view bytes) {
  Deflating stream;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kRaw, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    out_of_memory();
  std::string out;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    stream.feed(bytes);
    stream.make_room(out, kPart);
    status = deflate(&stream, bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
  }
  return out;
}

std::string inflate_bytes(std::string_view compressed, size_t size) {
  if (size / kMostPerByte > compressed.size()) malformed("shorter than its header says");
  std::string out;
  inflate_member(compressed, kRaw, size, out);
  if (out.size() != size) malformed("shorter than its header says");
  if (!compressed.empty()) malformed("more bytes than its header says");
  return out;
}

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

std::string gunzip(std::string_view compressed) {
  std::string out;
  do inflate_member(compressed, kGzip, SIZE_MAX - 1 - out.size(), out);
  while (is_gzip(compressed));  // what else follows is padding
  return out;
}

uint32_t crc32_of(std::string_view bytes) {
  return static_cast<uint32_t>(crc32_z(0, input(bytes), bytes.size()));
}

}  // namespace tandem::runtime
