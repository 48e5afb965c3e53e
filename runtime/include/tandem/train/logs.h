// Logs of a training run: numbers by name, step by step, in CSV, JSON lines or TensorBoard's files.
#ifndef TANDEM_TRAIN_LOGS_H
#define TANDEM_TRAIN_LOGS_H

#include <tandem/ir/export.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::train {

/// Numbers of one step, by name: {{"loss", 1.5}, {"lr", 1e-3}}.
using Values = std::vector<std::pair<std::string, double>>;

struct LogOptions {
  /// The step at which this run goes on: what an earlier one wrote of it and of later steps is
  /// dropped, and the rest is kept. None: the log starts anew.
  std::optional<int64_t> resume_at = {};
};

/// Where numbers go. What `write` was given is in the file when it returns: a killed program loses
/// none of it.
class TANDEM_API Log {
 public:
  virtual ~Log();
  /// Error{Argument} for a name that is empty, "step" or given twice; Error{File} if the file
  /// cannot be written.
  virtual void write(int64_t step, const Values& values) = 0;
};

struct CsvOptions {
  std::vector<std::string> columns = {};  // beside "step"; none: the names of the first row
  std::optional<int64_t> resume_at = {};
};

/// A header and a row for each step, numbers so that they read back exactly; a column of which a
/// step gives no value is left empty. Error{Argument} for a value that has no column.
class TANDEM_API CsvLog final : public Log {
 public:
  /// Error{File} if `path` cannot be written, or is to be resumed and is no such log.
  explicit CsvLog(const std::string& path, const CsvOptions& options = {});
  ~CsvLog() override;
  void write(int64_t step, const Values& values) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A JSON object for each step: {"step":1,"loss":0.5}. Numbers that JSON lacks are the strings
/// "NaN", "Infinity" and "-Infinity".
class TANDEM_API JsonLinesLog final : public Log {
 public:
  /// Errors as CsvLog's.
  explicit JsonLinesLog(const std::string& path, const LogOptions& options = {});
  ~JsonLinesLog() override;
  void write(int64_t step, const Values& values) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// torch.utils.tensorboard.SummaryWriter(folder).add_scalar: an event file in `folder` (made if it
/// is missing), which `tensorboard --logdir` shows. Each log writes a file of its own; one that
/// resumes tells TensorBoard to forget the later steps of the others (SummaryWriter's purge_step).
/// Values are f32 there.
class TANDEM_API TensorBoardLog final : public Log {
 public:
  explicit TensorBoardLog(const std::string& folder, const LogOptions& options = {});
  ~TensorBoardLog() override;
  void write(int64_t step, const Values& values) override;
  /// The event file.
  const std::string& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::train

#endif  // TANDEM_TRAIN_LOGS_H
