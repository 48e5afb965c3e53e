#include "ir/text/spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tandem::ir {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_plain(std::string_view name) {
  return !name.empty() && is_name_start(name[0]) && std::ranges::all_of(name, is_name_char);
}

}  // namespace

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_name_start(c) || is_digit(c) || c == '.'; }

std::string spell(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string spell(const Number& value) {
  if (value.is_float()) return spell(value.to_double());
  if (value.kind() == Number::Kind::Bool) return value.to_bool() ? "true" : "false";
  return fmt::format("{}", value.to_int());
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out += '"';
}

bool has_number_suffix(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot != std::string_view::npos && dot + 1 < name.size() &&
         std::ranges::all_of(name.substr(dot + 1), is_digit);
}

std::string spell_name(std::string_view name) {
  return is_plain(name) ? std::string(name) : quoted(name);
}

std::string spell_stem(std::string_view name) {
  return is_plain(name) && !has_number_suffix(name) ? std::string(name) : quoted(name);
}

}  // namespace tandem::ir
