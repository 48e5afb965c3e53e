#include <fmt/format.h>
#include <tandem/train/progress.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "ir/base/error.h"

namespace tandem::train {
namespace {

constexpr int kBar = 30;                           // characters
constexpr double kBetweenLines = 0.1;              // seconds, on a terminal
constexpr std::string_view kClearRest = "\x1b[K";  // of the line

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// 0:05, 12:34, 1:02:03.
std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(std::ceil(seconds));
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

/// About four digits.
std::string short_number(double value) {
  const double size = std::abs(value);
  if (value == 0 || (size >= 1e-3 && size < 1e4)) return fmt::format("{:.4f}", value);
  return fmt::format("{:.3e}", value);
}

std::string short_rate(double rate) { return fmt::format("{:.{}f}", rate, rate < 10 ? 2 : 0); }

}  // namespace

Progress::Progress(int64_t steps, const ProgressOptions& options)
    : steps_(steps),
      options_(options),
      terminal_(::isatty(::fileno(options.out)) != 0),
      measured_from_(options.start),
      since_(seconds()) {
  if (steps < 0 || options.start < 0 || options.start > steps || options.lines < 0 ||
      options.items_per_step < 0)
    ir::fail(ir::Errc::Argument,
             fmt::format("Progress: {} steps, start {}, {} lines, {} items per step; expected no "
                         "negative numbers, and a start at or before the end",
                         steps, options.start, options.lines, options.items_per_step));
}

Progress::~Progress() {
  if (line_open_) std::fputc('\n', options_.out);
}

bool Progress::is_due(int64_t done, double now) const {
  if (options_.quiet) return false;
  if (done >= steps_) return true;
  if (terminal_) return now - shown_ >= kBetweenLines;
  return options_.lines > 0 && done % std::max<int64_t>(1, steps_ / options_.lines) == 0;
}

double Progress::rate(int64_t done, double now) const {
  return static_cast<double>(done - measured_from_) / std::max(now - since_, 1e-9);
}

void Progress::show(int64_t done, const Values& values) {
  const double now = seconds();
  if (is_due(done, now)) print(done, now, values);
  if (measuring_ || done <= options_.start) return;
  measuring_ = true;
  measured_from_ = done;
  since_ = now;
}

void Progress::print(int64_t done, double now, const Values& values) {
  shown_ = now;
  const int filled =
      steps_ == 0 ? kBar : static_cast<int>(kBar * std::clamp<int64_t>(done, 0, steps_) / steps_);
  std::string line =
      fmt::format("[{:#>{}}{:.>{}}] {}/{}", "", filled, "", kBar - filled, done, steps_);
  for (const auto& [name, value] : values)
    line += fmt::format("  {} {}", name, short_number(value));
  if (const double rate = this->rate(done, now); rate > 0)
    line += fmt::format(
        "  {} {}/s  {} left", short_rate(rate * static_cast<double>(options_.items_per_step)),
        options_.unit, duration(static_cast<double>(std::max<int64_t>(0, steps_ - done)) / rate));
  line_open_ = terminal_ && done < steps_;
  fmt::print(options_.out, "{}{}{}{}", terminal_ ? "\r" : "", line, terminal_ ? kClearRest : "",
             line_open_ ? "" : "\n");
  std::fflush(options_.out);
}

}  // namespace tandem::train
