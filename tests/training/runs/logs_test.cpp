// CSV and JSON lines.
#include <gtest/gtest.h>
#include <tandem/train.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace tandem::train {
namespace {

using ir::Errc;

using testing::expect_error;
using testing::TemporaryFolder;

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

TEST(CsvLog, RowsReadBackExactly) {
  const TemporaryFolder folder;
  CsvLog log(folder / "log.csv");
  log.write(1, {{"loss", 0.1}, {"a,\"b\"", 1.0 / 3}});
  EXPECT_EQ(contents(folder / "log.csv"), "step,loss,\"a,\"\"b\"\"\"\n1,0.1,0.3333333333333333\n")
      << "before it is closed";
  log.write(2, {{"a,\"b\"", NAN}});
  log.write(3, {{"a,\"b\"", -INFINITY}, {"loss", 1e300}});
  log.write(4, {});
  EXPECT_TRUE(contents(folder / "log.csv").ends_with("\n2,,nan\n3,1e+300,-inf\n4,,\n"));
}

TEST(CsvLog, ColumnsNamedBefore) {
  const TemporaryFolder folder;
  CsvLog log(folder / "log.csv", {.columns = {"loss", "validation"}});
  EXPECT_EQ(contents(folder / "log.csv"), "step,loss,validation\n");
  log.write(10, {{"validation", 2}});
  EXPECT_EQ(contents(folder / "log.csv"), "step,loss,validation\n10,,2\n");
  expect_error(Errc::Argument, "has no column \"accuracy\"; expected one of loss, validation",
               [&] { log.write(11, {{"loss", 1}, {"accuracy", 1}}); });
  EXPECT_EQ(contents(folder / "log.csv"), "step,loss,validation\n10,,2\n");
}

TEST(CsvLog, StartsAnewOrGoesOn) {
  const TemporaryFolder folder;
  const std::string path = folder / "log.csv";
  const auto run = [&](int64_t from, int64_t to, const CsvOptions& options) {
    CsvLog log(path, options);
    for (int64_t step = from; step < to; ++step)
      log.write(step, {{"loss", static_cast<double>(step) / 7}, {"\"x\"", 1}});
  };
  run(0, 20, {});
  const std::string unbroken = contents(path);
  run(0, 15, {});
  put(path, contents(path) + "15,2.1428");  // what a kill leaves
  run(10, 20, {.resume_at = 10});
  EXPECT_EQ(contents(path), unbroken);
  run(0, 20, {.resume_at = 0});
  EXPECT_EQ(contents(path), unbroken);
  std::filesystem::remove(path);
  run(0, 20, {.resume_at = 0});
  EXPECT_EQ(contents(path), unbroken) << "nothing to resume";
  put(path, "step,lo");
  run(0, 20, {.resume_at = 0});
  EXPECT_EQ(contents(path), unbroken) << "a kill while the header was written";
}

TEST(JsonLinesLog, EachLineIsAnObject) {
  const TemporaryFolder folder;
  const std::string path = folder / "log.jsonl";
  JsonLinesLog log(path);
  log.write(1, {{"loss", 0.1}, {"a \"b\"\n\\é", 3}});
  log.write(2, {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}, {"tiny", 5e-324}});
  log.write(3, {});
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], (nlohmann::json{{"step", 1}, {"loss", 0.1}, {"a \"b\"\n\\é", 3.0}}));
  EXPECT_EQ(lines[1], (nlohmann::json{{"step", 2},
                                      {"nan", "NaN"},
                                      {"inf", "Infinity"},
                                      {"-inf", "-Infinity"},
                                      {"tiny", 5e-324}}));
  EXPECT_EQ(lines[2], (nlohmann::json{{"step", 3}}));
}

TEST(JsonLinesLog, GoesOn) {
  const TemporaryFolder folder;
  const std::string path = folder / "log.jsonl";
  {
    JsonLinesLog log(path);
    for (int step = 0; step < 5; ++step) log.write(step, {{"loss", step}});
  }
  JsonLinesLog log(path, {.resume_at = 3});
  log.write(3, {{"other", 1}});
  EXPECT_EQ(contents(path),
            "{\"step\":0,\"loss\":0}\n{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":2}\n"
            "{\"step\":3,\"other\":1}\n");
}

TEST(Logs, ForeignFilesStayAsTheyAre) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  for (const char* text : {"my thesis\nline 2\n", "step,loss\nmy thesis\n", "step,loss\n1;2\n"}) {
    put(path, text);
    expect_error(Errc::File, path + ": line ", [&] { CsvLog log(path, {.resume_at = 1}); });
    expect_error(Errc::File, path + ": line 1 gives no step; expected a log to resume",
                 [&] { JsonLinesLog log(path, {.resume_at = 1}); });
    EXPECT_EQ(contents(path), text);
  }
}

TEST(Logs, WhatCannotBeWritten) {
  const TemporaryFolder folder;
  expect_error(Errc::File, "cannot write " + (folder / "none/log"),
               [&] { CsvLog log(folder / "none/log"); });
  expect_error(Errc::File, "cannot write", [&] { JsonLinesLog log(folder.path().string()); });
  JsonLinesLog log("/dev/full");
  expect_error(Errc::File, "cannot write /dev/full: No space left", [&] { log.write(1, {}); });
}

TEST(Logs, WrongNames) {
  const TemporaryFolder folder;
  CsvLog csv(folder / "log.csv");
  JsonLinesLog json(folder / "log.jsonl");
  TensorBoardLog board(folder / "board");
  for (Log* log : std::initializer_list<Log*>{&csv, &json, &board}) {
    expect_error(Errc::Argument, "got \"\"", [&] { log->write(1, {{"", 1}}); });
    expect_error(Errc::Argument, "got \"step\"", [&] { log->write(1, {{"step", 1}}); });
    expect_error(Errc::Argument, "got \"a\" twice", [&] { log->write(1, {{"a", 1}, {"a", 2}}); });
  }
  EXPECT_EQ(contents(folder / "log.csv") + contents(folder / "log.jsonl"), "");
  expect_error(Errc::Argument, "got \"a\" twice",
               [&] { CsvLog log(folder / "x.csv", {.columns = {"a", "a"}}); });
}

}  // namespace
}  // namespace tandem::train
