// Curves as SVG.
#include <gtest/gtest.h>
#include <tandem/train.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <regex>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace tandem::train {
namespace {

using ir::Errc;

/// The points of each line of a drawing.
std::vector<std::vector<std::pair<double, double>>> polylines(const std::string& drawing) {
  std::vector<std::vector<std::pair<double, double>>> all;
  const std::regex line("<polyline points=\"([^\"]*)\""), point("(-?[0-9.]+),(-?[0-9.]+)");
  for (std::sregex_iterator i(drawing.begin(), drawing.end(), line), end; i != end; ++i) {
    const std::string points = (*i)[1];
    all.emplace_back();
    for (std::sregex_iterator p(points.begin(), points.end(), point); p != end; ++p)
      all.back().emplace_back(std::stod((*p)[1]), std::stod((*p)[2]));
  }
  return all;
}

std::vector<double> falling(size_t count) {
  std::vector<double> y;
  for (size_t i = 0; i < count; ++i) y.push_back(4 * std::exp(-static_cast<double>(i) / 100));
  return y;
}

TEST(Curves, ShowTheNumbers) {
  const std::string drawing = svg({{"loss", {4, 2, 3}}});
  const auto lines = polylines(drawing);
  ASSERT_EQ(lines.size(), 1u);
  ASSERT_EQ(lines[0].size(), 3u);
  EXPECT_LT(lines[0][0].second, lines[0][2].second) << "up is smaller in SVG";
  EXPECT_LT(lines[0][2].second, lines[0][1].second);
  EXPECT_DOUBLE_EQ(lines[0][1].first * 2, lines[0][0].first + lines[0][2].first);
  EXPECT_NE(drawing.find(">loss</text>"), std::string::npos);
  EXPECT_NE(drawing.find(">step</text>"), std::string::npos);
  EXPECT_TRUE(drawing.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\""));
  EXPECT_TRUE(drawing.ends_with("</svg>\n"));
}

TEST(Curves, StayInsideTheDrawing) {
  for (const bool log_y : {false, true})
    for (const double scale : {1e-12, 1.0, 1e12}) {
      std::vector<double> y = falling(1000);
      for (double& v : y) v *= scale;
      for (const auto& line : polylines(svg({{"a", y}}, {{"b", 5 * scale}}, {.log_y = log_y})))
        for (const auto& [px, py] : line) {
          EXPECT_TRUE(px >= 60 && px <= 700) << px;
          EXPECT_TRUE(py >= 30 && py <= 350) << py;
        }
    }
}

TEST(Curves, LongOnesAreAveraged) {
  const auto lines = polylines(svg({{"a", falling(12345)}, {"b", falling(400)}}));
  EXPECT_LE(lines.at(0).size(), 400u);
  EXPECT_GE(lines.at(0).size(), 390u);
  EXPECT_EQ(lines.at(1).size(), 400u);
}

TEST(Curves, WhatIsNotFiniteLeavesAGap) {
  EXPECT_EQ(polylines(svg({{"a", {1, 2, NAN, 3, INFINITY, -INFINITY, 4, 5}}})).size(), 3u);
  EXPECT_EQ(polylines(svg({{"a", {1, 0, 10}}}, {}, {.log_y = true})).size(), 2u);
  EXPECT_TRUE(polylines(svg({{"a", {NAN}}}, {{"level", NAN}})).empty());
}

TEST(Curves, FewAndEqualNumbers) {
  for (const std::vector<double>& y :
       {std::vector<double>{}, {0}, {3}, {-2, -2, -2}, {1e17, 1e17 + 16}}) {
    const std::string drawing = svg({{"a", y}});
    EXPECT_EQ(drawing.find("nan"), std::string::npos) << drawing;
    EXPECT_EQ(drawing.find("inf"), std::string::npos) << drawing;
  }
  EXPECT_TRUE(svg({}).ends_with("</svg>\n"));
}

TEST(Curves, NamesLevelsAndOwnX) {
  const std::string drawing = svg({{"a < b & c", {1, 2}, {10, 1000}}}, {{"baseline", 1.5}});
  EXPECT_NE(drawing.find(">a &lt; b &amp; c</text>"), std::string::npos);
  EXPECT_NE(drawing.find(">baseline 1.5</text>"), std::string::npos);
  EXPECT_NE(drawing.find("stroke-dasharray"), std::string::npos);
  EXPECT_NE(drawing.find(">1000</text>"), std::string::npos);
}

TEST(Curves, Files) {
  const testing::TemporaryFolder folder;
  write_svg(folder / "loss.svg", {{"loss", {3, 2, 1}}}, {}, {.title = "a run"});
  std::ifstream file(folder / "loss.svg");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, svg({{"loss", {3, 2, 1}}}, {}, {.title = "a run"}));
  testing::expect_error(Errc::File, "cannot write", [&] { write_svg(folder / "no/loss.svg", {}); });
}

TEST(Curves, WrongOptions) {
  testing::expect_error(Errc::Argument, "the curve \"a\": expected an x for each y, got 1 and 2",
                        [] { svg({{"a", {1, 2}, {1}}}); });
  for (const CurveOptions& wrong : {CurveOptions{.width = 10}, {.height = -1}, {.points = 0}})
    testing::expect_error(Errc::Argument, "svg: ", [&] { svg({}, {}, wrong); });
}

}  // namespace
}  // namespace tandem::train
