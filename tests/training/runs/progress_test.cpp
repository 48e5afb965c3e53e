// The progress bar, on a terminal and elsewhere.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <tandem/train.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <regex>
#include <thread>

#include "tests/support/expect_error.h"

namespace tandem::train {
namespace {

using ir::Errc;

std::string contents(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  return text;
}

/// What a run of `steps` prints into a file.
std::string printed(int64_t steps, ProgressOptions options = {}) {
  std::FILE* file = std::tmpfile();
  options.out = file;
  {
    Progress progress(steps, options);
    for (int64_t step = options.start; step < steps; ++step)
      progress.show(step + 1, {{"loss", 1.0 / static_cast<double>(step + 1)}, {"lr", 1e-5}});
  }
  const std::string text = contents(file);
  std::fclose(file);
  return text;
}

int64_t lines_of(const std::string& text) { return std::ranges::count(text, '\n'); }

TEST(Progress, LinesWhereThereIsNoTerminal) {
  const std::string text = printed(100, {.items_per_step = 64, .unit = "tokens"});
  EXPECT_EQ(lines_of(text), 10);
  EXPECT_TRUE(std::regex_search(
      text, std::regex(R"((^|\n)\[###\.{27}\] 10/100  loss 0\.1000  lr 1\.000e-05  )"
                       R"([0-9.]+ tokens/s  0:\d\d left\n)")))
      << text;
  EXPECT_TRUE(std::regex_search(text, std::regex(R"(\[#{30}\] 100/100  loss 0\.0100 )"))) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(Progress, FewManyAndNoSteps) {
  EXPECT_EQ(printed(0), "");
  EXPECT_EQ(lines_of(printed(1)), 1);
  EXPECT_EQ(lines_of(printed(3)), 3);
  EXPECT_EQ(lines_of(printed(25)), 13);
  EXPECT_EQ(lines_of(printed(100, {.lines = 0})), 1);
  EXPECT_EQ(printed(100, {.quiet = true}), "");
}

TEST(Progress, OfARunThatGoesOn) {
  const std::string text = printed(100, {.start = 50});
  EXPECT_EQ(lines_of(text), 5);
  EXPECT_TRUE(text.starts_with("[##################............] 60/100")) << text;
}

TEST(Progress, RateLeavesTheFirstStepOut) {
  std::FILE* file = std::tmpfile();
  Progress progress(4, {.lines = 4, .out = file});
  std::this_thread::sleep_for(std::chrono::milliseconds(400));  // it compiles
  progress.show(1);
  progress.show(2);
  const std::string text = contents(file);
  std::fclose(file);
  std::smatch rates;
  ASSERT_TRUE(std::regex_search(
      text, rates, std::regex(R"(1/4  ([0-9.]+) steps/s  0:\d\d left\n.*2/4  ([0-9.]+) steps/s)")))
      << text;
  EXPECT_LT(std::stod(rates[1]), 2.6);
  EXPECT_GT(std::stod(rates[2]), 2.6);
}

TEST(Progress, OneLineOnATerminal) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(master, 0);
  ASSERT_EQ(::grantpt(master), 0);
  ASSERT_EQ(::unlockpt(master), 0);
  std::FILE* terminal = ::fdopen(::open(::ptsname(master), O_RDWR | O_NOCTTY), "w");
  ASSERT_NE(terminal, nullptr);
  {
    Progress progress(10, {.out = terminal});
    progress.show(1, {{"loss", NAN}});
    progress.show(2, {{"loss", 2}});  // too soon
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    progress.show(3, {{"loss", INFINITY}});
  }  // an unfinished line is ended
  std::fclose(terminal);
  std::string seen;
  char part[4096];
  for (ssize_t n; (n = ::read(master, part, sizeof part)) > 0;)
    seen.append(part, static_cast<size_t>(n));
  ::close(master);
  EXPECT_EQ(std::ranges::count(seen, '\n'), 1) << seen;
  EXPECT_TRUE(seen.starts_with("\r[###")) << seen;
  EXPECT_NE(seen.find("1/10  loss nan"), std::string::npos) << seen;
  EXPECT_EQ(seen.find("2/10"), std::string::npos) << seen;
  EXPECT_NE(seen.find("\x1b[K\r[#########"), std::string::npos) << seen;
  EXPECT_NE(seen.find("3/10  loss inf"), std::string::npos) << seen;
}

TEST(Progress, WrongNumbers) {
  for (const ProgressOptions& wrong :
       {ProgressOptions{.items_per_step = -1}, {.start = 11}, {.start = -1}, {.lines = -1}})
    testing::expect_error(Errc::Argument, "Progress: 10 steps", [&] { Progress p(10, wrong); });
  testing::expect_error(Errc::Argument, "no negative numbers", [&] { Progress p(-1); });
}

}  // namespace
}  // namespace tandem::train
