// IDX, CSV and image files, and what is done to images.
#include <gtest/gtest.h>
#include <tandem/data.h>
#include <tandem/data/transforms.h>
#include <tandem/tandem.h>

#include <cmath>
#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace tandem {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;
using Numbers = std::vector<double>;

void write(const std::string& path, std::string_view contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

std::string fixture(const std::string& name) {
  return TANDEM_SOURCE_DIR "/tests/torch/data/" + name;
}

// --- IDX

TEST(Idx, ReadsEveryType) {
  const TemporaryFolder folder;
  const auto load = [&](std::string_view contents) {
    write(folder / "x", contents);
    return data::load_idx(folder / "x");
  };
  using namespace std::string_view_literals;
  const Tensor bytes = load("\0\0\x08\x02\0\0\0\x02\0\0\0\x03\x01\x02\x03\x04\x05\xff"sv);
  EXPECT_EQ(bytes.dtype(), u8);
  EXPECT_EQ(bytes.sizes(), (Shape{2, 3}));
  EXPECT_EQ(bytes.to_vector<double>(), (Numbers{1, 2, 3, 4, 5, 255}));
  EXPECT_EQ(load("\0\0\x09\x01\0\0\0\x01\xff"sv).to_vector<double>(), (Numbers{-1}));
  EXPECT_EQ(load("\0\0\x0b\x01\0\0\0\x02\x01\0\0\x02"sv).to_vector<double>(), (Numbers{256, 2}));
  EXPECT_EQ(load("\0\0\x0c\x01\0\0\0\x01\0\x01\0\0"sv).to_vector<double>(), (Numbers{65536}));
  EXPECT_EQ(load("\0\0\x0d\x01\0\0\0\x01\x3f\x80\0\0"sv).to_vector<double>(), (Numbers{1}));
  EXPECT_EQ(load("\0\0\x0e\x01\0\0\0\x01\x3f\xf0\0\0\0\0\0\0"sv).dtype(), f64);
  EXPECT_EQ(load("\0\0\x08\x00\x07"sv).sizes(), Shape());
  EXPECT_EQ(load("\0\0\x08\x02\0\0\0\0\0\0\0\x03"sv).sizes(), (Shape{0, 3}));
}

TEST(Idx, RefusesWhatIsMalformed) {
  const TemporaryFolder folder;
  const auto refused = [&](std::string_view contents, const char* part) {
    write(folder / "x", contents);
    expect_error(Errc::File, part, [&] { data::load_idx(folder / "x"); });
  };
  using namespace std::string_view_literals;
  refused(""sv, "no IDX file");
  refused("\x01\0\x08\x01\0\0\0\0"sv, "no IDX file");
  refused("\0\0\x07\x01\0\0\0\0"sv, "unknown type of elements 0x07");
  refused("\0\0\x08\x02\0\0\0\0"sv, "2 dimensions in 8 bytes");
  refused("\0\0\x08\xff\0\0\0\0"sv, "255 dimensions");
  refused("\0\0\x08\x01\0\0\0\x02\0"sv, "1 bytes of elements; expected 2 for u8[2]");
  refused("\0\0\x08\x01\0\0\0\x01\0\0"sv, "2 bytes of elements");
  refused("\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"sv, "load_idx: ");
  refused("\x1f\x8b\x08\0garbage"sv, "compressed data");
  expect_error(Errc::File, "missing", [&] { data::load_idx(folder / "missing"); });
}

// --- CSV

constexpr std::string_view kPeople =
    "\xef\xbb\xbfname,age,\"home, town\",score\r\n"
    "Ann,31,\"St. John's\",1.5\r\n"
    "\r\n"
    "\"Bob \"\"B\"\"\",NA,\"two\nlines\",-2e3\r\n"
    "\"Cé\", 7 ,Oslo,";

TEST(Csv, GivesColumnsByName) {
  const data::Table table = data::parse_csv(kPeople);
  EXPECT_EQ(table.columns(), (std::vector<std::string>{"name", "age", "home, town", "score"}));
  ASSERT_EQ(table.rows(), 3);
  EXPECT_EQ(table.text(1, "name"), "Bob \"B\"");
  EXPECT_EQ(table.text(1, "home, town"), "two\nlines");
  EXPECT_EQ(table.texts("name")[2], "Cé");
  const Tensor scores = table.numbers("score", f64);
  EXPECT_EQ(scores.sizes(), (Shape{3}));
  EXPECT_EQ(scores[1].item(), -2000);
  EXPECT_TRUE(std::isnan(scores[2].item()));
  const Tensor both = table.numbers({"score", "age"});
  EXPECT_EQ(both.sizes(), (Shape{3, 2}));
  EXPECT_EQ(both.dtype(), f32);
  EXPECT_EQ(both[2][1].item(), 7);
  EXPECT_TRUE(std::isnan(both[1][1].item()));
}

TEST(Csv, GivesCategories) {
  const data::Table table = data::parse_csv("kind\nred\nblue\n?\nred\n");
  const auto [codes, names] = table.categories("kind");
  EXPECT_EQ(names, (std::vector<std::string>{"blue", "red"}));
  EXPECT_EQ(codes.to_vector<double>(), (Numbers{1, 0, -1, 1}));
  const auto other = table.categories("kind", {"red", "green", "blue"});
  EXPECT_EQ(other.codes.to_vector<double>(), (Numbers{0, 2, -1, 0}));
  expect_error(Errc::Parse, "line 3, column \"kind\": \"blue\"; expected one of the 1 categories",
               [&] { table.categories("kind", {"red"}); });
  expect_error(Errc::Argument, "each name once", [&] { table.categories("kind", {"a", "a"}); });
}

TEST(Csv, ReadsNumbersExactly) {
  const data::Table table =
      data::parse_csv("9007199254740993\t+1e3\ttrue\n-9223372036854775808\t3.0\t0\n",
                      {.header = false, .delimiter = '\t'});
  EXPECT_EQ(table.columns(), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(table.numbers("0", i64)[0].item<int64_t>(), 9007199254740993);
  EXPECT_EQ(table.numbers("0", i64)[1].item<int64_t>(), INT64_MIN);
  EXPECT_EQ(table.numbers("1", i16).to_vector<double>(), (Numbers{1000, 3}));
  EXPECT_EQ(table.numbers("2", boolean).to_vector<double>(), (Numbers{1, 0}));
  EXPECT_EQ(data::parse_csv("x\n1e999\n-1e-999\ninf\n").numbers("x", f64).to_vector<double>(),
            (Numbers{INFINITY, 0, INFINITY}));
}

TEST(Csv, SaysWhereSomethingIsWrong) {
  const auto refused = [](std::string_view text, const char* part, DType dtype = f32) {
    expect_error(Errc::Parse, part, [&] { data::parse_csv(text).numbers(dtype); });
  };
  refused("a,b\n1,2\n\n3\n", "text: line 4: 1 cells; expected 2");
  refused("a,b\n1,2,3\n", "line 2: 3 cells; expected 2");
  refused("a\n\"x\ny\n", "line 2: a quote that does not end");
  refused("a,b\n\"1\"2,3\n", "line 2: '2' behind a quoted cell; expected ','");
  refused("a\n\"1\n2\"\nx\n", "line 2, column \"a\": \"1\n2\"; expected a number that f32 holds");
  refused("a\n1\n1.5x\n", "line 3, column \"a\": \"1.5x\"");
  refused("a\n1.5\n", "\"1.5\"; expected a number that i64 holds", i64);
  refused("a\n256\n", "u8 holds", u8);
  refused("a\n-1\n", "u8 holds", u8);
  refused("a\n2\n", "bool holds", boolean);
  refused("a\nNA\n", "line 2, column \"a\": a missing value, which i32 has not", i32);
  refused("", "line 1: no line that names the columns");
  refused("\n\n", "no line that names the columns");
  const data::Table table = data::parse_csv("a,b,b\n1,2,3\n");
  expect_error(Errc::Argument, "no column \"c\"; there are \"a\", \"b\", \"b\"",
               [&] { table.numbers("c"); });
  expect_error(Errc::Argument, "several columns \"b\"", [&] { table.numbers("b"); });
  EXPECT_EQ(table.numbers().sizes(), (Shape{1, 3}));
  expect_error(Errc::Index, "item 1 of 1", [&] { table.text(1, "a"); });
  expect_error(Errc::Argument, "two different characters",
               [] { data::parse_csv("", {.delimiter = '"'}); });
  EXPECT_EQ(data::parse_csv("", {.header = false}).rows(), 0);
  EXPECT_EQ(data::parse_csv("a,b\n").numbers().sizes(), (Shape{0, 2}));
}

TEST(Csv, ReadsTheDigits) {
  const data::Table table =
      data::load_csv(TANDEM_SOURCE_DIR "/examples/data/digits.csv.gz", {.header = false});
  const Tensor all = table.numbers();
  const Tensor images = all.slice(1, 0, 64), labels = table.numbers("64", i64);
  EXPECT_EQ(images.sizes(), (Shape{1797, 64}));
  EXPECT_EQ(images.min().item(), 0);
  EXPECT_EQ(images.max().item(), 16);
  EXPECT_EQ(bincount(labels).to_vector<double>(),
            (Numbers{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}));
}

// --- images

void expect_near(const Tensor& got, const Tensor& expected, double tolerance) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  EXPECT_EQ(got.dtype(), u8);
  EXPECT_LE((got.to(f32) - expected.to(f32)).abs().max().item(), tolerance);
}

TEST(Images, ThoseOfPillow) {
  const NamedTensors expected = load_npz(fixture("images.npz"));
  for (const char* name :
       {"gray", "gray_alpha", "rgb", "rgba", "bits", "deep", "palette", "interlaced"}) {
    SCOPED_TRACE(name);
    expect_near(data::load_image(fixture(std::string(name) + ".png")), *find(expected, name), 0);
  }
  for (const char* name : {"jpeg", "progressive", "jpeg_gray"}) {
    SCOPED_TRACE(name);
    // Releases of libjpeg differ in the last bit.
    expect_near(data::load_image(fixture(std::string(name) + ".jpg")), *find(expected, name), 2);
  }
  expect_near(data::load_image(fixture("rgb.png"), {.mode = data::ImageMode::Gray}),
              *find(expected, "rgb_as_gray"), 0);
}

TEST(Images, ComeInTheModeThatIsAskedFor) {
  const auto sizes = [](const char* name, data::ImageMode mode) {
    return int64_t{data::load_image(fixture(name), {.mode = mode}).size(0)};
  };
  for (const char* name : {"gray.png", "gray_alpha.png", "rgb.png", "rgba.png", "jpeg_gray.jpg"}) {
    EXPECT_EQ(sizes(name, data::ImageMode::Gray), 1);
    EXPECT_EQ(sizes(name, data::ImageMode::Rgb), 3);
  }
  const Tensor rgba = data::load_image(fixture("rgba.png"));
  EXPECT_TRUE(equal(data::load_image(fixture("rgba.png"), {.mode = data::ImageMode::Rgb}),
                    rgba.slice(0, 0, 3)));
}

TEST(Images, WhatIsWrittenReadsBack) {
  const TemporaryFolder folder;
  const auto back = [&](const Tensor& image) {
    data::save_png(folder / "x.png", image);
    return data::load_image(folder / "x.png");
  };
  for (const int64_t channels : {1, 2, 3, 4}) {
    const Tensor image = randint(0, 256, {channels, 5, 300}).to(u8);
    EXPECT_TRUE(equal(back(image), image));
    EXPECT_TRUE(equal(back(image.transpose(1, 2)), image.transpose(1, 2)));
  }
  EXPECT_EQ(back(zeros({3, 4}, u8)).sizes(), (Shape{1, 3, 4}));
  EXPECT_EQ(back(tensor({{0.0, 0.5, 1.0, 2.0, -1.0, double(NAN)}})).to_vector<double>(),
            (Numbers{0, 128, 255, 255, 0, 0}));
  const auto refused = [&](Errc code, const Tensor& image) {
    expect_error(code, "save_png", [&] { back(image); });
  };
  refused(Errc::Shape, zeros({5, 2, 2}, u8));
  refused(Errc::Shape, zeros({3}, u8));
  refused(Errc::Shape, zeros({1, 0, 2}, u8));
  refused(Errc::DType, zeros({1, 2, 2}, i32));
  refused(Errc::Argument, Tensor());
}

TEST(Images, GridShowsThemAll) {
  const Tensor images = arange(1, 4).reshape({3, 1, 1, 1}).expand({3, 1, 2, 2}).to(u8);
  const Tensor grid = data::image_grid(images, 2, 1);
  EXPECT_EQ(grid.sizes(), (Shape{1, 7, 7}));
  EXPECT_EQ(grid[0].select(0, 1).to_vector<double>(), (Numbers{0, 1, 1, 0, 2, 2, 0}));
  EXPECT_EQ(grid[0].select(0, 5).to_vector<double>(), (Numbers{0, 3, 3, 0, 0, 0, 0}));
  EXPECT_EQ(data::image_grid(images).sizes(), (Shape{1, 6, 14}));
  expect_error(Errc::Shape, "expected images [N,C,H,W]",
               [] { data::image_grid(zeros({1, 2, 2})); });
}

}  // namespace
}  // namespace tandem
