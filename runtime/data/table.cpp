#include <fmt/format.h>
#include <tandem/data/dataset.h>
#include <tandem/data/table.h>
#include <tandem/ops.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "ir/base/error.h"
#include "runtime/data/numbers.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::data {
namespace {

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// All of `text`, or none.
template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, value);
  if (failed == std::errc() && stop == end) return value;
  // Beyond the largest, or below the smallest above zero: rounded, as elsewhere.
  if constexpr (std::is_floating_point_v<Number>)
    if (failed == std::errc::result_out_of_range && stop == end)
      return std::strtod(std::string(text).c_str(), nullptr);
  return {};
}

std::optional<int64_t> integer(std::string_view text) {
  if (const auto whole = whole_number<int64_t>(text)) return whole;
  const auto real = whole_number<double>(text);  // as 3.0 or 1e3
  if (real && std::trunc(*real) == *real && std::abs(*real) < 0x1p63)
    return static_cast<int64_t>(*real);
  return {};
}

std::optional<int64_t> truth(std::string_view text) {
  constexpr std::string_view kWords[][3] = {{"false", "False", "FALSE"}, {"true", "True", "TRUE"}};
  for (const int64_t value : {0, 1})
    if (std::ranges::count(kWords[value], text) > 0) return value;
  return integer(text);
}

struct Range {
  int64_t least, most;
};
template <class T>
constexpr Range kRangeOf{std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};

Range range_of(DType dtype) {
  constexpr std::pair<DType, Range> kRanges[] = {
      {i32, kRangeOf<int32_t>}, {i16, kRangeOf<int16_t>}, {i8, kRangeOf<int8_t>},
      {u8, kRangeOf<uint8_t>},  {boolean, {0, 1}},
  };
  const auto* const found =
      std::ranges::find(kRanges, dtype, [](const auto& entry) { return entry.first; });
  return found == std::end(kRanges) ? kRangeOf<int64_t> : found->second;
}

/// None if `dtype` does not hold it.
template <class Number>
std::optional<Number> number_of(std::string_view text, DType dtype) {
  if constexpr (std::is_same_v<Number, double>) {
    return whole_number<double>(text);
  } else {
    const auto value = dtype == boolean ? truth(text) : integer(text);
    const Range range = range_of(dtype);
    return value && *value >= range.least && *value <= range.most ? value : std::nullopt;
  }
}

}  // namespace

size_t Table::column_of(std::string_view name) const {
  const auto found = std::ranges::find(columns_, name);
  if (found == columns_.end())
    ir::fail(Errc::Argument, fmt::format("{}: no column \"{}\"; there are \"{}\"", file_, name,
                                         fmt::join(columns_, "\", \"")));
  if (std::ranges::count(columns_, name) > 1)
    ir::fail(Errc::Argument, fmt::format("{}: several columns \"{}\"", file_, name));
  return static_cast<size_t>(found - columns_.begin());
}

std::string_view Table::cell(size_t row, size_t column) const {
  const size_t at = row * columns_.size() + column, begin = at == 0 ? 0 : ends_[at - 1];
  return std::string_view(contents_).substr(begin, ends_[at] - begin);
}

bool Table::is_missing(std::string_view cell) const {
  return std::ranges::count(missing_, without_blanks(cell)) > 0;
}

void Table::refuse(size_t row, size_t column, const std::string& problem) const {
  ir::fail(Errc::Parse, fmt::format("{}: line {}, column \"{}\": {}", file_, lines_[row],
                                    columns_[column], problem));
}

std::string_view Table::text(int64_t row, std::string_view column) const {
  detail::check_index("Table: row", row, rows());
  return cell(static_cast<size_t>(row), column_of(column));
}

std::vector<std::string> Table::texts(std::string_view column) const {
  const size_t at = column_of(column);
  std::vector<std::string> texts;
  for (size_t row = 0; row < lines_.size(); ++row) texts.emplace_back(cell(row, at));
  return texts;
}

template <class Number>
Number Table::number(size_t row, size_t column, DType dtype) const {
  const std::string_view text = cell(row, column);
  if (is_missing(text)) {
    if (!std::numeric_limits<Number>::has_quiet_NaN)
      refuse(row, column, fmt::format("a missing value, which {} has not", ir::name(dtype)));
    return std::numeric_limits<Number>::quiet_NaN();
  }
  const std::optional<Number> number = number_of<Number>(without_blanks(text), dtype);
  if (!number)
    refuse(row, column,
           fmt::format("\"{}\"; expected a number that {} holds", text, ir::name(dtype)));
  return *number;
}

template <class Number>
Tensor Table::numbers_at(const std::vector<size_t>& columns, DType dtype) const {
  const DType wide = std::is_same_v<Number, double> ? f64 : i64;
  Tensor out = runtime::empty_tensor({rows(), std::ssize(columns)}, wide);
  auto* to = static_cast<Number*>(out.impl()->data());
  for (size_t row = 0; row < lines_.size(); ++row)
    for (const size_t column : columns) *to++ = number<Number>(row, column, dtype);
  return out.to(dtype);
}

Tensor Table::numbers_at(const std::vector<size_t>& columns, DType dtype) const {
  return ir::is_floating(dtype) ? numbers_at<double>(columns, dtype)
                                : numbers_at<int64_t>(columns, dtype);
}

Tensor Table::numbers(const std::vector<std::string>& columns, DType dtype) const {
  std::vector<size_t> places;
  for (const std::string& column : columns) places.push_back(column_of(column));
  return numbers_at(places, dtype);
}

Tensor Table::numbers(DType dtype) const {
  std::vector<size_t> places(columns_.size());
  std::iota(places.begin(), places.end(), size_t{0});
  return numbers_at(places, dtype);
}

Tensor Table::numbers(std::string_view column, DType dtype) const {
  return numbers_at({column_of(column)}, dtype).squeeze(1);
}

Categories Table::categories(std::string_view column) const {
  const size_t at = column_of(column);
  std::vector<std::string> names;
  for (size_t row = 0; row < lines_.size(); ++row)
    if (!is_missing(cell(row, at))) names.emplace_back(cell(row, at));
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return categories(column, names);
}

Categories Table::categories(std::string_view column, const std::vector<std::string>& names) const {
  const size_t at = column_of(column);
  std::map<std::string_view, int64_t> code_of;
  for (const std::string& name : names) code_of.emplace(name, std::ssize(code_of));
  if (code_of.size() != names.size())
    ir::fail(Errc::Argument, "Table::categories: expected each name once");
  std::vector<int64_t> codes;
  for (size_t row = 0; row < lines_.size(); ++row) {
    const auto found = code_of.find(cell(row, at));
    if (found == code_of.end() && !is_missing(cell(row, at)))
      refuse(row, at,
             fmt::format("\"{}\"; expected one of the {} categories", cell(row, at), names.size()));
    codes.push_back(found == code_of.end() ? -1 : found->second);
  }
  return {tensor_of(codes), names};
}

}  // namespace tandem::data
