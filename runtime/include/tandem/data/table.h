// Tables of text: CSV files, by columns.
#ifndef TANDEM_DATA_TABLE_H
#define TANDEM_DATA_TABLE_H

#include <tandem/tensor.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::data {

struct CsvOptions {
  bool header = true;  // the first line names the columns; without, they are called "0", "1", ...
  char delimiter = ',';
  char quote = '"';
  /// Cells that say that there is no value, compared without the blanks around them.
  std::vector<std::string> missing = {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"};
};

/// A column of categories: of each row the place of its text in `names`, -1 where it is missing.
struct Categories {
  Tensor codes;  // i64 [rows]
  std::vector<std::string> names;
};

/// What a CSV file holds. Columns are read as what the program asks for.
class TANDEM_API Table {
 public:
  int64_t rows() const { return static_cast<int64_t>(lines_.size()); }
  const std::vector<std::string>& columns() const { return columns_; }

  /// A cell's text, without quotes.
  std::string_view text(int64_t row, std::string_view column) const;
  std::vector<std::string> texts(std::string_view column) const;

  /// A column of numbers: [rows] of `dtype`. Missing ones are NaN. Error{Parse}, which names file,
  /// line and column, for what is no number or does not fit the dtype, and for what is missing
  /// where the dtype has no NaN. Bool takes 0, 1, true and false.
  Tensor numbers(std::string_view column, DType dtype = f32) const;
  /// Several columns, or all: [rows, columns].
  Tensor numbers(const std::vector<std::string>& columns, DType dtype = f32) const;
  Tensor numbers(std::initializer_list<std::string_view> columns, DType dtype = f32) const {
    return numbers(std::vector<std::string>(columns.begin(), columns.end()), dtype);
  }
  Tensor numbers(DType dtype = f32) const;

  /// A column of texts as numbers: the categories sorted by name, or in the order of `names`, of
  /// which a row must have one (so that a test set gets the codes of its training set).
  Categories categories(std::string_view column) const;
  Categories categories(std::string_view column, const std::vector<std::string>& names) const;

 private:
  friend class CsvReader;

  size_t column_of(std::string_view name) const;
  std::string_view cell(size_t row, size_t column) const;
  bool is_missing(std::string_view cell) const;
  [[noreturn]] void refuse(size_t row, size_t column, const std::string& problem) const;
  template <class Number>
  Number number(size_t row, size_t column, DType dtype) const;
  template <class Number>
  Tensor numbers_at(const std::vector<size_t>& columns, DType dtype) const;
  Tensor numbers_at(const std::vector<size_t>& columns, DType dtype) const;

  std::string file_;  // for messages
  std::vector<std::string> columns_, missing_;
  std::string contents_;        // of all cells, row by row
  std::vector<size_t> ends_;    // of each cell, in contents_
  std::vector<int64_t> lines_;  // where each row begins
};

/// A CSV file (RFC 4180): cells in quotes may hold delimiters, ends of lines and doubled quotes;
/// lines end in LF or CR LF; empty lines are skipped, and so is a byte order mark. What gzip
/// compressed is read as it is. Error{Parse}, which names file and line, for rows of another number
/// of cells and for quotes that do not end; Error{File} if the file cannot be read.
TANDEM_API Table load_csv(const std::string& path, const CsvOptions& options = {});
/// The same from text; messages call it `name`.
TANDEM_API Table parse_csv(std::string_view text, const CsvOptions& options = {},
                           const std::string& name = "text");

}  // namespace tandem::data

#endif  // TANDEM_DATA_TABLE_H
