// Logs of lines: CSV and JSON.
#include <fmt/format.h>
#include <tandem/train/logs.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "ir/base/error.h"
#include "ir/base/file_writer.h"
#include "runtime/io/files.h"
#include "runtime/train/appended_file.h"
#include "runtime/train/values.h"

namespace tandem::train {
namespace {

/// The line at the start of `rest` with its end, which is taken off; one without an end, which a
/// killed program left, is none.
std::string_view take_line(std::string_view& rest) {
  const size_t size = rest.find('\n') + 1;
  const std::string_view line = rest.substr(0, size);
  rest.remove_prefix(size == 0 ? rest.size() : size);
  return line;
}

/// The step that a line begins with, behind `prefix`; none if it does not.
std::optional<int64_t> step_of(std::string_view line, std::string_view prefix) {
  if (!line.starts_with(prefix)) return {};
  line.remove_prefix(prefix.size());
  int64_t step = 0;
  const auto [end, bad] = std::from_chars(line.data(), line.data() + line.size(), step);
  if (bad != std::errc() || end == line.data() + line.size()) return {};
  return *end == ',' || *end == '}' || *end == '\n' ? std::optional(step) : std::nullopt;
}

/// How the lines of a log begin.
struct Form {
  std::string_view header;  // of the first line; empty: there is none
  std::string_view step;    // what precedes the step in the others
};
constexpr Form kCsv{"step", ""}, kJsonLines{"", "{\"step\":"};

/// Shortens the log at `path` to its header and the lines of steps before `resume_at`. Returns
/// what is left; Error{File}, and the file unchanged, if it is no such log.
std::string keep_earlier(std::string_view log, const std::string& path, const Form& form,
                         int64_t resume_at) {
  const std::string all = runtime::read_file(path);
  std::string kept;
  std::string_view rest = all;
  for (int number = 1; !rest.empty(); ++number) {
    const std::string_view line = take_line(rest);
    if (line.empty()) break;
    const bool is_header = number == 1 && !form.header.empty();
    const std::optional<int64_t> step = is_header ? std::nullopt : step_of(line, form.step);
    if (is_header ? !line.starts_with(form.header) : !step)
      runtime::fail_file(log, path,
                         fmt::format("line {} gives no step; expected a log to resume", number));
    if (!step || *step < resume_at) kept += line;
  }
  ir::FileWriter file(path);
  file.write(kept);
  file.commit();
  return kept;
}

bool exists(const std::string& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

/// A cell of a CSV file: quoted where it must be.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

/// The cells of one line.
std::vector<std::string> cells(std::string_view line) {
  std::vector<std::string> all(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size() && (quoted || line[i] != '\n'); ++i) {
    if (line[i] == '"' && quoted && line.substr(i + 1).starts_with('"'))
      all.back() += line[++i];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted)
      all.emplace_back();
    else
      all.back() += line[i];
  }
  return all;
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      quoted += fmt::format("\\u{:04x}", c);
    else
      quoted += c;
  }
  return quoted + '"';
}

std::string json_number(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return fmt::format("{}", value);
}

}  // namespace

Log::~Log() = default;

// --- CSV

struct CsvLog::State {
  runtime::AppendedFile file;
  std::vector<std::string> columns;  // beside the step

  void begin(std::vector<std::string> names) {
    columns = std::move(names);
    std::string header = "step";
    for (const std::string& name : columns) header += ',' + cell(name);
    file.append(header + '\n');
  }
  size_t column(const std::string& name) const {
    const auto at = std::ranges::find(columns, name);
    if (at == columns.end())
      ir::fail(
          ir::Errc::Argument,
          fmt::format("CsvLog: {} has no column \"{}\"; expected one of {} (CsvOptions::columns "
                      "names those that the first row does not give)",
                      file.path(), name, fmt::join(columns, ", ")));
    return static_cast<size_t>(at - columns.begin());
  }
};

CsvLog::CsvLog(const std::string& path, const CsvOptions& options) {
  Values named;
  for (const std::string& name : options.columns) named.emplace_back(name, 0);
  runtime::check_names("CsvLog", named);
  std::vector<std::string> found;
  if (options.resume_at && exists(path)) {
    const std::string kept = keep_earlier("CsvLog", path, kCsv, *options.resume_at);
    found = cells(std::string_view(kept).substr(0, kept.find('\n')));
  }
  const bool resumed = found.size() > 1;
  state_.reset(new State{{path, resumed}, {}});
  if (resumed)
    state_->columns.assign(found.begin() + 1, found.end());
  else if (!options.columns.empty())
    state_->begin(options.columns);
}

CsvLog::~CsvLog() = default;

void CsvLog::write(int64_t step, const Values& values) {
  runtime::check_names("CsvLog", values);
  if (state_->columns.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : values) names.push_back(name);
    state_->begin(std::move(names));
  }
  std::vector<std::string> row(state_->columns.size());
  for (const auto& [name, value] : values) row[state_->column(name)] = fmt::format("{}", value);
  std::string line = fmt::format("{}", step);
  for (const std::string& value : row) line += ',' + value;
  state_->file.append(line + '\n');
}

// --- JSON lines

struct JsonLinesLog::State {
  runtime::AppendedFile file;
};

JsonLinesLog::JsonLinesLog(const std::string& path, const LogOptions& options) {
  const bool resumed = options.resume_at && exists(path);
  if (resumed) keep_earlier("JsonLinesLog", path, kJsonLines, *options.resume_at);
  state_.reset(new State{{path, resumed}});
}

JsonLinesLog::~JsonLinesLog() = default;

void JsonLinesLog::write(int64_t step, const Values& values) {
  runtime::check_names("JsonLinesLog", values);
  std::string line = fmt::format("{}{}", kJsonLines.step, step);
  for (const auto& [name, value] : values)
    line += ',' + json_string(name) + ':' + json_number(value);
  state_->file.append(line + "}\n");
}

}  // namespace tandem::train
