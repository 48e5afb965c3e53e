// Event files, decoded by a reader of their own.
#include <gtest/gtest.h>
#include <tandem/train.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "runtime/train/event_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace tandem::train {
namespace {

using ir::Errc;

using testing::TemporaryFolder;

template <class T>
T number(std::string_view bytes, size_t at = 0) {
  T value;
  std::memcpy(&value, bytes.substr(at, sizeof value).data(), sizeof value);
  return value;
}

/// CRC-32C by its definition: a division of polynomials, bit by bit.
uint32_t divided(std::string_view bytes) {
  uint32_t rest = 0xffffffff;
  for (const char c : bytes) {
    rest ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) rest = rest & 1 ? rest >> 1 ^ 0x82f63b78 : rest >> 1;
  }
  return ~rest;
}

uint32_t unmasked(uint32_t stored) {
  const uint32_t rotated = stored - 0xa282ead8;
  return rotated >> 17 | rotated << 15;
}

/// The data of a TFRecord file's records.
std::vector<std::string> records(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> data;
  for (size_t at = 0; at < all.size();) {
    const auto length = number<uint64_t>(all, at);
    EXPECT_EQ(unmasked(number<uint32_t>(all, at + 8)), divided(all.substr(at, 8)));
    data.push_back(all.substr(at + 12, length));
    EXPECT_EQ(unmasked(number<uint32_t>(all, at + 12 + length)), divided(data.back()));
    at += 16 + length;
  }
  return data;
}

/// The fields of a protocol buffer message: of each number its values, numbers as their bits.
struct Message {
  std::map<int, std::vector<uint64_t>> numbers;
  std::map<int, std::vector<std::string>> strings;

  explicit Message(std::string_view bytes) {
    while (!bytes.empty()) {
      const uint64_t tag = varint(bytes);
      const int field = static_cast<int>(tag >> 3);
      if ((tag & 7) == 0) {
        numbers[field].push_back(varint(bytes));
      } else if ((tag & 7) == 2) {
        const uint64_t size = varint(bytes);
        strings[field].emplace_back(bytes.substr(0, size));
        bytes.remove_prefix(size);
      } else {
        const size_t size = (tag & 7) == 1 ? 8 : 4;
        numbers[field].push_back(size == 8 ? number<uint64_t>(bytes) : number<uint32_t>(bytes));
        bytes.remove_prefix(size);
      }
    }
  }

  static uint64_t varint(std::string_view& bytes) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
};

double double_of(uint64_t bits) { return std::bit_cast<double>(bits); }
float float_of(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }

TEST(TensorBoardLog, Checksum) {
  EXPECT_EQ(runtime::crc32c("123456789"), 0xe3069283u);  // the catalogues' check value
  EXPECT_EQ(runtime::crc32c(""), 0u);
  std::string bytes;
  for (int i = 0; i < 300; ++i) bytes += static_cast<char>(i * 37);
  EXPECT_EQ(runtime::crc32c(bytes), divided(bytes));
}

TEST(TensorBoardLog, Scalars) {
  const TemporaryFolder folder;
  TensorBoardLog log(folder / "runs/first");
  const double before =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  log.write(0, {{"loss/train", 0.1}, {"lr", 1e-3}});
  log.write(int64_t{1} << 40, {{"loss/train", NAN}});
  EXPECT_NE(log.path().find("/events.out.tfevents."), std::string::npos);
  EXPECT_EQ(std::filesystem::path(log.path()).parent_path(), folder / "runs/first");
  const std::vector<std::string> all = records(log.path());
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(Message(all[0]).strings.at(3).at(0), "brain.Event:2");
  const Message first(all[1]);
  EXPECT_EQ(first.numbers.at(2).at(0), 0u);
  EXPECT_GE(double_of(first.numbers.at(1).at(0)), before);
  EXPECT_LT(double_of(first.numbers.at(1).at(0)), before + 600);
  const Message summary(first.strings.at(5).at(0));
  ASSERT_EQ(summary.strings.at(1).size(), 2u);
  const Message loss(summary.strings.at(1)[0]), lr(summary.strings.at(1)[1]);
  EXPECT_EQ(loss.strings.at(1).at(0), "loss/train");
  EXPECT_EQ(float_of(loss.numbers.at(2).at(0)), 0.1f);
  EXPECT_EQ(lr.strings.at(1).at(0), "lr");
  EXPECT_EQ(float_of(lr.numbers.at(2).at(0)), 1e-3f);
  const Message second(all[2]);
  EXPECT_EQ(second.numbers.at(2).at(0), uint64_t{1} << 40);
  const Message value(Message(second.strings.at(5).at(0)).strings.at(1).at(0));
  EXPECT_TRUE(std::isnan(float_of(value.numbers.at(2).at(0))));
}

TEST(TensorBoardLog, AResumedOneForgetsLaterSteps) {
  const TemporaryFolder folder;
  const TensorBoardLog first(folder / "runs");
  const TensorBoardLog second(folder / "runs", {.resume_at = 100});
  EXPECT_NE(first.path(), second.path());
  const std::vector<std::string> all = records(second.path());
  ASSERT_EQ(all.size(), 2u);
  const Message start(all[1]);
  EXPECT_EQ(start.numbers.at(2).at(0), 100u);
  EXPECT_EQ(Message(start.strings.at(7).at(0)).numbers.at(1).at(0), 1u);  // SessionLog.START
}

TEST(TensorBoardLog, WhatCannotBeWritten) {
  testing::expect_error(Errc::File, "TensorBoardLog: /dev/null/x: Not a directory",
                        [] { TensorBoardLog log("/dev/null/x"); });
}

}  // namespace
}  // namespace tandem::train
