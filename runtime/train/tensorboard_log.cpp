#include <fmt/format.h>
#include <tandem/train/logs.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>

#include "ir/base/error.h"
#include "runtime/io/files.h"
#include "runtime/train/appended_file.h"
#include "runtime/train/event_file.h"
#include "runtime/train/values.h"

namespace tandem::train {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// TensorBoard takes for event files what has "tfevents" in its name, and reads those of a folder
/// in the order of their names.
std::string new_event_file(const std::string& folder) {
  static std::atomic<int> made{0};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) runtime::fail_file("TensorBoardLog", folder, error.message());
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const std::string name =
      fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<int64_t>(now()), host,
                  ::getpid(), made.fetch_add(1));
  return (std::filesystem::path(folder) / name).string();
}

}  // namespace

struct TensorBoardLog::State {
  runtime::AppendedFile file;
};

TensorBoardLog::TensorBoardLog(const std::string& folder, const LogOptions& options)
    : state_(new State{{new_event_file(folder), /*keep=*/false}}) {
  state_->file.append(runtime::tf_record(runtime::version_event(now())));
  if (options.resume_at)
    state_->file.append(
        runtime::tf_record(runtime::session_start_event(now(), *options.resume_at)));
}

TensorBoardLog::~TensorBoardLog() = default;

void TensorBoardLog::write(int64_t step, const Values& values) {
  runtime::check_names("TensorBoardLog", values);
  state_->file.append(runtime::tf_record(runtime::scalars_event(now(), step, values)));
}

const std::string& TensorBoardLog::path() const { return state_->file.path(); }

}  // namespace tandem::train
