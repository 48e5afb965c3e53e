#include <fmt/format.h>
#include <tandem/train/curves.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "ir/base/error.h"
#include "ir/base/file_writer.h"

namespace tandem::train {
namespace {

constexpr double kLeft = 60, kRight = 20, kTop = 30, kBottom = 50;
constexpr int kLeastWidth = 120, kLeastHeight = 120, kTicks = 6;
constexpr std::array<const char*, 6> kColours = {"#06c", "#d33", "#283", "#85b", "#c60", "#488"};
constexpr std::array<const char*, 3> kLevelColours = {"#c60", "#070", "#666"};

struct Point {
  double x, y;
};

/// A span of numbers.
struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// One that has a width.
  Range usable() const {
    if (low > high) return {0, 1};
    if (low < high) return *this;
    const double margin = low == 0 ? 1 : std::abs(low) / 2;
    return {low - margin, high + margin};
  }
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

/// The drawing so far, and where numbers lie in it.
class Drawing {
 public:
  Drawing(const CurveOptions& options, const Range& x, const Range& y)
      : options_(options), x_(x), y_(y) {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"white\"/>\n",
        options.width, options.height);
  }

  double x(double value) const {
    return kLeft + (options_.width - kLeft - kRight) * (value - x_.low) / (x_.high - x_.low);
  }
  double y(double value) const {
    return options_.height - kBottom -
           (options_.height - kTop - kBottom) * (value - y_.low) / (y_.high - y_.low);
  }

  void text(double x, double y, const std::string& anchor, const std::string& text,
            const std::string& colour = "black") {
    out_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n", x,
                    y, anchor, colour, escaped(text));
  }
  void line(Point from, Point to, const std::string& style) {
    out_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n",
                        from.x, from.y, to.x, to.y, style);
  }
  void polyline(const std::vector<Point>& points, const std::string& colour) {
    std::string list;
    for (const Point& p : points) list += fmt::format("{:.1f},{:.1f} ", x(p.x), y(p.y));
    if (points.size() == 1) list += list;  // a line from it to itself shows as a dot
    out_ += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" "
        "stroke-linecap=\"round\"/>\n",
        list, colour);
  }
  void horizontal(double value, const std::string& style) {
    line({kLeft, y(value)}, {options_.width - kRight, y(value)}, style);
  }
  std::string finish() { return out_ + "</svg>\n"; }

 private:
  const CurveOptions& options_;
  Range x_, y_;
  std::string out_;
};

/// Multiples of 1, 2 or 5 times a power of ten, about `kTicks` of them.
std::vector<double> ticks(const Range& range) {
  const double rough = (range.high - range.low) / kTicks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double step = rough <= 2 * power ? 2 * power : rough <= 5 * power ? 5 * power : 10 * power;
  std::vector<double> all;
  const double first = std::ceil(range.low / step);
  for (int i = 0; i <= kTicks && (first + i) * step <= range.high; ++i)
    all.push_back((first + i) * step);
  return all;
}

/// Powers of ten by their logarithms.
std::vector<double> powers(const Range& logs) {
  std::vector<double> all;
  for (double k = std::ceil(logs.low); k <= logs.high; ++k) all.push_back(k);
  return all.size() < 2 ? ticks(logs) : all;
}

double y_of(double value, const CurveOptions& options) {
  return options.log_y ? std::log10(value) : value;  // not finite where there is none
}

bool is_finite(const Point& p) { return std::isfinite(p.x) && std::isfinite(p.y); }

Point mean(std::span<const Point> points) {
  Point sum{0, 0};
  for (const Point& p : points) sum.x += p.x, sum.y += p.y;
  return {sum.x / static_cast<double>(points.size()), sum.y / static_cast<double>(points.size())};
}

/// At most `options.points` points, each the mean of the finite ones around it; in pieces between
/// which there are none.
std::vector<std::vector<Point>> pieces_of(const Curve& curve, const CurveOptions& options) {
  const size_t count = curve.y.size(), most = static_cast<size_t>(options.points);
  const size_t stride = std::max<size_t>(1, (count + most - 1) / most);
  std::vector<std::vector<Point>> pieces(1);
  for (size_t begin = 0; begin < count; begin += stride) {
    std::vector<Point> around;
    for (size_t i = begin; i < std::min(begin + stride, count); ++i) {
      const double x = curve.x.empty() ? static_cast<double>(i) : curve.x[i];
      around.push_back({x, y_of(curve.y[i], options)});
    }
    std::erase_if(around, [](const Point& p) { return !is_finite(p); });
    if (!around.empty())
      pieces.back().push_back(mean(around));
    else if (!pieces.back().empty())
      pieces.emplace_back();
  }
  if (pieces.back().empty()) pieces.pop_back();
  return pieces;
}

