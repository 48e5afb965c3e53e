// Data files that somebody damaged: every byte changed, every length. They are read or refused by
// an Error; memory stays within what the file's size explains.
#include <gtest/gtest.h>
#include <tandem/data.h>
#include <tandem/tandem.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace tandem {
namespace {

using testing::expect_error;
using Read = std::function<void(const std::string&)>;

std::string fixture(const std::string& name) {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/torch/data/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void read_or_refuse(const Read& read, const std::string& bytes, int& accepted) {
  try {
    read(bytes);
    ++accepted;
  } catch (const Error& e) {
    EXPECT_FALSE(std::string(e.what()).empty());
  }
}

/// How many are read.
int try_all(const Read& read, const std::string& whole) {
  int accepted = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    read_or_refuse(read, whole.substr(0, i), accepted);
    for (const unsigned flip : {0x01u, 0x80u, 0xffu}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(static_cast<unsigned char>(changed[i]) ^ flip);
      read_or_refuse(read, changed, accepted);
    }
  }
  return accepted;
}

void decode(const std::string& bytes) { data::decode_image(bytes, {.max_pixels = 1 << 22}); }

TEST(DamagedFiles, Images) {
  for (const char* name : {"gray.png", "palette.png", "rgba.png", "deep.png", "interlaced.png",
                           "jpeg.jpg", "progressive.jpg", "jpeg_gray.jpg"}) {
    SCOPED_TRACE(name);
    const std::string whole = fixture(name);
    ASSERT_FALSE(whole.empty());
    decode(whole);
    try_all(decode, whole);
    for (size_t length = 0; length + 2 < whole.size(); ++length)  // a JPEG ends by two bytes
      EXPECT_THROW(decode(whole.substr(0, length)), Error) << length;
  }
  expect_error(Errc::Unsupported, "CMYK", [] { decode(fixture("cmyk.jpg")); });
  expect_error(Errc::File, "neither a PNG nor a JPEG", [] { decode("GIF89a"); });
  expect_error(Errc::File, "load_image: /none: cannot open", [] { data::load_image("/none"); });
}

TEST(DamagedFiles, ImagesThatSayTheyAreHuge) {
  std::string png = fixture("gray.png");
  // 65536 x 65536 pixels, and the header's checksum.
  png.replace(16, 8, std::string("\x00\x01\x00\x00\x00\x01\x00\x00", 8));
  png.replace(29, 4, "\x49\xef\x6f\x3f");
  expect_error(Errc::File, "pixels in",
               [&] { data::decode_image(png, {.max_pixels = INT64_MAX}); });
  std::string jpeg = fixture("jpeg_gray.jpg");
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, jpeg.npos);
  jpeg.replace(frame + 5, 4, "\xff\x10\xff\x10");
  expect_error(Errc::File, "pixels in",
               [&] { data::decode_image(jpeg, {.max_pixels = INT64_MAX}); });
  expect_error(Errc::File, "expected 1 to 100 pixels",
               [] { data::decode_image(fixture("rgb.png"), {.max_pixels = 100}); });
}

TEST(DamagedFiles, TablesAndIdx) {
  const int tables = try_all([](const std::string& text) { data::parse_csv(text).numbers(); },
                             "a,\"b\",c\n1,2,3\n\"4\",5.5e3,NA\r\n-7,8,9\n");
  EXPECT_GT(tables, 20);
  const testing::TemporaryFolder folder;
  const auto read = [&](const std::string& bytes) {
    std::ofstream(folder / "x", std::ios::binary) << bytes;
    data::load_idx(folder / "x");
  };
  try_all(read, std::string("\0\0\x0b\x02\0\0\0\x02\0\0\0\x01\x01\x02\x03\x04", 16));
}

}  // namespace
}  // namespace tandem
