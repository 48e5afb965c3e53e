#include "tests/support/random/data_files.h"

#include <fmt/format.h>
#include <tandem/data.h>
#include <tandem/tandem.h>

#include <fstream>
#include <vector>

#include "ir/base/error.h"
#include "runtime/data/bpe.h"
#include "runtime/io/image.h"
#include "tests/support/temporary_folder.h"

namespace tandem::testing {
namespace {

char any_byte(Random& random) { return static_cast<char>(random.below(256)); }

/// A byte changed, left out or put in, or the end cut off.
void mutate_bytes(std::string& file, Random& random) {
  if (file.empty()) return;
  const size_t at = random.below(file.size());
  switch (random.below(4)) {
    case 0:
      file[at] = any_byte(random);
      break;
    case 1:
      file.erase(at, 1);
      break;
    case 2:
      file.insert(at, 1, any_byte(random));
      break;
    default:
      file.resize(at);
  }
}

std::string with_faults(std::string file, Random& random) {
  if (random.one_in(3))
    for (size_t i = 1 + random.below(3); i-- > 0;) mutate_bytes(file, random);
  return file;
}

void append_big_endian(std::string& file, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(number >> shift);
}

// --- tables

std::string cell(Random& random) {
  static constexpr std::string_view kCells[] = {
      "", "1", "-2.5e3", "NA", "é", "a b", "\"\"", "\"a\"", "\",\"", "\"\r\n\"", "\"\"\"\"", "'"};
  return std::string(random.of(kCells));
}

std::string in_quotes(std::string_view cell) {
  std::string out = "\"";
  for (const char c : cell) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

std::string line_of(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() ? "" : ",") + in_quotes(cell);
  return line + "\n";
}

// --- vocabularies

constexpr std::string_view kLetters = "abcdefgh";

}  // namespace

std::string mutated_table(Random& random) {
  const size_t rows = random.below(6), columns = 1 + random.below(4);
  std::string file = random.one_in(4) ? "\xef\xbb\xbf" : "";
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column)
      file += (column == 0 ? "x" : ",") + cell(random);
    file += random.one_in(2) ? "\r\n" : "\n";
    if (random.one_in(6)) file += "\n";
  }
  return with_faults(file, random);
}

std::string check_table(const std::string& file) {
  const data::Table table = data::parse_csv(file, {.header = false});
  std::string again;
  std::vector<std::vector<std::string>> columns;
  for (const std::string& column : table.columns()) columns.push_back(table.texts(column));
  for (size_t row = 0; row < static_cast<size_t>(table.rows()); ++row) {
    std::vector<std::string> cells;
    for (const auto& column : columns) cells.push_back(column[row]);
    again += line_of(cells);
  }
  const data::Table second = data::parse_csv(again, {.header = false});
  if (second.columns() != table.columns()) return "the table reads back with other columns";
  for (size_t i = 0; i < columns.size(); ++i)
    if (second.texts(table.columns()[i]) != columns[i]) return "the table reads back as another";
  return "";
}

std::string mutated_idx(Random& random) {
  static constexpr std::pair<char, size_t> kTypes[] = {{0x08, 1}, {0x09, 1}, {0x0b, 2},
                                                       {0x0c, 4}, {0x0d, 4}, {0x0e, 8}};
  const auto [code, size] = random.of(kTypes);
  const size_t rank = random.below(4);
  std::string file{'\0', '\0', code, static_cast<char>(rank)};
  size_t bytes = size;
  for (size_t d = 0; d < rank; ++d) {
    const size_t length = random.below(5);
    append_big_endian(file, static_cast<uint32_t>(length));
    bytes *= length;
  }
  for (; bytes > 0; --bytes) file += any_byte(random);
  return with_faults(file, random);
}

std::string check_idx(const std::string& file) {
  const TemporaryFolder folder;
  std::ofstream(folder / "x", std::ios::binary) << file;
  const Tensor tensor = data::load_idx(folder / "x");
  const auto elements = static_cast<size_t>(int64_t{tensor.numel()}) * ir::size_of(tensor.dtype());
  const size_t header = 4 + 4 * static_cast<size_t>(tensor.dim());
  return header + elements == file.size() ? "" : "bytes that no element stands for";
}

std::string mutated_image(Random& random) {
  const runtime::ImageSize size{1 + static_cast<int64_t>(random.below(9)),
                                1 + static_cast<int64_t>(random.below(9)),
                                1 + static_cast<int64_t>(random.below(4))};
  std::string pixels;
  for (int64_t i = size.height * size.width * size.channels; i > 0; --i) pixels += any_byte(random);
  return with_faults(
      runtime::encode_png(reinterpret_cast<const unsigned char*>(pixels.data()), size), random);
}

std::string check_image(const std::string& file) {
  const Tensor image = data::decode_image(file, {.max_pixels = 1 << 20});
  const Tensor pixels = image.permute({1, 2, 0}).contiguous();
  const std::string again = runtime::encode_png(pixels.data<unsigned char>(),
                                                {pixels.size(0), pixels.size(1), pixels.size(2)});
  return equal(data::decode_image(again), image) ? "" : "the image reads back as another";
}

std::string mutated_merges(Random& random) {
  std::vector<std::string> tokens;
  std::string vocabulary = "{", merges = random.one_in(2) ? "#version: 0.2\n" : "";
  const auto add = [&](const std::string& token) {
    vocabulary += fmt::format("{}\"{}\": {}", tokens.empty() ? "" : ", ", token, tokens.size());
    tokens.push_back(token);
  };
  for (const char letter : kLetters) add(std::string(1, letter));
  for (size_t i = random.below(20); i-- > 0;) {
    const std::string left = random.of(tokens), right = random.of(tokens);
    if (std::ranges::count(tokens, left + right) > 0) continue;
    add(left + right);
    merges += left + " " + right + "\n";
  }
  return with_faults(vocabulary + "}\n" + merges, random);
}

std::string check_merges(const std::string& file) {
  const size_t end = std::min(file.find('\n'), file.size());
  const data::Bpe bpe =
      data::bpe_of_files(std::string_view(file).substr(0, end),
                         std::string_view(file).substr(std::min(end + 1, file.size())), {});
  std::string piece;
  for (size_t i = 0; i < 60; ++i) piece += kLetters[(i * i + i / 7) % kLetters.size()];
  std::vector<int64_t> tokens;
  data::append_tokens(bpe, piece, tokens);
  std::string back;
  for (const int64_t token : tokens) back += bpe.bytes[static_cast<size_t>(token)];
  return back == piece ? "" : "tokens that do not spell the text";
}

}  // namespace tandem::testing
