#include "runtime/train/event_file.h"

#include <array>
#include <cstring>

namespace tandem::runtime {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = crc_table();

/// Checksums of data that hold checksums would be weak: they are stored rotated and shifted.
uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

template <class T>
std::string bytes_of_number(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// --- protocol buffers: fields of a message

enum class Wire : uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string tag(int field, Wire wire) {
  return varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}

std::string integer_field(int field, int64_t value) {
  return tag(field, Wire::Varint) + varint(static_cast<uint64_t>(value));
}
std::string double_field(int field, double value) {
  return tag(field, Wire::Fixed64) + bytes_of_number(value);
}
std::string float_field(int field, float value) {
  return tag(field, Wire::Fixed32) + bytes_of_number(value);
}
std::string bytes_field(int field, std::string_view bytes) {
  return (tag(field, Wire::Bytes) + varint(bytes.size())).append(bytes);
}

// Field numbers of tensorflow/core/util/event.proto and framework/summary.proto.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kSummaryValue = 1, kValueTag = 1, kSimpleValue = 2;
constexpr int kSessionStatus = 1, kSessionStart = 1;

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

std::string tf_record(std::string_view data) {
  const std::string length = bytes_of_number(static_cast<uint64_t>(data.size()));
  return (length + bytes_of_number(masked(crc32c(length))))
      .append(data)
      .append(bytes_of_number(masked(crc32c(data))));
}

std::string version_event(double time) {
  return double_field(kWallTime, time) + bytes_field(kFileVersion, "brain.Event:2");
}

std::string scalars_event(double time, int64_t step, const train::Values& values) {
  std::string summary;
  for (const auto& [name, value] : values)
    summary += bytes_field(kSummaryValue, bytes_field(kValueTag, name) +
                                              float_field(kSimpleValue, static_cast<float>(value)));
  return double_field(kWallTime, time) + integer_field(kStep, step) +
         bytes_field(kSummary, summary);
}

std::string session_start_event(double time, int64_t step) {
  return double_field(kWallTime, time) + integer_field(kStep, step) +
         bytes_field(kSessionLog, integer_field(kSessionStatus, kSessionStart));
}

}  // namespace tandem::runtime
