#include "runtime/io/zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/base/error.h"
#include "runtime/io/deflate.h"

namespace tandem::runtime {
namespace {

// What the records begin with, and how long they are without names and extras.
constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50,
                   kEnd64 = 0x06064b50, kLocator = 0x07064b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56,
                 kLocatorSize = 20;
constexpr uint32_t kIn64 = 0xffffffff;  // the number is in the 64-bit extension
constexpr uint16_t kExtra64 = 1, kDeflated = 8, kVersion = 45;
constexpr uint16_t kFirstOf1980 =
    0x21;  // the date of every member: the same tensors, the same file

[[noreturn]] void malformed(const std::string& what) { ir::fail(Errc::File, "zip: " + what); }

// --- reading

struct Directory {
  uint64_t at = 0, bytes = 0, members = 0;
};

/// Where the record of the archive's end begins: the last place that looks like one.
size_t find_end(const TensorSource& archive, std::string& tail) {
  const size_t size = std::min<size_t>(archive.bytes(), kEndSize + 0xffff);
  tail = archive.text(archive.bytes() - size, size);
  for (size_t at = size; at-- > 0;)
    if (size - at >= kEndSize && number_at<uint32_t>(tail, at) == kEnd &&
        number_at<uint16_t>(tail, at + 20) <= size - at - kEndSize)
      return at;
  malformed("no archive, or one that ends too early");
}

Directory find_directory(const TensorSource& archive) {
  std::string tail;
  const size_t end = find_end(archive, tail);
  Directory directory{number_at<uint32_t>(tail, end + 16), number_at<uint32_t>(tail, end + 12),
                      number_at<uint16_t>(tail, end + 10)};
  if (end >= kLocatorSize && number_at<uint32_t>(tail, end - kLocatorSize) == kLocator) {
    const std::string record =
        archive.text(number_at<uint64_t>(tail, end - kLocatorSize + 8), kEnd64Size);
    if (number_at<uint32_t>(record, 0) != kEnd64) malformed("no 64-bit record of the end");
    directory = {number_at<uint64_t>(record, 48), number_at<uint64_t>(record, 40),
                 number_at<uint64_t>(record, 32)};
  }
  if (directory.bytes > archive.bytes() || directory.members > directory.bytes / kCentralSize)
    malformed("directory larger than the archive");
  return directory;
}

/// The numbers of the extension stand for those that do not fit, in this order.
void read_extra(std::string_view extra, ZipMember& member) {
  while (extra.size() >= 4) {
    const size_t size = number_at<uint16_t>(extra, 2);
    if (size > extra.size() - 4) malformed(fmt::format("{}: malformed extension", member.name));
    std::string_view body = extra.substr(4, size);
    if (number_at<uint16_t>(extra, 0) == kExtra64)
      for (uint64_t* number : {&member.bytes, &member.packed, &member.header})
        if (*number == kIn64) {
          if (body.size() < 8) malformed(fmt::format("{}: malformed extension", member.name));
          *number = number_at<uint64_t>(body, 0);
          body.remove_prefix(8);
        }
    extra.remove_prefix(4 + size);
  }
}

/// The member at the start of `records`, which loses it.
ZipMember read_member(std::string_view& records) {
  if (records.size() < kCentralSize || number_at<uint32_t>(records, 0) != kCentral)
    malformed("malformed directory");
  const size_t name = number_at<uint16_t>(records, 28), extra = number_at<uint16_t>(records, 30),
               comment = number_at<uint16_t>(records, 32);
  if (name + extra + comment > records.size() - kCentralSize) malformed("malformed directory");
  ZipMember member;
  member.name = records.substr(kCentralSize, name);
  const auto method = number_at<uint16_t>(records, 10);
  if (method != 0 && method != kDeflated)
    malformed(fmt::format("{}: unknown compression {}; expected stored or deflated", member.name,
                          method));
  if ((number_at<uint16_t>(records, 8) & 1) != 0)
    malformed(fmt::format("{}: is encrypted", member.name));
  member.deflated = method == kDeflated;
  member.crc = number_at<uint32_t>(records, 16);
  member.packed = number_at<uint32_t>(records, 20);
  member.bytes = number_at<uint32_t>(records, 24);
  member.header = number_at<uint32_t>(records, 42);
  read_extra(records.substr(kCentralSize + name, extra), member);
  records.remove_prefix(kCentralSize + name + extra + comment);
  return member;
}

// --- writing

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// What local and central records share: from the version that reads it to the extras' length.
void put_common(std::string& out, const ZipMember& member, uint16_t extra) {
  put(out, kVersion);
  put(out, uint16_t{0x800});  // names are UTF-8
  put(out, static_cast<uint16_t>(member.deflated ? kDeflated : 0));
  put(out, uint16_t{0});  // midnight
  put(out, kFirstOf1980);
  put(out, member.crc);
  put(out, kIn64);
  put(out, kIn64);
  put(out, static_cast<uint16_t>(member.name.size()));
  put(out, extra);
}

void put_extra(std::string& out, const ZipMember& member, bool with_header) {
  put(out, kExtra64);
  put(out, static_cast<uint16_t>(with_header ? 24 : 16));
  put(out, member.bytes);
  put(out, member.packed);
  if (with_header) put(out, member.header);
}

}  // namespace

std::vector<ZipMember> zip_members(const TensorSource& archive) {
  const Directory directory = find_directory(archive);
  const std::string text = archive.text(directory.at, directory.bytes);
  std::string_view records = text;
  std::vector<ZipMember> members;
  std::set<std::string> names;
  for (uint64_t i = 0; i < directory.members; ++i) {
    members.push_back(read_member(records));
    if (!names.insert(members.back().name).second)
      malformed(fmt::format("{}: two members of this name", members.back().name));
  }
  return members;
}

std::string zip_contents(const TensorSource& archive, const ZipMember& member) {
  const std::string local = archive.text(member.header, kLocalSize);
  if (number_at<uint32_t>(local, 0) != kLocal)
    malformed(fmt::format("{}: is not where the directory has it", member.name));
  const size_t begin =
      member.header + kLocalSize + number_at<uint16_t>(local, 26) + number_at<uint16_t>(local, 28);
  std::string contents = archive.text(begin, member.packed);
  if (member.deflated) contents = inflate_bytes(contents, member.bytes);
  if (contents.size() != member.bytes || crc32_of(contents) != member.crc)
    malformed(fmt::format("{}: the contents do not match their checksum", member.name));
  return contents;
}

std::string ZipWriter::member(const std::string& name, std::string_view first,
                              std::string_view second) {
  std::string contents(first);
  contents += second;
  ZipMember member{name, compress_, crc32_of(contents), at_, 0, contents.size()};
  if (compress_) contents = deflate_bytes(contents);
  member.packed = contents.size();
  std::string out;
  put(out, kLocal);
  put_common(out, member, 20);
  out += name;
  put_extra(out, member, false);
  out += contents;
  at_ += out.size();
  members_.push_back(std::move(member));
  return out;
}

std::string ZipWriter::directory() const {
  std::string out;
  for (const ZipMember& member : members_) {
    put(out, kCentral);
    put(out, kVersion);
    put_common(out, member, 28);
    out.append(10, '\0');  // no comment, first disk, no attributes
    put(out, kIn64);
    out += member.name;
    put_extra(out, member, true);
  }
  const uint64_t size = out.size(), end64 = at_ + size;
  put(out, kEnd64);
  put(out, uint64_t{kEnd64Size - 12});
  put(out, kVersion);
  put(out, kVersion);
  put(out, uint64_t{0});  // this disk, and the directory's
  put(out, uint64_t{members_.size()});
  put(out, uint64_t{members_.size()});
  put(out, size);
  put(out, at_);
  put(out, kLocator);
  put(out, uint32_t{0});
  put(out, end64);
  put(out, uint32_t{1});  // disk in all
  put(out, kEnd);
  put(out, uint32_t{0});
  const auto count = static_cast<uint16_t>(std::min<size_t>(members_.size(), 0xffff));
  put(out, count);
  put(out, count);
  put(out, static_cast<uint32_t>(std::min<uint64_t>(size, kIn64)));
  put(out, static_cast<uint32_t>(std::min<uint64_t>(at_, kIn64)));
  put(out, uint16_t{0});
  return out;
}

}  // namespace tandem::runtime
