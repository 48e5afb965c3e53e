// A progress bar.
#ifndef TANDEM_TRAIN_PROGRESS_H
#define TANDEM_TRAIN_PROGRESS_H

#include <tandem/train/logs.h>

#include <cstdio>
#include <string>

namespace tandem::train {

struct ProgressOptions {
  int64_t items_per_step = 1;  // what the rate counts: tokens, images
  std::string unit = "steps";  // and its name
  int64_t start = 0;           // steps that an earlier run has done
  int lines = 10;              // of a whole run, where the output is no terminal
  bool quiet = false;          // show nothing
  std::FILE* out = stdout;
};

/// A bar with values, rate and time left: `[####......] 40/100  loss 1.2345  310 steps/s  0:12
/// left`. On a terminal one line, rewritten at most ten times a second; else a line every so often.
/// The first step, which may compile, does not count for the rate.
class TANDEM_API Progress {
 public:
  /// Error{Argument} for negative numbers and a start behind the end.
  explicit Progress(int64_t steps, const ProgressOptions& options = {});
  /// Ends the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` steps are done, those of an earlier run included.
  void show(int64_t done, const Values& values = {});

 private:
  bool is_due(int64_t done, double now) const;
  double rate(int64_t done, double now) const;
  void print(int64_t done, double now, const Values& values);

  int64_t steps_;
  ProgressOptions options_;
  bool terminal_, line_open_ = false;
  int64_t measured_from_;  // a step
  bool measuring_ = false;
  double since_;       // when that was, in seconds
  double shown_ = -1;  // when the line was printed
};

}  // namespace tandem::train

#endif  // TANDEM_TRAIN_PROGRESS_H
