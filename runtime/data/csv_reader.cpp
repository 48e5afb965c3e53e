// CSV text to a table.
#include <fmt/format.h>
#include <tandem/data/table.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/io/deflate.h"
#include "runtime/io/files.h"

namespace tandem::data {

class CsvReader {
 public:
  CsvReader(std::string_view text, const CsvOptions& options, const std::string& name)
      : text_(text), options_(options) {
    table_.file_ = name;
    table_.missing_ = options.missing;
  }

  Table read() {
    check_options();
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
    if (options_.header && next_row()) take_header();
    while (next_row()) add_row();
    if (options_.header && table_.columns_.empty()) refuse(1, "no line that names the columns");
    return std::move(table_);
  }

 private:
  [[noreturn]] void refuse(int64_t line, const std::string& problem) const {
    ir::fail(Errc::Parse, fmt::format("{}: line {}: {}", table_.file_, line, problem));
  }

  void check_options() const {
    const auto ends_lines = [](char c) { return c == '\n' || c == '\r'; };
    if (ends_lines(options_.delimiter) || ends_lines(options_.quote) ||
        options_.delimiter == options_.quote)
      ir::fail(Errc::Argument,
               "CsvOptions: expected two different characters as delimiter and "
               "quote, which end no line");
  }

  bool at_end() const { return at_ == text_.size(); }

  /// Accepts the end of a line, or of the text.
  bool end_of_line() {
    if (at_end()) return true;
    const std::string_view rest = text_.substr(at_);
    const size_t length = rest.starts_with("\r\n") ? 2 : rest.starts_with('\n') ? 1 : 0;
    at_ += length;
    line_ += length > 0;
    return length > 0;
  }

  /// Reads the cells of the next line that is not empty.
  bool next_row() {
    while (!at_end() && end_of_line()) continue;
    if (at_end()) return false;
    row_line_ = line_;
    cells_ = 0;
    do cell();
    while (!end_of_line() && skip_delimiter());
    return true;
  }

  bool skip_delimiter() {
    if (text_[at_] != options_.delimiter)
      refuse(line_, fmt::format("'{}' behind a quoted cell; expected '{}' or the end of the line",
                                text_.substr(at_, 1), options_.delimiter));
    ++at_;
    return true;
  }

  void cell() {
    if (!at_end() && text_[at_] == options_.quote)
      quoted_cell();
    else
      bare_cell();
    table_.ends_.push_back(table_.contents_.size());
    ++cells_;
  }

  void bare_cell() {
    const char ends[] = {options_.delimiter, '\n'};
    size_t end = std::min(text_.find_first_of(std::string_view(ends, 2), at_), text_.size());
    if (end > at_ && end < text_.size() && text_[end] == '\n' && text_[end - 1] == '\r') --end;
    table_.contents_ += text_.substr(at_, end - at_);
    at_ = end;
  }

  void quoted_cell() {
    const int64_t start = line_;
    for (++at_;; ++at_) {
      const size_t end = text_.find(options_.quote, at_);
      if (end == text_.npos) refuse(start, "a quote that does not end");
      const std::string_view part = text_.substr(at_, end - at_);
      line_ += std::ranges::count(part, '\n');
      table_.contents_ += part;
      at_ = end + 1;
      if (at_end() || text_[at_] != options_.quote) return;
      table_.contents_ += options_.quote;  // a doubled one
    }
  }

  void take_header() {
    size_t begin = 0;
    for (const size_t end : table_.ends_) {
      table_.columns_.push_back(table_.contents_.substr(begin, end - begin));
      begin = end;
    }
    table_.ends_.clear();
    table_.contents_.clear();
  }

  void add_row() {
    if (!options_.header && table_.rows() == 0)
      for (size_t i = 0; i < cells_; ++i) table_.columns_.push_back(std::to_string(i));
    if (cells_ != table_.columns_.size())
      refuse(row_line_, fmt::format("{} cells; expected {}", cells_, table_.columns_.size()));
    table_.lines_.push_back(row_line_);
  }

  std::string_view text_;
  const CsvOptions& options_;
  size_t at_ = 0, cells_ = 0;
  int64_t line_ = 1, row_line_ = 1;
  Table table_;
};

Table parse_csv(std::string_view text, const CsvOptions& options, const std::string& name) {
  return CsvReader(text, options, name).read();
}

Table load_csv(const std::string& path, const CsvOptions& options) {
  const std::string text = runtime::reading("load_csv", path, [&] {
    std::string bytes = runtime::read_file(path);
    return runtime::is_gzip(bytes) ? runtime::gunzip(bytes) : bytes;
  });
  return parse_csv(text, options, path);
}

}  // namespace tandem::data