struct Drawn {
  std::vector<std::vector<std::vector<Point>>> curves;
  Range x, y;
};

Drawn drawn(const std::vector<Curve>& curves, const std::vector<Level>& levels,
            const CurveOptions& options) {
  Drawn all;
  for (const Curve& curve : curves) {
    all.curves.push_back(pieces_of(curve, options));
    for (const auto& piece : all.curves.back())
      for (const Point& p : piece) all.x.include(p.x), all.y.include(p.y);
  }
  for (const Level& level : levels)
    if (const double y = y_of(level.y, options); std::isfinite(y)) all.y.include(y);
  if (!options.log_y && all.y.low > 0 && all.y.low < all.y.high / 2) all.y.low = 0;
  all.x = all.x.usable();
  all.y = all.y.usable();
  return all;
}

void draw_axes(Drawing& drawing, const Drawn& all, const CurveOptions& options) {
  for (const double y : options.log_y ? powers(all.y) : ticks(all.y)) {
    drawing.horizontal(y, "stroke=\"#ddd\"");
    drawing.text(kLeft - 6, drawing.y(y) + 4, "end",
                 fmt::format("{:.4g}", options.log_y ? std::pow(10, y) : y));
  }
  const double bottom = options.height - kBottom;
  for (const double x : ticks(all.x)) {
    drawing.line({drawing.x(x), bottom}, {drawing.x(x), bottom + 4}, "stroke=\"#888\"");
    drawing.text(drawing.x(x), bottom + 18, "middle", fmt::format("{:.6g}", x));
  }
  drawing.line({kLeft, bottom}, {options.width - kRight, bottom}, "stroke=\"#888\"");
  drawing.text(options.width / 2.0, options.height - 12, "middle", options.x_label);
  drawing.text(kLeft, 18, "start", options.y_label);
  drawing.text(options.width / 2.0, 18, "middle", options.title);
}

void draw_levels(Drawing& drawing, const std::vector<Level>& levels, const CurveOptions& options) {
  for (size_t i = 0; i < levels.size(); ++i) {
    const double y = y_of(levels[i].y, options);
    if (!std::isfinite(y)) continue;
    const std::string colour = kLevelColours[i % kLevelColours.size()];
    drawing.horizontal(y, fmt::format("stroke=\"{}\" stroke-dasharray=\"5 4\"", colour));
    drawing.text(options.width - kRight, drawing.y(y) - 5, "end",
                 fmt::format("{} {:.4g}", levels[i].name, levels[i].y), colour);
  }
}

void check(const std::vector<Curve>& curves, const CurveOptions& options) {
  if (options.width < kLeastWidth || options.height < kLeastHeight || options.points < 1)
    ir::fail(ir::Errc::Argument,
             fmt::format("svg: {} by {}, {} points; expected at least {} by {}, and a point",
                         options.width, options.height, options.points, kLeastWidth, kLeastHeight));
  for (const Curve& curve : curves)
    if (!curve.x.empty() && curve.x.size() != curve.y.size())
      ir::fail(ir::Errc::Argument,
               fmt::format("svg: the curve \"{}\": expected an x for each y, got {} and {}",
                           curve.name, curve.x.size(), curve.y.size()));
}

}  // namespace

std::string svg(const std::vector<Curve>& curves, const std::vector<Level>& levels,
                const CurveOptions& options) {
  check(curves, options);
  const Drawn all = drawn(curves, levels, options);
  Drawing drawing(options, all.x, all.y);
  draw_axes(drawing, all, options);
  for (size_t i = 0; i < curves.size(); ++i) {
    const std::string colour = kColours[i % kColours.size()];
    for (const std::vector<Point>& piece : all.curves[i]) drawing.polyline(piece, colour);
    drawing.text(options.width - kRight, kTop + 12 + 15 * static_cast<double>(i), "end",
                 curves[i].name, colour);
  }
  draw_levels(drawing, levels, options);
  return drawing.finish();
}

void write_svg(const std::string& path, const std::vector<Curve>& curves,
               const std::vector<Level>& levels, const CurveOptions& options) {
  const std::string text = svg(curves, levels, options);
  ir::FileWriter file(path);
  file.write(text);
  file.commit();
}

}  // namespace tandem::train
